"""Searches the calls of a recording, skipping those of which a tile says that they don't match.

What is found stands in rows whose checksums hold. An index of the file would be faster still, but
nothing protects its rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pertdbg.recording.facts import Facts, Numbers
from pertdbg.recording.safeopen import DEADLINE, DamagedRecording
from pertdbg.recording.tiles import FAN, LEVELS


class Walk:
    """Goes over ranges of calls, whole tiles at a time where these fit."""

    def __init__(
        self,
        facts: Facts,
        may_match: Callable[[bytes], bool],
        matches: Callable[[Numbers], bool],
    ) -> None:
        """Say what is searched.

        Args:
            facts: Where tiles and rows are.
            may_match: Whether one of the calls that a tile sums up could match, by its data.
            matches: Whether a call matches.
        """
        self._facts = facts
        self._may_match = may_match
        self._matches = matches
        self._deadline = time.monotonic() + DEADLINE

    def ids(self, lo: int, hi: int, *, forward: bool = True) -> Iterator[int]:
        """Give the calls lo to hi (both there, both included) that match, in order or backwards.

        Raises:
            DamagedRecording: It took too long, which the tiles of a sound file prevent.
        """
        return self._within(lo - 1, hi, LEVELS, forward)

    def _within(self, at: int, end: int, top: int, forward: bool) -> Iterator[int]:
        while at < end:
            level = level_at(at, end, top) if forward else level_at(-end, -at, top)
            size = FAN**level
            if forward:
                lo, hi = at, min(end, at + FAN - at % FAN) if level == 0 else at + size
                at = hi
            else:
                lo, hi = max(at, (end - 1) // FAN * FAN) if level == 0 else end - size, end
                end = lo
            if level == 0:
                yield from self._rows(lo, hi, forward)
            elif self._worth(level, lo // size):
                yield from self._within(lo, hi, level - 1, forward)

    def _worth(self, level: int, index: int) -> bool:
        first = index // FAN * FAN
        data = self._facts.tiles(level, first, first + FAN - 1)[index - first]
        return data is None or self._may_match(data)

    def _rows(self, at: int, end: int, forward: bool) -> Iterator[int]:
        if time.monotonic() > self._deadline:
            raise DamagedRecording("the search took too long: the sums over calls are wrong")
        rows = list(enumerate(self._facts.numbers(at + 1, end), at + 1))
        for ident, row in rows if forward else reversed(rows):
            if row is not None and self._matches(row):
                yield ident


def level_at(at: int, end: int, top: int) -> int:
    """Give the level of the largest tile that begins behind call `at` and ends with `end`."""
    level = 0
    while level < top and at % FAN ** (level + 1) == 0 and at + FAN ** (level + 1) <= end:
        level += 1
    return level
