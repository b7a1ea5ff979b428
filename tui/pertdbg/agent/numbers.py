"""Computing with the values of tensors: by numpy over the tensor's own memory, or by torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from pertdbg.agent import numbers_numpy, numbers_torch
from pertdbg.agent.values import Values

Raw = dict[str, float | torch.Tensor]
"""Numbers by name; those computed on a device still lie there."""


@dataclass(frozen=True, slots=True)
class Want:
    """Which numbers of one tensor are wanted beside its extremes and its NaN and Inf counts."""

    norm: bool = True
    moments: bool = False
    """`mean` and `std`."""
    zeros: bool = False
    guard: float | None = None
    """Count the rows that are not all zero (`live`), and those of them below this (`low`)."""
    bound: float | None = None
    """Count the elements with |x| above this (`beyond`)."""
    at_bound: bool = False
    """Count those equal to it as well (`at`)."""


class Plan:
    """Collects what is to be computed, so that all of it can be done in one pass over memory.

    Each method gives a dictionary that `run` fills. The values of two tensors that are compared
    have one shape.
    """

    def __init__(self) -> None:
        self._passes: dict[int, numbers_numpy.Pass] = {}

    def level(self, x: Values, want: Want) -> Raw:
        """Ask for `min`, `max`, `max_abs`, `nan`, `inf`, and what else is wanted."""
        there = self._pass(x)
        return numbers_torch.level(x, want) if there is None else there.level(x, want)

    def differ(self, a: Values, b: Values) -> Raw:
        """Ask for the largest difference in float64 (`max`), and how many differ (`count`)."""
        there = self._pass(a, b)
        return numbers_torch.differ(a, b) if there is None else there.differ(a, b, gap=True)

    def unequal(self, a: Values, b: Values) -> Raw:
        """Ask how many elements differ (`count`)."""
        there = self._pass(a, b)
        return numbers_torch.unequal(a, b) if there is None else there.differ(a, b, gap=False)

    def same(self, a: Values, b: Values) -> Raw:
        """Ask whether all values are the same (`same`, 1 or 0), NaN being the same as NaN."""
        there = self._pass(a, b)
        return numbers_torch.same(a, b) if there is None else there.same(a, b)

    def turn(self, a: Values, a0: Values, b: Values, b0: Values) -> Raw:
        """Ask for the inner products of a - a0 and b - b0: `aa`, `bb`, `ab`, scaled to fit."""
        there = self._pass(a, a0, b, b0)
        return numbers_torch.turn(a, a0, b, b0) if there is None else there.turn(a, a0, b, b0)

    def run(self) -> None:
        """Compute all that was asked for."""
        for there in self._passes.values():
            there.run()

    def _pass(self, *values: Values) -> numbers_numpy.Pass | None:
        if any(value.array is None for value in values):
            return None
        return self._passes.setdefault(values[0].count, numbers_numpy.Pass(values[0].count))


def settle(parts: Iterable[Raw]) -> list[dict[str, float]]:
    """Bring all numbers here, with one copy from each device that holds some."""
    parts = list(parts)
    away = [value for part in parts for value in part.values() if isinstance(value, torch.Tensor)]
    here: dict[int, float] = {}
    for device in {value.device for value in away}:
        there = [value for value in away if value.device == device]
        numbers = torch.stack([value.to(torch.float64) for value in there]).tolist()
        here.update(zip(map(id, there), numbers, strict=True))
    return [
        {name: here[id(v)] if isinstance(v, torch.Tensor) else v for name, v in part.items()}
        for part in parts
    ]
