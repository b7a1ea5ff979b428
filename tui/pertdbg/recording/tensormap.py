"""The picture of a stored tensor, made without torch and numpy."""

from __future__ import annotations

import math
import struct

from pertdbg.recording.dtypes import Number
from pertdbg.recording.parts import HeatMap
from pertdbg.recording.stored import StoredTensor

SIDE = 64
"""Largest number of rows and columns of a picture."""

_AT_ONCE = 1 << 18
"""Elements that are in memory together, unless a cell stands for more."""


def picture_of(tensor: StoredTensor, side: int = SIDE) -> HeatMap | None:
    """Shrink |tensor| to at most side x side cells, each the maximum of its elements.

    Returns:
        The picture; None of a tensor without elements.

    Raises:
        DamagedRecording: The tensor is damaged.
    """
    if not tensor.count:
        return None
    width = tensor.shape[-1] if tensor.shape else 1
    height = tensor.count // width
    tall, wide = -(-height // side), -(-width // side)
    rows, cols = -(-height // tall), -(-width // wide)
    cells = [0.0] * (rows * cols)
    if width <= _AT_ONCE:
        lines = _AT_ONCE // width
        pieces = [(k, 0, min(k + lines, height), width) for k in range(0, height, lines)]
    else:
        piece = max(1, _AT_ONCE // wide) * wide
        pieces = [
            (k, at, k + 1, min(at + piece, width))
            for k in range(height)
            for at in range(0, width, piece)
        ]
    for top, left, bottom, right in pieces:
        values = tensor.values(top * width + left, (bottom - 1) * width + right)
        for row in range(top, bottom):
            at = (row - top) * width
            _raise(cells, row // tall * cols + left // wide, values[at : at + right - left], wide)
    return HeatMap(rows, cols, struct.pack(f"<{rows * cols}f", *map(_single, cells)), height, width)


def _raise(cells: list[float], at: int, values: list[Number], wide: int) -> None:
    """Let a row of elements raise the cells that it belongs to."""
    for k in range(0, len(values), wide):
        sizes = list(map(abs, values[k : k + wide]))
        largest = math.nan if math.isnan(sum(sizes)) else max(sizes)
        cells[at] = largest if largest != largest else max(largest, cells[at])
        at += 1


def _single(value: float) -> float:
    """Give a value that a float32 holds."""
    return math.inf if value > 3.4028235677973366e38 else value
