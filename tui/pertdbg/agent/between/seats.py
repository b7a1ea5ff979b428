"""What is remembered of a layer, or loop, from one of its calls to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pertdbg.agent.base import grad_of
from pertdbg.agent.between.aliases import aliases
from pertdbg.agent.between.events import Ref
from pertdbg.agent.between.samples import Sample, address, sample
from pertdbg.agent.between.telling import weak
from pertdbg.agent.probe import Roles
from pertdbg.agent.tensors import is_tensor, reads_grad
from pertdbg.between import Input


@dataclass(slots=True)
class Kept:
    """A tensor as it was when a call ended."""

    tensor: Ref
    address: int | None
    sample: Sample | None


@dataclass(slots=True)
class Seat:
    """What is remembered of one layer or loop."""

    owner: Callable[[], Any] = lambda: None
    """The layer, if it is still alive."""
    upto: int = 0
    """Place in the journal where its last call ended."""
    delta: Ref | None = None
    """The tensor that takes the gradient, as the last call left it."""
    found_gradient: bool = False
    """The last call left a gradient in it that it had found there."""
    input: Kept | None = None
    perturbed: Sample | None = None
    """Values that a module is given if the perturbation goes in."""
    ratio: float | None = None
    """What the last step was of its gradient."""
    given: Sample | None = None
    """Values that a module took the perturbation in, at the last pass before the last call."""


@dataclass(slots=True)
class Opening:
    """What a call found."""

    subject: Ref | None = None
    input: Input | None = None
    aliases: dict[str, Ref] = field(default_factory=dict)
    has_gradient: bool = False
    kept_gradient: bool = False
    written: tuple[str, ...] = ()
    before: Sample | None = None
    """Delta's values, where they are going to be compared."""
    gradient: Sample | None = None


def opened(
    seat: Seat,
    roles: Roles,
    subject: Any,
    gradient: Any,
    names: Mapping[str, Any],
    *,
    scaled: bool,
) -> Opening:
    """Read what a call finds, before its body runs.

    Args:
        seat: What is remembered of the layer.
        roles: What stands in the roles.
        subject: The tensor that takes the gradient.
        gradient: The gradient, where it is not in the tensor's own `.grad`.
        names: Attributes or locals under which copies of delta may be kept.
        scaled: Whether the loss was scaled, so that the step is looked at.
    """
    found = Opening(input=input_since(seat, roles.input))
    if not is_tensor(subject):
        return found
    found.subject = weak(subject)
    found.aliases = aliases(names, subject, (roles.delta, roles.input, roles.perturbed_input))
    if gradient is None and reads_grad(subject):
        gradient = grad_of(subject)
    found.has_gradient = gradient is not None
    if found.aliases or scaled:
        found.before = sample(subject)
    if scaled:
        found.gradient = sample(gradient)
    return found


def input_since(seat: Seat, now: Any) -> Input | None:
    """Say what became of the stored input since the last call."""
    kept = seat.input
    seen = sample(now)
    if kept is None or kept.sample is None or seen is None:
        return None
    alive, equal = kept.tensor(), seen.same(kept.sample)
    same_memory = alive is not None and kept.address is not None and kept.address == address(now)
    if same_memory and seen.shape == kept.sample.shape:
        return "same" if equal else "rewritten"
    return "renewed" if equal else "other"


def moved_too(opening: Opening, subject: Any, names: Mapping[str, Any]) -> tuple[str, ...]:
    """Name the copies of delta that a call found, and moved together with delta."""
    if not opening.aliases or opening.before is None or not is_tensor(subject):
        return ()
    now = sample(subject)
    if now is None or now.same(opening.before):
        return ()
    still = aliases(names, subject, ())
    return tuple(
        sorted(name[:100] for name, ref in opening.aliases.items() if _is_same(still, name, ref))
    )


def _is_same(still: dict[str, Ref], name: str, ref: Ref) -> bool:
    value = ref()
    return value is not None and name in still and still[name]() is value


def step_ratio(opening: Opening, subject: Any) -> float | None:
    """Give the constant that delta's step was of its gradient, where there is one.

    Elements at the largest |delta| are left out: they may have been clamped.
    """
    before, gradient, after = opening.before, opening.gradient, sample(subject)
    if before is None or gradient is None or after is None:
        return None
    if not before.shape == gradient.shape == after.shape:
        return None
    then, now, slope = (each.values.double() for each in (before, after, gradient))
    free = (now.abs() < now.abs().max() * (1 - 1e-6)) & (slope != 0) & (now != then)
    ratios = ((now - then) / slope)[free]
    if ratios.numel() < 2 or not bool(ratios.isfinite().all()):
        return None
    middle = float(ratios.median())
    near = ((ratios - middle).abs() <= 0.02 * abs(middle)).double().mean()
    return abs(middle) if float(near) >= 0.8 else None


def is_plain(ratio: float | None, rate: float | None, before: float | None) -> bool:
    """Say whether a step is the gradient times a constant that no norm has a part in.

    Args:
        ratio: The constant of this step.
        rate: The learning rate that the code declares, if it does.
        before: The constant of the step before; where a norm divides, it differs.
    """
    if ratio is None:
        return False
    others = (abs(rate) if rate else None, None if rate else before)
    return any(other is not None and math.isclose(ratio, other, rel_tol=0.02) for other in others)


def expected(roles: Roles, *, image: bool) -> Sample | None:
    """Give the values that a module is given if the perturbation goes in."""
    if is_tensor(roles.perturbed_input):
        return sample(roles.perturbed_input)
    clean, delta = sample(roles.input), sample(roles.delta)
    if image or clean is None or delta is None or clean.shape != delta.shape:
        return None
    return Sample(clean.shape, clean.values + delta.values)


def keep(tensor: Any) -> Kept | None:
    """Remember a tensor as it is."""
    return Kept(weak(tensor), address(tensor), sample(tensor)) if is_tensor(tensor) else None
