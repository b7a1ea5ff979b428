"""Finds the calls worth going to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pertdbg.recording import schema
from pertdbg.recording.facts import CHUNK, CHUNKS_KEPT, Facts
from pertdbg.recording.pack import kinds_of
from pertdbg.recording.parts import DERIVED_MARKS, FAULT_MARKS, Mark
from pertdbg.recording.safeopen import Source

WORDS = {
    "created": "delta created",
    "refused": "update refused: it returned False",
    "raised": "the update raised",
    "nan": "NaN in the gradient or in delta",
    "inf": "infinite values in the gradient or in delta",
    "beyond": "delta left its bound",
}
"""What a derived mark says."""

CHECKED = CHUNK * CHUNKS_KEPT
"""Up to so many records the marks come from the records, checked; else from an index."""

_BITS = {kind: 1 << bit for bit, kind in enumerate(DERIVED_MARKS)}
_SEAL = schema.Seal(schema.MARKS)
_MARKED = "FROM call WHERE marks > 0"
_FAULTY = "FROM call WHERE marks & 30 > 0"


class MarkFinder:
    """Finds marks: over a short range in the records, else through the indices of the file."""

    def __init__(self, source: Source, facts: Facts) -> None:
        self._source = source
        self._facts = facts

    def between(self, lo: int, hi: int) -> list[Mark]:
        """Give the marks of the records lo to hi, both included and both there, in order."""
        derived = self._checked(lo, hi) if hi - lo < CHECKED else self._indexed(lo, hi)
        marks = [Mark(k, kind, WORDS[kind]) for k, bits in derived for kind in kinds_of(bits)]
        rows = self._source.query(f"{schema.MARKS.select} WHERE call BETWEEN ? AND ?", (lo, hi))
        marks += [Mark(row[1], row[2], row[3]) for row in rows if _SEAL.holds(row)]
        return sorted(marks, key=lambda mark: mark.id)

    def next(self, ident: int, kinds: Sequence[str], forward: bool) -> int | None:
        """Give the nearest record after (or before) one that has a mark of one of the kinds."""
        wanted = sum(_BITS.get(kind, 0) for kind in set(kinds))
        given = [kind for kind in kinds if kind not in _BITS]
        compare, order = (">", "ASC") if forward else ("<", "DESC")
        found: list[int] = []
        if wanted:
            rows = _FAULTY if set(kinds) - set(given) <= set(FAULT_MARKS) else _MARKED
            found += self._ids(
                f"SELECT id {rows} AND marks & ? AND id {compare} ? ORDER BY id {order} LIMIT 1",
                (wanted, ident),
            )
        if given:
            slots = ", ".join("?" * len(given))
            found += self._ids(
                f"SELECT call FROM mark WHERE kind IN ({slots})"  # noqa: S608 - own words
                f" AND call {compare} ? ORDER BY call {order} LIMIT 1",
                (*given, ident),
            )
        return (min if forward else max)(found, default=None)

    def _checked(self, lo: int, hi: int) -> list[tuple[int, int]]:
        rows = enumerate(self._facts.numbers(lo, hi), lo)
        return [(ident, row.marks) for ident, row in rows if row is not None]

    def _indexed(self, lo: int, hi: int) -> list[tuple[int, int]]:
        rows = self._source.query(f"SELECT id, marks {_MARKED} AND id BETWEEN ? AND ?", (lo, hi))
        return [(ident, bits) for ident, bits in rows]

    def _ids(self, sql: str, values: tuple[Any, ...]) -> list[int]:
        return [ident for (ident,) in self._source.query(sql, values)]
