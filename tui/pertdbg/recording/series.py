"""One fact over many calls, cut into as many cells as a plot has, with no spike lost."""

from __future__ import annotations

import difflib
import itertools
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pertdbg.errors import PertdbgError
from pertdbg.recording.facts import Numbers
from pertdbg.recording.reader import Recording
from pertdbg.recording.safeopen import DEADLINE, DamagedRecording
from pertdbg.recording.tiles import FAN, INDEX, LEVELS, merge, summarise, summary_in
from pertdbg.recording.walk import level_at

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Series:
    """A fact over the records `first[0]` to `last`, in cells that follow each other."""

    field: str
    first: array[int]
    """Id of the first record of each cell."""
    last: int
    """Id of the last record of the last cell."""
    low: array[float]
    """The least finite value of each cell, NaN where there is none."""
    high: array[float]
    """The greatest finite value of each cell, NaN where there is none."""
    bad: array[float]
    """How many values of each cell are NaN or infinite."""
    n: array[float]
    """How many values of each cell are known, NaN and infinite ones included."""

    def __len__(self) -> int:
        return len(self.first)


def series(recording: Recording, field: str, lo: int, hi: int, cells: int) -> Series:
    """Sum up a fact over the records lo to hi, both included, for a plot of some cells.

    With no more records than cells, each record is a cell of its own. With very many, the edges
    between cells move a little, by less than half a cell, to where sums are kept in the file.
    A damaged record counts as one that does not know the fact.

    Args:
        recording: Where the records are.
        field: A numeric fact by its dotted name, such as ``gradient.norm``.
        lo: First id; ids outside the recording are left out.
        hi: Last id.
        cells: Most cells wanted.

    Raises:
        PertdbgError: There is no such numeric fact, or it takes too long, which the sums of a
            sound file prevent.
    """
    if field not in INDEX:
        near = difflib.get_close_matches(field, INDEX, 3)
        raise PertdbgError(f"no number is called {field!r}; near it: {', '.join(near) or 'none'}")
    k = INDEX[field]
    fold = _Fold(
        recording,
        lambda rows: summarise(row.values[k] for row in rows),
        lambda data: summary_in(data, k),
        merge,
    )
    edges = _edges(recording, lo, hi, cells)
    sums = fold.cells(edges)
    return Series(
        field,
        array("q", edges[:-1]),
        edges[-1] - 1 if edges else 0,
        array("d", [part.low for part in sums]),
        array("d", [part.high for part in sums]),
        array("d", [part.bad for part in sums]),
        array("d", [part.n for part in sums]),
    )


class _Fold(Generic[T]):
    """Sums over ranges of records, from the largest tiles that fit and from rows at the edges."""

    def __init__(
        self,
        recording: Recording,
        of_rows: Callable[[Iterable[Numbers]], T],
        of_tile: Callable[[bytes], T],
        join: Callable[[Iterable[T]], T],
    ) -> None:
        self._facts = recording.facts
        self._of_rows = of_rows
        self._of_tile = of_tile
        self._join = join
        self._deadline = time.monotonic() + DEADLINE

    def cells(self, edges: Sequence[int]) -> list[T]:
        """Sum up the records from each edge to before the next."""
        ranges = itertools.pairwise(edges)
        return [self._join(self._parts(lo - 1, hi - 1, LEVELS)) for lo, hi in ranges]

    def _parts(self, at: int, end: int, top: int) -> Iterator[T]:
        """Cover the records at + 1 to end with tiles of at most a level."""
        while at < end:
            if time.monotonic() > self._deadline:
                raise DamagedRecording("summing up takes too long: the sums in the file are wrong")
            level = level_at(at, end, top)
            size = FAN**level
            if level == 0:
                upto = min(end, (at // FAN + 1) * FAN)
                yield self._of_rows(n for n in self._facts.numbers(at + 1, upto) if n is not None)
            else:
                first = at // size
                last = min(end // size, (first // FAN + 1) * FAN) - 1
                for index, data in enumerate(self._facts.tiles(level, first, last), first):
                    if data is not None:
                        yield self._of_tile(data)
                    else:
                        yield from self._parts(index * size, (index + 1) * size, level - 1)
                upto = (last + 1) * size
            at = upto


def _edges(recording: Recording, lo: int, hi: int, cells: int) -> list[int]:
    """Give the first id of each cell, and the id after the last one."""
    lo, hi = max(lo, 1), min(hi, recording.head)
    n = hi - lo + 1
    if n < 1 or cells < 1:
        return []
    count = min(cells, n)
    size = 1
    while size * FAN * count <= n:
        size *= FAN
    inner = (lo - 1 + c * n // count for c in range(1, count))
    return [lo, *((at + size // 2) // size * size + 1 for at in inner), hi + 1]
