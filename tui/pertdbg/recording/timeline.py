"""The marks that follow from the records, for the cells of a timeline, each exactly in its cell."""

from __future__ import annotations

import time
from itertools import pairwise

from pertdbg.recording.pack import kinds_of
from pertdbg.recording.reader import Recording
from pertdbg.recording.safeopen import DEADLINE, DamagedRecording
from pertdbg.recording.tiles import FAN, LEVELS, marks_of_tile


def cell_of(place: int, n: int, cells: int) -> int:
    """Give the cell of the place-th of n calls, counted from 1, in a line of some cells."""
    return (place * cells - 1) // n


def last_place(cell: int, n: int, cells: int) -> int:
    """Give the place of the last call of a cell, where there are at least as many calls."""
    return (cell + 1) * n // cells


def timeline(recording: Recording, lo: int, hi: int, cells: int) -> list[frozenset[str]]:
    """Give the kinds of the marks of the records lo to hi, both included, cell by cell.

    With fewer records than cells, each has a cell of its own. A damaged record has no marks.

    Args:
        recording: Where the records are.
        lo: First id; ids outside the recording are left out.
        hi: Last id.
        cells: How many cells; `cell_of` says which records are in which.

    Raises:
        PertdbgError: It takes too long, which the sums of a sound file prevent.
    """
    lo, hi = max(lo, 1), min(hi, recording.head)
    n = hi - lo + 1
    if n < 1 or cells < 1:
        return []
    count = min(cells, n)
    marks = _Marks(recording)
    edges = [lo - 1, *(lo - 1 + last_place(cell, n, count) for cell in range(count))]
    return [frozenset(kinds_of(marks.of(at, end))) for at, end in pairwise(edges)]


class _Marks:
    """Finds which marks there are in ranges of records, from as few sums as tell it."""

    def __init__(self, recording: Recording) -> None:
        self._facts = recording.facts
        self._deadline = time.monotonic() + DEADLINE

    def of(self, at: int, end: int) -> int:
        """Give the marks of the records at + 1 to end."""
        level = 1
        while level < LEVELS and FAN**level < end - at:
            level += 1
        return self._more(at, end, level, 0)

    def _more(self, at: int, end: int, level: int, known: int) -> int:
        """Give the marks of the records at + 1 to end, and those that are known of their cell.

        A sum that holds no other mark than these need not be looked into, wherever it begins.
        """
        size = FAN**level
        inside = []
        for index in range(at // size, (end - 1) // size + 1):
            first, last = max(at, index * size), min(end, (index + 1) * size)
            marks = self._tile(level, index)
            if marks is not None and last - first == size:
                known |= marks
            elif marks is None or marks & ~known:
                inside.append((first, last, marks))
        for first, last, marks in inside:
            if marks is not None and not marks & ~known:
                continue
            if level == 1:
                known |= self._rows(first, last)
            else:
                known = self._more(first, last, level - 1, known)
        return known

    def _tile(self, level: int, index: int) -> int | None:
        first = index // FAN * FAN
        data = self._facts.tiles(level, first, first + FAN - 1)[index - first]
        return None if data is None else marks_of_tile(data)

    def _rows(self, at: int, end: int) -> int:
        if time.monotonic() > self._deadline:
            raise DamagedRecording("finding marks takes too long: the sums in the file are wrong")
        marks = 0
        for row in self._facts.numbers(at + 1, end):
            marks |= 0 if row is None else row.marks
        return marks
