"""Runs the loops of `shapes`, observed or not, and keeps what they know of themselves."""

from __future__ import annotations

import gc
import hashlib
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pertdbg.adapters import adapters
from pertdbg.agent.config import Config
from pertdbg.agent.finder import watch_everything
from pertdbg.agent.run import Run
from pertdbg.event import LineEvent
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording


@dataclass(frozen=True)
class Known:
    """What a loop knew of one call, in float64."""

    created: bool
    largest: float
    norm: float
    gradient: float | None
    sample: float
    """The largest norm of one sample."""
    row: float
    """The largest norm of one row."""
    limit: float | None = None
    """What the norm of the whole is limited to, where that goes with the call."""


@dataclass
class Seen:
    """Takes what a loop knows, and the tensors that it came to."""

    calls: dict[str, list[Known]] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    references: list[weakref.ref[Tensor]] = field(default_factory=list)

    def made(
        self,
        delta: Tensor,
        name: str = "",
        gradient: Tensor | None = None,
        limit: float | None = None,
    ) -> None:
        """A delta was made; of a gradient, where the loop is a single step."""
        known = _known(delta, gradient, limit, created=True)
        self.calls.setdefault(name, []).append(known)

    def moved(
        self, delta: Tensor, gradient: Tensor | None, name: str = "", limit: float | None = None
    ) -> None:
        """A pass of the loop has ended."""
        known = _known(delta, gradient, limit, created=False)
        self.calls.setdefault(name, []).append(known)

    def result(self, *tensors: Any) -> None:
        """Keep the bits, version and flags of what the loop came to."""
        self.results.append([bits(tensor) for tensor in tensors])

    def watch(self, module: nn.Module) -> None:
        """Refer weakly to every tensor that a module is given."""
        module.register_forward_pre_hook(
            lambda _, args: self.references.extend(weakref.ref(each) for each in args)
        )

    def alive(self) -> int:
        """Count the tensors that were given to a module and still live."""
        return len({id(tensor) for each in self.references if (tensor := each()) is not None})


def _known(delta: Tensor, gradient: Tensor | None, limit: float | None, *, created: bool) -> Known:
    values = delta.detach().double()
    norm = None if gradient is None else float(gradient.detach().double().norm())
    rows = values.flatten(1) if values.dim() > 1 else values[None]
    sample = float(rows.norm(dim=1).max())
    row = float(values.norm(dim=-1).max())
    size = float(values.norm())
    return Known(created, float(values.abs().max()), size, norm, sample, row, limit)


def bits(tensor: Tensor | None) -> Any:
    """Values to the bit, version, flags and grad_fn of a tensor."""
    if tensor is None:
        return None
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    name = None if tensor.grad_fn is None else tensor.grad_fn.name()
    flags = tensor._version, tensor.is_leaf, tensor.requires_grad, name
    return hashlib.sha256(raw).hexdigest()[:16], tuple(tensor.shape), flags


Shape = Callable[[int, Seen], None]


@dataclass
class Came:
    """What a run came to."""

    seen: Seen
    ended: str
    random: str
    alive: int
    records: list[CallRecord] = field(default_factory=list)
    events: list[tuple[LineEvent, ...]] = field(default_factory=list)
    """What the lines of each call did, by the call."""
    report: dict[str, list[str]] = field(default_factory=dict)
    """Names of layers by adapter."""
    why_not: dict[str, str] = field(default_factory=dict)

    def trace(self) -> list[Any]:
        """What must be the same with and without the agent."""
        return [self.seen.results, self.seen.calls, self.ended, self.random, self.alive]


def plain(run: Shape, rounds: int) -> Came:
    """Run a loop by itself."""
    seen, ended = Seen(), "returned"
    torch.manual_seed(0)
    gc.collect()
    gc.disable()
    try:
        run(rounds, seen)
    except Exception as error:  # noqa: BLE001 - what it raises is compared
        ended = f"{type(error).__name__}: {error}"
    finally:
        alive = seen.alive()
        gc.enable()
    state = hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()
    return Came(seen, ended, state, alive)


def observed(
    run: Shape,
    rounds: int,
    own: Sequence[Path] = (),
    facts: Any = "all",
    *,
    lines: bool = False,
    prepared: Callable[[], object] = lambda: None,
) -> Came:
    """Run a loop under the agent, which finds it by itself; `prepared` is called right before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pertdbg"
        agent = Run(Config(recording=str(path), scenario="", facts=facts, lines=lines))
        finder = watch_everything(agent, adapters(own))
        try:
            prepared()
            came = plain(run, rounds)
            report = finder.report()
        finally:
            finder.remove()
            agent.end(0, "")
            agent.remove()
        recording = Recording.open(path)
        came.records = list(recording)
        came.events = [recording.events(record.id) for record in came.records]
        recording.close()
    came.report = {row["adapter"]: row["matched"] for row in report if row["matched"]}
    came.why_not = {row["adapter"]: row["why_not"] for row in report if not row["matched"]}
    return came
