"""The delta that is left at exit, as facts."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

import torch

from pertdbg.agent.measure import CORE, Settings, note_all, share, whole
from pertdbg.agent.numbers import Plan, Raw, Want
from pertdbg.agent.picture import Histogram
from pertdbg.agent.quiet import Notes
from pertdbg.agent.values import Values
from pertdbg.record import BoundKind, BoundOf, DeltaFacts

_MOVED = ("moved_max", "moved_fraction")
_MOMENTS = ("mean", "std")
_BEYOND_CORE = ("norm", *_MOMENTS, "at_bound")


@dataclass(slots=True)
class DeltaReading:
    """What was read of delta; its numbers may still lie on a device."""

    bound: float | None
    bound_kind: BoundKind | None
    bound_norm: float | torch.Tensor | None = None
    """A number that goes with the weights may still lie on a device, too."""
    bound_of: BoundOf | None = None
    raw: Raw = field(default_factory=dict)
    moved: Raw = field(default_factory=dict)
    count: int = 0

    def facts(
        self, numbers: dict[str, float], moved: dict[str, float], histogram: Histogram | None
    ) -> DeltaFacts:
        """Build the facts from what `raw` and `moved` came to."""
        limit = self.bound_norm
        return DeltaFacts(
            norm=numbers.get("norm"),
            max_abs=numbers.get("max_abs"),
            min=numbers.get("min"),
            max=numbers.get("max"),
            mean=numbers.get("mean"),
            std=numbers.get("std"),
            nan=whole(numbers.get("nan")),
            inf=whole(numbers.get("inf")),
            bound=self.bound,
            bound_kind=self.bound_kind,
            beyond=whole(numbers.get("beyond")),
            at_bound=whole(numbers.get("at")),
            moved_max=moved.get("max"),
            moved_fraction=share(moved, "count", self.count),
            histogram=None if histogram is None else histogram.counts,
            histogram_range=None if histogram is None else histogram.span,
            bound_norm=numbers.get("bound_norm") if isinstance(limit, torch.Tensor) else limit,
            bound_of=self.bound_of,
            norm_max=numbers.get("norm_max"),
        )


def read_delta(
    values: Values,
    dtype: torch.dtype,
    reading: DeltaReading,
    plan: Plan,
    settings: Settings,
    notes: Notes,
) -> None:
    """Ask for delta's numbers, apart from how it moved."""
    reading.count = values.count
    if not values.count:
        reading.raw.update(norm=0.0, nan=0.0, inf=0.0)
        if reading.bound_norm is not None:
            reading.raw.update(norm_max=0.0)
        if reading.bound is not None:
            reading.raw.update(beyond=0.0, at=0.0)
        note_all("delta", ("max_abs", "min", "max", *_MOMENTS), "empty", notes)
        return
    bound = None
    if reading.bound is not None:
        number = float(reading.bound)
        bound = notes.attempt("delta.beyond", lambda: rounded(number, dtype))
    more = not settings.core
    reading.raw = plan.level(values, Want(norm=more, moments=more, bound=bound, at_bound=more))
    if reading.bound_norm is not None:
        if isinstance(reading.bound_norm, torch.Tensor):
            reading.raw["bound_norm"] = reading.bound_norm
        with notes.attempting("delta.norm_max"):
            reading.raw["norm_max"] = _largest_norm(values, reading.bound_of)
    if values.is_complex():
        note_all("delta", ("min", "max", *_MOMENTS), "complex", notes)
    if settings.core:
        note_all("delta", _BEYOND_CORE, CORE, notes)


def _largest_norm(values: Values, of: BoundOf | None) -> torch.Tensor:
    """Give the largest L2 norm of a sample or row, or of all of delta; it stays on its device."""
    sizes = values.shape if len(values.shape) > 1 else ()
    rows = math.prod({"sample": sizes[:1], "row": sizes[:-1]}.get(of or "whole", ()))
    wide = torch.complex128 if values.is_complex() else torch.float64
    flat = values.tensor.detach().reshape(rows, -1)
    return torch.amax(torch.linalg.vector_norm(flat, dim=1, dtype=wide))


@functools.lru_cache(maxsize=64)
def rounded(number: float, dtype: torch.dtype) -> float:
    """Round a number to a dtype, as torch does with a Python number; not for integer dtypes."""
    if dtype.is_complex:
        dtype = dtype.to_real()
    if not dtype.is_floating_point:
        return number
    kept = torch.tensor(number, dtype=dtype, device="cpu")
    return float(kept.to(torch.float64).item())


def read_move(
    after: Values,
    before: Values | None,
    why_not: str | None,
    reading: DeltaReading,
    plan: Plan,
    notes: Notes,
) -> None:
    """Ask how delta differs from the one at entry.

    Args:
        after: Delta at exit.
        before: A copy of delta's values at entry; None where there is none.
        why_not: Why there is none.
        reading: Takes the numbers.
        plan: Will compute them.
        notes: Takes the reasons.
    """
    if why_not is None and before is not None and before.shape != after.shape:
        why_not = "shape-changed"
    if why_not is None and not after.count:
        why_not = "empty"
    if why_not is not None or before is None:
        note_all("delta", _MOVED, why_not or "unknown", notes)
        return
    reading.moved = plan.differ(after, before)
