"""Finds the calls worth going to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pertdbg.recording import details, schema
from pertdbg.recording.facts import Facts
from pertdbg.recording.pack import kinds_of
from pertdbg.recording.parts import DERIVED_MARKS, Mark
from pertdbg.recording.safeopen import Source
from pertdbg.recording.tiles import marks_of_tile
from pertdbg.recording.walk import Walk

WORDS = {
    "created": "delta created",
    "refused": "update refused: it returned False",
    "raised": "the update raised",
    "nan": "NaN in the gradient or in delta",
    "inf": "infinite values in the gradient or in delta",
    "beyond": "delta left its bound",
}
"""What a derived mark says."""

_BITS = {kind: 1 << bit for bit, kind in enumerate(DERIVED_MARKS)}
_ALL = (1 << len(DERIVED_MARKS)) - 1
_SEAL = schema.Seal(schema.MARKS)
_SOME = 64
"""Rows of `mark` that are looked at until one is sound."""


class MarkFinder:
    """Finds marks: in the records, led by the sums over many, and in the table of those given."""

    def __init__(self, source: Source, facts: Facts) -> None:
        self._source = source
        self._facts = facts

    def between(self, lo: int, hi: int) -> list[Mark]:
        """Give the marks of the records lo to hi, both included and both there, in order."""
        marks = [
            Mark(ident, kind, WORDS[kind])
            for ident in self._walk(_ALL).ids(lo, hi)
            for row in self._facts.numbers(ident, ident)
            if row is not None
            for kind in kinds_of(row.marks)
        ]
        rows = self._source.query(f"{schema.MARKS.select} WHERE call BETWEEN ? AND ?", (lo, hi))
        marks += [Mark(row[1], row[2], row[3]) for row in rows if _sound(row)]
        return sorted(marks, key=lambda mark: mark.id)

    def next(
        self, ident: int, kinds: Sequence[str], head: int, *, forward: bool = True
    ) -> int | None:
        """Give the nearest record after (or before) one that has a mark of one of the kinds."""
        lo, hi = (max(ident + 1, 1), head) if forward else (1, min(ident - 1, head))
        given = [kind for kind in kinds if kind not in _BITS]
        wanted = sum(_BITS.get(kind, 0) for kind in set(kinds))
        found = []
        if wanted:
            found += [next(self._walk(wanted).ids(lo, hi, forward=forward), None)]
        if given:
            found += [self._given(given, lo, hi, forward)]
        return (min if forward else max)((k for k in found if k is not None), default=None)

    def _walk(self, wanted: int) -> Walk:
        return Walk(
            self._facts,
            lambda tile: bool(marks_of_tile(tile) & wanted),
            lambda row: bool(row.marks & wanted),
        )

    def _given(self, kinds: Sequence[str], lo: int, hi: int, forward: bool) -> int | None:
        slots = ", ".join("?" * len(kinds))
        rows = self._source.query(
            f"{schema.MARKS.select} WHERE kind IN ({slots}) AND call BETWEEN ? AND ?"
            f" ORDER BY call {'ASC' if forward else 'DESC'} LIMIT {_SOME}",
            (*kinds, lo, hi),
        )
        return next((row[1] for row in rows if _sound(row)), None)


def _sound(row: tuple[Any, ...]) -> bool:
    try:
        details.name(row[2])
        details.message(row[3])
    except ValueError:
        return False
    return _SEAL.holds(row)
