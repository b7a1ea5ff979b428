"""Marks of any stretch of calls, for the cells of a timeline.

What follows from the records is read from the sums that the recording keeps over many calls, so
that a million of them cost no more than a few.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pertdbg.app.faults import Faults
from pertdbg.recording.reader import Recording
from pertdbg.recording.timeline import cell_of, last_place, timeline


@dataclass(frozen=True)
class Kind:
    """A kind of mark: how it is drawn, and its words in the legend."""

    name: str
    glyph: str
    words: str
    style: str


KINDS = (
    Kind("stopped", "o", "stopped", "dim"),
    Kind("created", "+", "created", "ok"),
    Kind("beyond", "^", "beyond bound", "note"),
    Kind("gap", "~", "gap", "warn"),
    Kind("refused", "x", "refused", "warn"),
    Kind("finding", "F", "finding", "bad"),
    Kind("inf", "I", "Inf", "bad"),
    Kind("nan", "N", "NaN", "bad"),
    Kind("raised", "!", "raised", "bad"),
)
"""From the least to the most pressing: where several meet in a cell, the last is drawn."""

_BITS = {kind.name: 1 << index for index, kind in enumerate(KINDS)}
_GIVEN = ("stopped", "gap")
"""Those that do not follow from a record."""

_COUNTED = 4096
"""Most calls whose marks are counted; of more, the legend says only which kinds there are."""


def kind_of(bits: int) -> Kind | None:
    """Give the most pressing of the kinds in a set of bits."""
    return KINDS[bits.bit_length() - 1] if bits else None


class Marks:
    """The marks of a recording, with what was read of them last."""

    def __init__(self, recording: Recording | None = None, faults: Faults | None = None) -> None:
        self._recording, self._faults = recording, faults or Faults()
        self._derived: tuple[tuple[int, int, int], list[int]] = ((0, 0, 0), [])
        self._all: tuple[tuple[int, int, int], list[int]] = ((0, 0, 0), [])
        self._counted = (1, 0)
        self._counts = [0] * len(KINDS)

    def renew(self) -> None:
        """Read the marks that are given to calls again: one may have come to a known call."""
        self._all = ((0, 0, 0), [])

    def recount(self) -> None:
        """Count anew: a finding has come to a call that was counted."""
        self.renew()
        self._counted, self._counts = (1, 0), [0] * len(KINDS)

    def cells(self, lo: int, hi: int, cells: int) -> list[int]:
        """Give the bits of the marks of the calls lo to hi in each of so many cells.

        Raises:
            PertdbgError: The recording is damaged there.
        """
        key = (lo, hi, cells)
        if self._all[0] != key:
            if self._derived[0] != key:
                self._derived = (key, self._from_records(lo, hi, cells))
            found = list(self._derived[1])
            self._add_given(found, lo, hi)
            self._all = (key, found)
        return self._all[1]

    def counts(self, lo: int, hi: int) -> list[tuple[Kind, int | None]]:
        """Count the calls lo to hi with each kind of mark; None where they are too many.

        Kinds that there are none of are left out.
        """
        if hi - lo >= _COUNTED:
            present = _union(self._all[1])
            return [(kind, None) for kind in KINDS if present & _BITS[kind.name]]
        if self._counted[0] != lo or self._counted[1] >= hi:
            self._counted, self._counts = (lo, lo - 1), [0] * len(KINDS)
        done = self._counted[1]
        self._counts = self._count(done + 1, hi - 1, self._counts)
        self._counted = (lo, hi - 1)
        # The last call may yet be given a mark.
        counts = self._count(hi, hi, self._counts)
        return [(kind, n) for kind, n in zip(KINDS, counts, strict=True) if n]

    def _count(self, lo: int, hi: int, counts: list[int]) -> list[int]:
        if lo > hi:
            return counts
        n = hi - lo + 1
        found = self._from_records(lo, hi, n)
        self._add_given(found, lo, hi)
        present = [bits for bits in found if bits]
        return [
            count + sum(1 for bits in present if bits & 1 << index)
            for index, count in enumerate(counts)
        ]

    def _from_records(self, lo: int, hi: int, cells: int) -> list[int]:
        """Spread the marks that follow from the records over the cells."""
        if self._recording is None:
            return [0] * cells
        found = [
            sum(_BITS.get(name, 0) for name in names)
            for names in timeline(self._recording, lo, hi, cells)
        ]
        n = hi - lo + 1
        if len(found) == cells:
            return found
        spread = [0] * cells
        for place, bits in enumerate(found, 1):
            spread[cell_of(place, n, cells)] |= bits
        return spread

    def _add_given(self, found: list[int], lo: int, hi: int) -> None:
        """Add the marks that were given to calls: one question for each cell that has some."""
        if self._recording is None:
            return
        n, cells = hi - lo + 1, len(found)
        for ident in self._faults.ids(lo, hi):
            found[cell_of(ident - lo + 1, n, cells)] |= _BITS["finding"]
        for kind in _GIVEN:
            at = self._recording.next_mark(lo - 1, [kind])
            while at is not None and at <= hi:
                cell = cell_of(at - lo + 1, n, cells)
                found[cell] |= _BITS[kind]
                last = lo - 1 + last_place(cell, n, cells)
                at = self._recording.next_mark(max(last, at), [kind])


def _union(bits: Iterable[int]) -> int:
    union = 0
    for some in bits:
        union |= some
    return union
