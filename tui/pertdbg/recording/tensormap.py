"""The picture of a stored tensor of any size, made bit by bit, without torch and numpy."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Iterator

from pertdbg.recording.dtypes import Number
from pertdbg.recording.parts import HeatMap
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.window import Window

SIDE = 64
"""Largest number of rows and columns of a map."""

_AT_ONCE = 1 << 15
"""Elements of the tensor that are read between two looks at the clock."""

_FLOAT32 = 3.4028235677973366e38


class Sketch:
    """A map of |tensor|, each cell the largest of its elements that were read so far."""

    def __init__(self, window: Window, side: int = SIDE) -> None:
        self.window = window
        self.share = 0.0 if window.count else 1.0
        """How much of the tensor was read."""
        self._tall = -(-window.rows // side) or 1
        self._wide = -(-window.columns // side) or 1
        self._rows = -(-window.rows // self._tall)
        self._cols = -(-window.columns // self._wide)
        self._cells = [0.0] * (self._rows * self._cols)
        self._work = self._read()

    @property
    def done(self) -> bool:
        """Whether the whole tensor was read."""
        return self.share >= 1

    def go_on(self, seconds: float) -> bool:
        """Read on for some time; say whether there is more to read.

        Raises:
            DamagedRecording: The tensor is damaged.
        """
        due = time.monotonic() + seconds
        for done in self._work:
            self.share = done / self.window.count
            if time.monotonic() > due:
                break
        return not self.done

    def picture(self) -> HeatMap | None:
        """Give the map as far as it is; None of a tensor without elements."""
        window = self.window
        if not window.count:
            return None
        data = struct.pack(f"<{len(self._cells)}f", *map(_single, self._cells))
        return HeatMap(self._rows, self._cols, data, window.rows, window.columns)

    def _read(self) -> Iterator[int]:
        """Read row by row, many at once where they are short; give how many elements are done."""
        window = self.window
        run, columns = window.together(), window.columns
        lines = max(min(_AT_ONCE // max(columns, 1), run), 1)
        top = 0
        while top < window.rows:
            bottom = min(top + lines, (top // run + 1) * run, window.rows)
            if bottom - top > 1 or columns * window.pitch <= _AT_ONCE:
                self._take_rows(top, bottom)
                yield bottom * columns
            else:
                yield from self._read_row(top)
            top = bottom

    def _take_rows(self, top: int, bottom: int) -> None:
        window, columns = self.window, self.window.columns
        start, pitch = window.start(top), max(window.pitch, 1)
        count = (bottom - top) * columns
        values = window.tensor.values(start, start + (count - 1) * pitch + 1)[::pitch]
        for row in range(top, bottom):
            self._raise(row, 0, values[(row - top) * columns : (row - top + 1) * columns])

    def _read_row(self, row: int) -> Iterator[int]:
        """Read a row that is long, or whose elements stand far apart, in pieces of whole cells."""
        window = self.window
        start, pitch = window.start(row), max(window.pitch, 1)
        piece = max(_AT_ONCE // pitch, 1)
        for left in range(0, window.columns, piece):
            right = min(left + piece, window.columns)
            at = start + left * pitch
            values = window.tensor.values(at, at + (right - left - 1) * pitch + 1)[::pitch]
            self._raise(row, left, values)
            yield row * window.columns + right

    def _raise(self, row: int, left: int, values: list[Number]) -> None:
        """Let a part of a row raise the cells that it belongs to."""
        first, at = row // self._tall * self._cols, 0
        while at < len(values):
            column = (left + at) // self._wide
            upto = (column + 1) * self._wide - left
            sizes = list(map(abs, values[at:upto]))
            largest = math.nan if math.isnan(sum(sizes)) else max(sizes)
            before = self._cells[first + column]
            if before == before:
                raised = largest if largest != largest else max(largest, before)
                self._cells[first + column] = raised
            at = upto


def picture_of(tensor: StoredTensor, side: int = SIDE) -> HeatMap | None:
    """Shrink |tensor| to at most side x side cells, each the maximum of its elements.

    Returns:
        The picture; None of a tensor without elements.

    Raises:
        DamagedRecording: The tensor is damaged.
    """
    sketch = Sketch(Window(tensor), side)
    while sketch.go_on(math.inf):
        pass
    return sketch.picture()


def _single(value: float) -> float:
    """Give a value that a float32 holds."""
    return math.inf if value > _FLOAT32 else value
