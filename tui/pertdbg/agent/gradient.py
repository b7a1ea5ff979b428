"""The gradient of the delta found at entry, as facts."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pertdbg.agent.base import grad_of, is_cpu, requires_grad
from pertdbg.agent.measure import CORE, Settings, note_all, read_values, share, whole
from pertdbg.agent.numbers import Plan, Raw, Want
from pertdbg.agent.quiet import Notes
from pertdbg.agent.tensors import Sight, is_tensor, reads_grad
from pertdbg.agent.values import Values
from pertdbg.record import GUARD, GradientFacts


@dataclass(slots=True)
class GradientReading:
    """What was read of the gradient; its numbers may still lie on a device."""

    present: bool
    reason: str | None
    backwards: int | None
    raw: Raw = field(default_factory=dict)
    count: int = 0

    def facts(self, numbers: dict[str, float], notes: Notes) -> GradientFacts:
        """Build the facts from what `raw` came to."""
        live = numbers.get("live")
        if live == 0:
            notes.add("gradient.guard_fraction", "all-zero")
        return GradientFacts(
            present=self.present,
            reason=self.reason,
            norm=numbers.get("norm"),
            norm_in_dtype=numbers.get("norm_in_dtype"),
            max_abs=numbers.get("max_abs"),
            min=numbers.get("min"),
            max=numbers.get("max"),
            nan=whole(numbers.get("nan")),
            inf=whole(numbers.get("inf")),
            zero_fraction=share(numbers, "zeros", self.count),
            guard_fraction=numbers["low"] / live if live else None,
            backwards=self.backwards,
        )


def find_gradient(
    delta: object, backwards: int | None, notes: Notes
) -> tuple[torch.Tensor | None, str | None]:
    """Give the gradient of a delta, or else the reason why there is none."""
    if delta is None:
        return None, "no-delta"
    if not is_tensor(delta):
        notes.add("gradient", f"not a tensor: {type(delta).__name__}")
        return None, None
    if not reads_grad(delta):
        return None, "nonleaf"
    gradient: torch.Tensor | None = grad_of(delta)
    if gradient is not None:
        return gradient, None
    if not requires_grad(delta):
        return None, "requires-grad-off"
    return None, "no-backward" if backwards == 0 else "not-filled"


def read_gradient(
    gradient: torch.Tensor | None,
    sight: Sight | None,
    reason: str | None,
    backwards: int | None,
    settings: Settings,
    notes: Notes,
) -> GradientReading:
    """Read the gradient's numbers."""
    reading = GradientReading(gradient is not None, reason, backwards)
    values = read_values(gradient, sight, "gradient", settings, notes)
    if gradient is not None and values is not None:
        _read_norm_in_dtype(gradient, reading, settings, notes)
        with notes.attempting("gradient"):
            _read_numbers(values, reading, settings, notes)
    return reading


def _read_norm_in_dtype(
    gradient: torch.Tensor, reading: GradientReading, settings: Settings, notes: Notes
) -> None:
    name = "gradient.norm_in_dtype"
    if settings.core:
        notes.add(name, CORE)
        return
    with notes.attempting(name):
        norm = torch.Tensor.norm(gradient)
        reading.raw["norm_in_dtype"] = float(norm) if is_cpu(norm) else norm


def _read_numbers(
    values: Values, reading: GradientReading, settings: Settings, notes: Notes
) -> None:
    reading.count = values.count
    shares = ("zero_fraction", "guard_fraction")
    if not values.count:
        reading.raw.update(norm=0.0, nan=0.0, inf=0.0)
        note_all("gradient", ("max_abs", "min", "max", *shares), "empty", notes)
        return
    plan = Plan()
    guard = None if settings.core else GUARD
    raw = plan.level(values, Want(zeros=not settings.core, guard=guard))
    plan.run()
    reading.raw.update(raw)
    if values.is_complex():
        note_all("gradient", ("min", "max"), "complex", notes)
    if settings.core:
        note_all("gradient", shares, CORE, notes)
