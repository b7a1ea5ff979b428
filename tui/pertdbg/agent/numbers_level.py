"""Extremes and sums of one array, block by block, by numpy."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

from pertdbg.agent.base import numpy as np

if TYPE_CHECKING:
    from pertdbg.agent.numbers import Raw, Want
    from pertdbg.agent.values import Values

BLOCK = 65536
"""Elements of a block."""

SMALL, LARGE = 1e-250, 1e250
"""Sums of squares outside of these may have lost something to underflow or overflow."""

_PROBE = 8
"""Elements of a row that are looked at first to see that it is not below the guard."""


class _Scratch(threading.local):
    """Buffers of one block; each thread has its own."""

    def __init__(self) -> None:
        self.double = [np.empty(BLOCK) for _ in range(3)]
        self.single = np.empty(BLOCK, np.float32)
        self.flags = np.empty(BLOCK, np.bool_)
        self.ones = np.ones(BLOCK)


_scratch: list[_Scratch] = []


def buffers() -> _Scratch:
    """Give this thread's buffers."""
    if not _scratch:
        _scratch.append(_Scratch())
    return _scratch[0]


class Level:
    """Extremes and sums of one array."""

    def __init__(self, x: Values, want: Want) -> None:
        self.raw: Raw = {}
        self._array, self._row, self._want = x.array, x.row, want
        self._single = x.array.dtype == np.float32
        self._bound = want.bound
        self._lows: list[float] = []
        self._highs: list[float] = []
        self._total = self._squares = 0.0
        self._zeros = self._beyond = self._at = 0

    def add(self, block: slice) -> None:
        """Take a block into account."""
        part, want = self._array[block], self._want
        low, high = float(np.minimum.reduce(part)), float(np.maximum.reduce(part))
        self._lows.append(low)
        self._highs.append(high)
        if self._bound is not None and not (-self._bound < low and high < self._bound):
            self._count_bound(part)
        if want.zeros:
            flags = buffers().flags[: part.size]
            self._zeros += int(np.count_nonzero(np.equal(part, 0, out=flags)))
        if want.norm:
            self._sum(part)

    def _count_bound(self, part: Any) -> None:
        scratch = buffers()
        sizes = (scratch.single if self._single else scratch.double[0])[: part.size]
        flags = scratch.flags[: part.size]
        np.abs(part, out=sizes)
        self._beyond += int(np.count_nonzero(np.greater(sizes, self._bound, out=flags)))
        if self._want.at_bound:
            self._at += int(np.count_nonzero(np.equal(sizes, self._bound, out=flags)))

    def _sum(self, part: Any) -> None:
        scratch = buffers()
        wide = part
        if self._single:
            wide = scratch.double[0][: part.size]
            wide[:] = part
        self._squares += float(np.dot(wide, wide))
        if self._want.moments:
            self._total += float(np.dot(wide, scratch.ones[: part.size]))

    def finish(self) -> None:
        """Fill `raw`."""
        raw, want, array = self.raw, self._want, self._array
        low, high = min(self._lows), max(self._highs)
        if any(map(math.isnan, self._lows)):
            low = high = math.nan
        largest = max(abs(low), abs(high))
        raw.update(min=low, max=high, max_abs=largest, nan=0.0, inf=0.0)
        if not math.isfinite(largest):
            raw["nan"] = float(np.count_nonzero(np.isnan(array)))
            raw["inf"] = float(np.count_nonzero(np.isinf(array)))
        if want.norm:
            raw.update(_of_sums(array, low, high, self._total, self._squares, want.moments))
        if want.zeros:
            raw["zeros"] = float(self._zeros)
        if want.guard is not None:
            raw.update(_rows(array.reshape(-1, self._row), want.guard))
        if want.bound is not None:
            raw["beyond"] = float(self._beyond)
            if want.at_bound:
                raw["at"] = float(self._at)


def _of_sums(
    array: Any, low: float, high: float, total: float, squares: float, moments: bool
) -> dict[str, float]:
    """Give the norm, and the mean and standard deviation, from sums or better ones."""
    largest, scale = max(abs(low), abs(high)), 1.0
    if not SMALL < squares < LARGE and 0 < largest < math.inf:
        scale = power_of_two(largest)
        total, squares = _sums(array, 0.0, scale)
    raw = {"norm": math.sqrt(squares) * scale}
    if moments and low == high:
        raw["mean"], raw["std"] = low, 0.0 if math.isfinite(low) else math.nan
    elif moments:
        mean, std = _moments(array, total, squares, scale)
        raw["mean"], raw["std"] = mean * scale, std * scale
    return raw


def _moments(array: Any, total: float, squares: float, scale: float) -> tuple[float, float]:
    count = array.size
    mean, square = total / count, squares / count
    if not math.isfinite(square):
        return mean, math.nan
    variance = square - mean * mean
    if variance < 1e-3 * square:  # the difference of two near numbers: sum again about the mean
        rest, squares = _sums(array, mean, scale)
        variance = squares / count - (rest / count) ** 2
    return mean, math.sqrt(max(variance, 0.0))


def power_of_two(value: float) -> float:
    """Give a power of two near a value, to divide by without rounding."""
    return math.ldexp(1.0, min(max(math.frexp(value)[1], -1000), 1000))


def _sums(array: Any, centre: float, scale: float) -> tuple[float, float]:
    """Sum (x / scale - centre) and its square."""
    total = squares = 0.0
    for start in range(0, array.size, BLOCK):
        part = array[start : start + BLOCK].astype(np.float64) / scale - centre
        total += float(part.sum())
        squares += float(np.dot(part, part))
    return total, squares


def _rows(table: Any, guard: float) -> dict[str, float]:
    """Count the rows that are not all zero, and those of them below the guard.

    A row is settled by its first elements if one of them reaches the guard; only the other rows
    are looked at whole.
    """
    open_rows = ~(_largest(table[:, :_PROBE]) >= guard)
    live = len(table) - int(np.count_nonzero(open_rows))
    if live == len(table):
        return {"live": float(live), "low": 0.0}
    largest = _largest(table[open_rows])
    live += int(np.count_nonzero(largest))
    low = np.count_nonzero((largest < guard) & (largest != 0))
    return {"live": float(live), "low": float(low)}


def _largest(table: Any) -> Any:
    """Give the largest |value| of each row, in float64 so that it compares with any guard."""
    return np.abs(table).max(axis=1).astype(np.float64)
