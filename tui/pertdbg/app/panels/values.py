"""Values of a stored tensor, as a table of which only the rows that are seen are read."""

from __future__ import annotations

import math

from pertdbg.app.lines import Line, Piece, clip, padded
from pertdbg.app.numbers import count
from pertdbg.output.safe import printable
from pertdbg.output.words import number, role
from pertdbg.recording.dtypes import Number
from pertdbg.recording.stored import StoredTensor

_COLUMN = 11
"""Cells of a column, with the blank before it."""

_AT_ONCE = 1 << 16
"""Most elements between the first and the last one seen that are read together."""


def matrix(tensor: StoredTensor) -> tuple[int, int]:
    """Give the rows and columns of a tensor seen as a matrix: rows along its last dimension."""
    columns = tensor.shape[-1] if tensor.shape else 1
    return (tensor.count // columns if columns else 0), columns


def title(tensor: StoredTensor) -> str:
    """Say what tensor it is."""
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    return printable(f"{role(tensor.role)}  {tensor.dtype.name} {shape}")


def seen(tensor: StoredTensor, width: int, height: int) -> tuple[int, int]:
    """Give how many rows and columns there is room for."""
    return max(height - 1, 1), max((width - _gutter(tensor)) // _COLUMN, 1)


def values(tensor: StoredTensor, top: int, left: int, width: int, height: int) -> list[Line]:
    """Draw the table.

    Args:
        tensor: What to show.
        top: First row.
        left: First column.
        width: Cells across.
        height: Lines, the one with the numbers of the columns included.

    Raises:
        DamagedRecording: The values are damaged.
    """
    rows, columns = matrix(tensor)
    if not tensor.count:
        return [[("it has no elements", "dim")]]
    room, wide = seen(tensor, width, height)
    bottom, right = min(top + room, rows), min(left + wide, columns)
    gutter = _gutter(tensor)
    names = (padded(count(k), _COLUMN, right=True) for k in range(left, right))
    lines: list[Line] = [[(" " * gutter + "".join(names), "head")]]
    for row, found in enumerate(_read(tensor, columns, (top, bottom), (left, right)), top):
        label = padded(_index(tensor, row), gutter - 1, right=True) + " "
        lines.append([(label, "label"), *map(_cell, found)])
    return [clip(line, width) for line in lines]


def _read(
    tensor: StoredTensor, columns: int, rows: tuple[int, int], across: tuple[int, int]
) -> list[list[Number]]:
    """Read what is seen: in one go where it stands together, else row by row."""
    (top, bottom), (left, right) = rows, across
    if (bottom - top) * columns > _AT_ONCE:
        starts = (row * columns for row in range(top, bottom))
        return [tensor.values(at + left, at + right) for at in starts]
    found = tensor.values(top * columns, bottom * columns)
    starts = (row * columns for row in range(bottom - top))
    return [found[at + left : at + right] for at in starts]


def _cell(value: Number) -> Piece:
    text = _text(value)
    bad = isinstance(value, float) and not math.isfinite(value)
    return padded(text, _COLUMN, right=True), "bad" if bad else ""


def _text(value: Number) -> str:
    if isinstance(value, float):
        return number(value) if not math.isfinite(value) else f"{value + 0.0:.4g}"
    if isinstance(value, complex):
        return f"{value.real:.1g}{value.imag:+.1g}j"
    text = str(value)
    return text if len(text) < _COLUMN else f"{value:.3e}"


def _gutter(tensor: StoredTensor) -> int:
    return sum(len(str(size)) + 1 for size in tensor.shape[:-1]) + 2


def _index(tensor: StoredTensor, row: int) -> str:
    places: list[str] = []
    for size in reversed(tensor.shape[:-1]):
        row, place = divmod(row, size)
        places.append(str(place))
    return ",".join(reversed(places))
