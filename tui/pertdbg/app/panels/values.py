"""Values of a stored tensor, as a table of which only the rows that are seen are read."""

from __future__ import annotations

import math

from pertdbg.app.lines import Line, Piece, clip, padded
from pertdbg.app.numbers import count
from pertdbg.output.safe import printable
from pertdbg.output.words import number, role
from pertdbg.recording.dtypes import Number
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.window import Window

_COLUMN = 11
"""Cells of a column, with the blank before it."""

_READING = 0.05
"""Seconds of one look in which values are read; the others come with the next looks."""

UNREAD = "…"
"""What stands in the place of a value that is not read yet."""


def title(tensor: StoredTensor, index: str = "") -> str:
    """Say what tensor it is, and which part of it."""
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    part = f" [{index}]" if index else ""
    return printable(f"{role(tensor.role)}  {tensor.dtype.name} {shape}{part}")


def seen(window: Window, width: int, height: int) -> tuple[int, int]:
    """Give how many rows and columns there is room for."""
    return max(height - 1, 1), max((width - _gutter(window)) // _COLUMN, 1)


def values(window: Window, top: int, left: int, width: int, height: int) -> list[Line]:
    """Draw the table; what takes too long to read is left for the next look.

    Args:
        window: What to show.
        top: First row.
        left: First column.
        width: Cells across.
        height: Lines, the one with the numbers of the columns included.

    Raises:
        DamagedRecording: The values are damaged.
    """
    if not window.count:
        return [[("it has no elements", "dim")]]
    room, wide = seen(window, width, height)
    bottom, right = min(top + room, window.rows), min(left + wide, window.columns)
    gutter = _gutter(window)
    places = (window.column_name(column) for column in range(left, right))
    names = (padded(count(place), _COLUMN, right=True) for place in places)
    lines: list[Line] = [[(" " * gutter + "".join(names), "head")]]
    for row, found in enumerate(window.read((top, bottom), (left, right), _READING), top):
        label = padded(window.row_name(row), gutter - 1, right=True) + " "
        lines.append([(label, "label"), *map(_cell, found)])
    return [clip(line, width) for line in lines]


def unread(lines: list[Line]) -> bool:
    """Say whether values are missing that the next look will show."""
    return any(text.strip() == UNREAD for line in lines for text, _ in line)


def _cell(value: Number | None) -> Piece:
    if value is None:
        return padded(UNREAD, _COLUMN, right=True), "dim"
    bad = isinstance(value, float) and not math.isfinite(value)
    return padded(_text(value), _COLUMN, right=True), "bad" if bad else ""


def _text(value: Number) -> str:
    if isinstance(value, float):
        return number(value) if not math.isfinite(value) else f"{value + 0.0:.4g}"
    if isinstance(value, complex):
        return f"{value.real:.1g}{value.imag:+.1g}j"
    text = str(value)
    return text if len(text) < _COLUMN else f"{value:.3e}"


def _gutter(window: Window) -> int:
    return sum(len(str(size)) + 1 for size in window.tensor.shape[:-1]) + 2
