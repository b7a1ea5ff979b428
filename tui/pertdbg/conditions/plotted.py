"""The series of an expression over many calls, in the cells of `pertdbg.recording.series`."""

from __future__ import annotations

import math
import time
from array import array
from dataclasses import dataclass, field

from pertdbg.conditions.errors import ConditionError
from pertdbg.conditions.expression import Expression
from pertdbg.conditions.rows import Rows
from pertdbg.conditions.tree import Field
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import Series, _edges
from pertdbg.recording.series import series as series_of_field
from pertdbg.recording.tiles import INDEX

SLICE = 0.02
"""Seconds that one step takes, and a little more."""


@dataclass
class _Cell:
    """What is known of the values of one cell; an extreme stands with the call that has it."""

    n: int = 0
    bad: int = 0
    low: float = math.inf
    high: float = -math.inf
    at: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, ident: int, value: float) -> None:
        self.n += 1
        if not math.isfinite(value):
            self.bad += 1
            return
        if value < self.low:
            self.low, self.at[0] = value, ident
        if value > self.high:
            self.high, self.at[1] = value, ident


class ExpressionSeries:
    """Sums an expression up over the calls start to end, a little at each `step`.

    A field whose sums are kept in the recording is there at once. Of the others `series` gives
    what was gone over so far: cells that were not reached know nothing.
    """

    def __init__(
        self, recording: Recording, expression: Expression, start: int, end: int, points: int
    ) -> None:
        """Prepare.

        Args:
            recording: Where the calls are.
            expression: A number, or what is true (1) or false (0).
            start: Id of the first call.
            end: Id of the last one.
            points: Most cells wanted.

        Raises:
            ConditionError: It is neither a number nor true or false.
        """
        if not expression.kinds & {"number", "truth"}:
            raise ConditionError(expression.text, 1, "only numbers, and what is true, have a plot")
        self._recording, self._expression = recording, expression
        self._edges = _edges(recording, start, end, points)
        self._cells = [_Cell() for _ in self._edges[1:]]
        self._at = 0
        self._next = self._edges[0] if self._edges else 0
        self._made: Series | None = None
        path = expression.tree.path if isinstance(expression.tree, Field) else ""
        if path in INDEX:
            self._made = series_of_field(recording, path, start, end, points)
            self._at = len(self._cells)
        else:
            self._rows = Rows(recording, expression)

    @property
    def done(self) -> bool:
        """Whether all calls were gone over."""
        return self._at >= len(self._cells)

    def step(self, seconds: float = SLICE) -> bool:
        """Go over more calls for a short time; say whether all are done."""
        until = time.monotonic() + seconds
        while not self.done:
            self._go()
            if time.monotonic() > until:
                break
        return self.done

    def series(self) -> Series:
        """Give what is known so far."""
        if self._made is not None:
            return self._made
        known = [cell if cell.n > cell.bad else None for cell in self._cells]
        return Series(
            self._expression.text,
            array("q", self._edges[:-1]),
            self._edges[-1] - 1 if self._edges else 0,
            array("d", [math.nan if cell is None else cell.low for cell in known]),
            array("d", [math.nan if cell is None else cell.high for cell in known]),
            array("d", [cell.bad for cell in self._cells]),
            array("d", [cell.n for cell in self._cells]),
        )

    def _go(self) -> None:
        """Go over one block, and end the cells that it completes."""
        hi = min(self._next + self._rows.block - 1, self._edges[-1] - 1)
        for ident, value in self._rows.values(self._next, hi):
            while ident >= self._edges[self._at + 1]:
                self._finish()
            if isinstance(value, (int, float)):
                self._cells[self._at].add(ident, _real(value))
        self._next = hi + 1
        while not self.done and self._edges[self._at + 1] <= self._next:
            self._finish()

    def _finish(self) -> None:
        """End a cell: its extremes are to stand in records that hold what was written."""
        cell = self._cells[self._at]
        if not self._rows.checked and not all(map(self._is_sound, filter(None, cell.at))):
            lo, hi = self._edges[self._at], self._edges[self._at + 1] - 1
            self._cells[self._at] = cell = _Cell()
            for ident, value in self._rows.of_records(lo, hi):
                if isinstance(value, (int, float)):
                    cell.add(ident, _real(value))
        self._at += 1

    def _is_sound(self, ident: int) -> bool:
        return next(iter(self._recording.facts.numbers(ident, ident)), None) is not None


def series(
    recording: Recording, expression: Expression, start: int, end: int, points: int
) -> Series:
    """Sum an expression up over the calls start to end, in so many cells at most.

    Raises:
        ConditionError: It is neither a number nor true or false.
    """
    making = ExpressionSeries(recording, expression, start, end, points)
    while not making.step(1.0):
        pass
    return making.series()


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
