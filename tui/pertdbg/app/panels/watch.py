"""Watch panel: what is watched, its value at the call, and its course over the calls."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from pertdbg.app.lines import Line, clip, length, wrap
from pertdbg.app.plot import curve
from pertdbg.output.safe import printable
from pertdbg.output.words import number
from pertdbg.recording.series import Series

HOW_TO_ADD = "w adds an expression, such as  gradient.norm / delta.norm  or  delta.beyond > 0"

_TALLEST = 4


@dataclass(frozen=True)
class Watched:
    """An expression at a call."""

    text: str
    value: object
    unknown: str
    """Why the value is not known."""
    course: Series | None
    """None of what is no number."""


def watch(items: Sequence[Watched], cursor: int, width: int, height: int) -> list[Line]:
    """Draw the panel.

    Args:
        items: What is watched.
        cursor: Id of the call that is shown.
        width: Cells across.
        height: Lines; each course has its share of what the values leave.
    """
    if not items:
        return wrap(HOW_TO_ADD, width, "dim")
    plotted = sum(item.course is not None for item in items)
    rows = min(max((height - len(items)) // max(plotted, 1), 1), _TALLEST)
    lines: list[Line] = []
    for item in items:
        lines += _head(item, width)
        if item.course is not None:
            at = bisect.bisect_right(item.course.first, cursor) - 1
            course = item.course
            lines += curve(course.low, course.high, course.bad, width, rows, at)
    return lines


def _head(item: Watched, width: int) -> list[Line]:
    value = (written(item.value), "strong") if item.value is not None else ("unknown", "warn")
    line: Line = [(printable(item.text) + "  ", "label"), value]
    if item.value is None:
        line.append((printable(f"  {item.unknown}"), "dim"))
    return [clip(line, width)] if length(line) > width else [line]


def written(value: object) -> str:
    """Write the value of an expression in a line."""
    if isinstance(value, float):
        return number(value)
    return printable(str(value))
