"""Goes over the calls of a recording in blocks, with the value of an expression at each.

A block is read as the few columns that the expression needs, where it can be told from them, and
else as whole records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pertdbg.conditions.evaluate import Value
from pertdbg.conditions.expression import Expression
from pertdbg.conditions.ofrow import COLUMNS, NotHere, OfRow, Row
from pertdbg.conditions.previous import previous_id, previous_of
from pertdbg.conditions.pushdown import ALL, Clause
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.safeopen import DamagedRecording

BLOCK = 4096
"""Calls whose columns are read together."""

FILTERED_BLOCK = 16_384
"""Calls that are looked through together where a question leaves most of them out."""

FEW = 500
"""Calls of a block for which the ones before them are looked up one by one."""

RECORDS = 32
"""Whole records that are read together."""


class Rows:
    """Evaluates an expression over stretches of calls."""

    def __init__(self, recording: Recording, expression: Expression, clause: Clause = ALL) -> None:
        """Prepare.

        Args:
            recording: Where the calls are.
            expression: What is evaluated.
            clause: Calls that do not fulfil it may be left out.
        """
        self._recording, self._expression = recording, expression
        self._clause = clause
        self._leaves = OfRow(recording)
        self._last: dict[Any, Row] = {}
        """The last row of each layer, while going forward."""
        self._upto = 0
        try:
            self._value: Value | None = self._leaves.value_of(expression.tree)
        except NotHere:
            self._value = None
        self.checked = self._value is None
        """Whether the values come from whole records, whose checksums were looked at."""

    @property
    def block(self) -> int:
        """How many calls to go over at a time."""
        if self._value is None:
            return RECORDS
        return FILTERED_BLOCK if self._clause.text else BLOCK

    def values(self, lo: int, hi: int) -> Iterator[tuple[int, Any]]:
        """Give ids and values of the calls lo to hi, both included; damaged ones are left out."""
        if self._value is None:
            yield from self.of_records(lo, hi)
            return
        try:
            rows = self._rows(lo, hi, self._clause)
            if self._expression.needs_previous:
                found = self._with_previous(lo, hi, rows)
            else:
                found = ((row[0], self._value(row, None)) for row in rows)
            yield from list(found)
        except DamagedRecording:  # a page of the file: some of its rows may be found one by one
            yield from self.of_records(lo, hi)

    def _rows(self, lo: int, hi: int, clause: Clause) -> list[Row]:
        where = f" AND {clause.text}" if clause.text else ""
        return self._read(f"id BETWEEN ? AND ?{where} ORDER BY id", (lo, hi, *clause.values))

    def _read(self, where: str, values: tuple[Any, ...]) -> list[Row]:
        names = ", ".join(COLUMNS[path].name for path in self._leaves.columns)
        sql = f"SELECT {names} FROM call WHERE {where}"  # noqa: S608 - names of the schema
        return self._recording._source.query(sql, values)

    def _with_previous(self, lo: int, hi: int, rows: list[Row]) -> Iterator[tuple[int, Any]]:
        value, neighbours = self._value, {}
        if self._clause.text and len(rows) <= FEW:
            slots = ", ".join("?" * len(rows))
            before = self._read(f"id IN ({slots})", tuple(row[0] - 1 for row in rows))
            neighbours = {row[0] + 1: row for row in before}
        elif self._clause.text:
            rows = self._rows(lo, hi, ALL)
        if lo != self._upto + 1:
            self._last.clear()
        for row in rows:
            ident, call, layer = row[:3]
            last = neighbours.get(ident) or self._last.get(layer)
            if type(call) is int and (last is None or last[1] != call - 1 or last[2] != layer):
                last = self._find_before(ident, call, layer)
            self._last[layer] = row
            if value is not None:
                yield ident, value(row, last)
        self._upto = hi

    def _find_before(self, ident: int, call: int, layer: int) -> Row | None:
        """Look for the layer's call before, in front of the stretch that is read."""
        if call <= 1 or ident <= 1:
            return None
        try:
            name = self._recording._interned.layer_name(layer)
            found = previous_id(self._recording, ident, call, name)
            rows = [] if found is None else self._read("id = ?", (found,))
        except (DamagedRecording, TypeError):
            return None
        return rows[0] if rows else None

    def of_records(self, lo: int, hi: int) -> Iterator[tuple[int, Any]]:
        """Give ids and values of the sound calls lo to hi, read whole."""
        for record in self._recording.scan(lo, hi):
            if not isinstance(record, DamagedRecord):
                needs = self._expression.needs_previous
                before = previous_of(self._recording, record) if needs else None
                yield record.id, self._expression.value(record, before)
