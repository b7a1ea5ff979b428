"""Faults that a loop commits on purpose: each is written out here as a person would make it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from pertdbg.agent.adapter import Adapter
from pertdbg.errors import PertdbgError
from pertdbg.scenario.model import Fault
from pertdbg.scenario.seeds import stream

SIZE = 0.1
"""Standard deviation of what the faults that write add to a tensor."""


class Loop(Protocol):
    """What a fault needs of the loop."""

    layer: nn.Module
    names: Adapter

    def next_clean_pass(self) -> None:
        """Run the clean pass of the next batch and take its logits as the target."""


Injection = Callable[[Loop, Fault], None]


def inject(stage: Mapping[str, Injection], faults: Iterable[Fault], loop: Loop) -> None:
    """Commit those of a call's faults that belong to a stage of it."""
    for fault in faults:
        if fault.kind in stage:
            stage[fault.kind](loop, fault)


def _other_batch(loop: Loop, fault: Fault) -> None:
    """Take the next batch and set the mode by hand: `adversarial_(False)` would drop delta."""
    if not hasattr(loop.layer, "adversarial_mode"):
        kind = type(loop.layer).__name__
        raise PertdbgError(
            f"fault {fault.kind} needs a layer with adversarial_mode; {kind} has none"
        )
    loop.layer.adversarial_mode = False  # type: ignore[assignment]
    loop.next_clean_pass()
    loop.layer.adversarial_mode = True  # type: ignore[assignment]


def _write_in_place(loop: Loop, fault: Fault) -> None:
    """Write into the kept input: autograd counts a version more."""
    kept = _tensor(loop.layer, loop.names.input)
    with torch.no_grad():
        kept.add_(_noise(kept, fault))


def _write_through_data(loop: Loop, fault: Fault) -> None:
    """Write into the perturbed input between forward and backward, unseen by autograd."""
    perturbed = _tensor(loop.layer, loop.names.perturbed_input)
    perturbed.data.add_(_noise(perturbed, fault))


def _one_element(value: float) -> Injection:
    def write(loop: Loop, fault: Fault) -> None:
        gradient = _gradient(loop)
        chosen = torch.randint(gradient.numel(), (1,), generator=_generator(fault))
        gradient.view(-1)[int(chosen)] = value

    return write


def _zero(loop: Loop, _: Fault) -> None:
    _gradient(loop).zero_()


BEFORE_PASS: Mapping[str, Injection] = {
    "other-batch": _other_batch,
    "write-input-in-place": _write_in_place,
}
BEFORE_BACKWARD: Mapping[str, Injection] = {"write-through-data": _write_through_data}
AFTER_BACKWARD: Mapping[str, Injection] = {
    "nan-gradient": _one_element(float("nan")),
    "inf-gradient": _one_element(float("inf")),
    "zero-gradient": _zero,
}


def _tensor(layer: nn.Module, name: str) -> Tensor:
    found = getattr(layer, name)
    if not isinstance(found, Tensor):
        raise PertdbgError(f"a fault needs the tensor {name!r} of the layer; it is {found!r}")
    return found


def _gradient(loop: Loop) -> Tensor:
    gradient = _tensor(loop.layer, loop.names.delta).grad
    if gradient is None:
        raise PertdbgError("a fault writes into delta's gradient, and no backward has filled it")
    return gradient


def _generator(fault: Fault) -> torch.Generator:
    return torch.Generator().manual_seed(stream(f"fault {fault.call}", fault.seed))


def _noise(like: Tensor, fault: Fault) -> Tensor:
    noise = torch.randn(like.shape, generator=_generator(fault))
    return noise.mul(SIZE).to(like.device, like.dtype)
