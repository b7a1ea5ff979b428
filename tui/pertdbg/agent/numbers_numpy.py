"""Numbers by numpy over the tensors' own memory, in one pass of blocks that fit in the cache.

All arrays are flat, float32 or float64, not empty, and of one length. What dominates the cost is
fetching them from memory, so that every number is taken from a block while it is there. float32
is summed in float64, where neither its squares nor their sum can overflow or vanish; float64 is
scaled where they do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from pertdbg.agent.base import numpy as np
from pertdbg.agent.numbers_level import BLOCK, LARGE, SMALL, Level, buffers, power_of_two

if TYPE_CHECKING:
    from pertdbg.agent.numbers import Raw, Want
    from pertdbg.agent.values import Values


class _Work(Protocol):
    """One thing that a pass computes."""

    def add(self, block: slice) -> None: ...
    def finish(self) -> None: ...


class Pass:
    """One pass over arrays of one length."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._levels: list[Level] = []
        self._gaps: dict[tuple[int, int], _Gap] = {}
        self._turns: list[_Turn] = []
        self._sames: list[_Same] = []

    def level(self, x: Values, want: Want) -> Raw:
        """See `Plan.level`."""
        self._levels.append(Level(x, want))
        return self._levels[-1].raw

    def differ(self, a: Values, b: Values, *, gap: bool) -> Raw:
        """See `Plan.differ` and, without `gap`, `Plan.unequal`."""
        found = self._gap(a, b)
        found.wanted = found.wanted or gap
        return found.raw

    def same(self, a: Values, b: Values) -> Raw:
        """See `Plan.same`."""
        self._sames.append(_Same(a, b))
        return self._sames[-1].raw

    def turn(self, a: Values, a0: Values, b: Values, b0: Values) -> Raw:
        """See `Plan.turn`."""
        self._turns.append(_Turn(self._gap(a, a0), self._gap(b, b0)))
        return self._turns[-1].raw

    def run(self) -> None:
        """Go through the blocks, and then fill the dictionaries."""
        work: list[_Work] = [*self._levels, *self._gaps.values(), *self._turns, *self._sames]
        for start in range(0, self._count, BLOCK):
            block = slice(start, start + BLOCK)
            for each in work:
                each.add(block)
        for each in work:
            each.finish()

    def _gap(self, a: Values, b: Values) -> _Gap:
        return self._gaps.setdefault((id(a.array), id(b.array)), _Gap(a, b))


class _Gap:
    """How two arrays differ."""

    def __init__(self, a: Values, b: Values) -> None:
        self.raw: Raw = {}
        self.wanted = False
        """Whether the largest difference is wanted, and not only how many there are."""
        self.wide: Any = None
        """A buffer for the differences of a block as float64, where these are wanted."""
        self.a, self.b = a.array, b.array
        self._single = self.a.dtype == self.b.dtype == np.float32
        self._count = 0
        self._largest: list[float] = []
        """Of each block, the largest difference as rounded to the arrays' dtype."""

    def add(self, block: slice) -> None:
        a, b, scratch = self.a[block], self.b[block], buffers()
        flags = scratch.flags[: a.size]
        self._count += int(np.count_nonzero(np.not_equal(a, b, out=flags)))
        if not self.wanted and self.wide is None:
            return
        gaps = (scratch.single if self._single else scratch.double[2])[: a.size]
        np.subtract(a, b, out=gaps)
        if self.wide is not None:
            self._widen(a, b, gaps)
        if self.wanted:
            low, high = float(np.minimum.reduce(gaps)), float(np.maximum.reduce(gaps))
            self._largest.append(max(abs(low), abs(high)))

    def _widen(self, a: Any, b: Any, gaps: Any) -> None:
        """Give the differences of a block as float64.

        Those of large float32 arrays are rounded once to float32 (relative error below 6e-8):
        subtracting in float64 would take half as long again for the whole pass.
        """
        wide = self.wide[: a.size]
        if self._single and self.a.size <= BLOCK:
            wide[:] = a
            np.subtract(wide, b, out=wide)
        else:
            wide[:] = gaps

    @property
    def moved(self) -> bool:
        """Whether any element differs, so far."""
        return self._count > 0

    def finish(self) -> None:
        self.raw["count"] = float(self._count)
        if self.wanted:
            self.raw["max"] = self._find_largest()

    def _find_largest(self) -> float:
        """Find max |a - b|.

        Subtraction is rounded rightly, so that the largest difference is among those that are
        largest after rounding to float32: only the blocks of these are subtracted in float64.
        """
        if not all(map(math.isfinite, self._largest)):
            # NaN, infinity, or an overflow that float64 does not have.
            return _exact_gap(self.a, self.b)
        largest = max(self._largest)
        if largest == 0 or not self._single:
            return largest
        starts = [i * BLOCK for i, here in enumerate(self._largest) if here == largest]
        return max(_exact_gap(self.a[i : i + BLOCK], self.b[i : i + BLOCK]) for i in starts)


def _exact_gap(a: Any, b: Any) -> float:
    return float(np.abs(a.astype(np.float64) - b).max())


class _Turn:
    """The inner products of two differences."""

    def __init__(self, a: _Gap, b: _Gap) -> None:
        self.raw: Raw = {}
        self._a, self._b = a, b
        a.wide, b.wide = buffers().double[:2]
        self._aa = self._bb = self._ab = 0.0

    def add(self, block: slice) -> None:
        count = self._a.a[block].size
        u, v = self._a.wide[:count], self._b.wide[:count]
        self._aa += float(np.dot(u, u))
        self._bb += float(np.dot(v, v))
        self._ab += float(np.dot(u, v))

    def finish(self) -> None:
        raw = {"aa": self._aa, "bb": self._bb, "ab": self._ab}
        moved = self._a.moved and self._b.moved
        if moved and not all(SMALL < raw[name] < LARGE for name in ("aa", "bb")):
            u, v = _scaled(self._a), _scaled(self._b)
            raw = {"aa": float(np.dot(u, u)), "bb": float(np.dot(v, v)), "ab": float(np.dot(u, v))}
        self.raw.update(raw)


def _scaled(gap: _Gap) -> Any:
    change = gap.a.astype(np.float64) - gap.b
    largest = float(np.abs(change).max())
    return change / power_of_two(largest) if 0 < largest < math.inf else change


class _Same:
    """Whether two arrays hold the same values."""

    def __init__(self, a: Values, b: Values) -> None:
        self.raw: Raw = {}
        self._a, self._b = a.array, b.array
        self._same = True

    def add(self, block: slice) -> None:
        if not self._same:
            return
        a, b = self._a[block], self._b[block]
        here = np.equal(a, b, out=buffers().flags[: a.size])
        self._same = bool(here.all() or (here | (np.isnan(a) & np.isnan(b))).all())

    def finish(self) -> None:
        self.raw["same"] = float(self._same)
