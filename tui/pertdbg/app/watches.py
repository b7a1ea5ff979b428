"""Expressions that are watched: their values at a call and their course over the calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pertdbg.errors import PertdbgError
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import Series

if TYPE_CHECKING:
    from pertdbg.conditions import Expression, ExpressionSeries

_BREATH = 0.01
"""Seconds for which the course of a watch is made at a time."""


@dataclass
class _Course:
    """The course of one expression, as far as it is made."""

    key: tuple[int, ...]
    making: ExpressionSeries


class Watches:
    """What is watched, in the order in which it was added."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Begin with some; what can't be read is left out."""
        self.all: list[Expression] = []
        self._courses: dict[str, _Course] = {}
        for text in texts:
            try:
                self.add(text)
            except PertdbgError:
                continue  # of a file that another version wrote, or a person's own hand

    @property
    def texts(self) -> list[str]:
        """The expressions as they were written."""
        return [expression.text for expression in self.all]

    def add(self, text: str) -> None:
        """Watch one more expression.

        Raises:
            ConditionError: It is none.
        """
        from pertdbg.conditions import parse  # much that the first frame need not wait for

        expression = parse(text)
        if expression not in self.all:
            self.all.append(expression)

    def remove(self, place: int) -> None:
        """Watch an expression no more."""
        self._courses.pop(self.all.pop(place).text, None)

    def forget(self) -> None:
        """Forget the courses: another recording is looked at."""
        self._courses.clear()

    def course(
        self, recording: Recording, expression: Expression, window: tuple[int, int], cells: int
    ) -> tuple[Series | None, bool]:
        """Give the course of an expression, and whether all of it is made.

        It is made a little at a time, each time that it is asked for. What is neither a number
        nor true or false has none.
        """
        if not expression.kinds & {"number", "truth"}:
            return None, True
        from pertdbg.conditions import ExpressionSeries

        key = (*window, cells)
        course = self._courses.get(expression.text)
        if course is None or course.key != key:
            course = _Course(key, ExpressionSeries(recording, expression, *window, cells))
            self._courses[expression.text] = course
        done = course.making.step(_BREATH)
        return course.making.series(), done
