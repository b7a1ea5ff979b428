"""A part of a stored tensor, chosen by an index, of which only what is asked for is read."""

from __future__ import annotations

import math
import re
import time
from collections import OrderedDict
from dataclasses import dataclass

from pertdbg.errors import PertdbgError
from pertdbg.recording.dtypes import Number
from pertdbg.recording.stored import StoredTensor

ASKED = "Slice by index, as  0, :, 3:10  or  ..., ::4 ; nothing for all"

_SLICE = re.compile(r"(-?\d+)?\s*:\s*(-?\d+)?(?:\s*:\s*(\d+)?)?")

_BLOCK = 4096
"""Elements that are read and kept together."""

_BLOCKS_KEPT = 1024


@dataclass(frozen=True)
class Axis:
    """A dimension that an index keeps."""

    dimension: int
    start: int
    step: int
    count: int
    pitch: int
    """Elements of the tensor from one place to the next."""

    def place(self, index: int) -> int:
        """Give the place in the tensor's own dimension."""
        return self.start + index * self.step


class Window:
    """What an index leaves of a tensor, seen as a matrix: rows along its last dimension."""

    def __init__(self, tensor: StoredTensor, index: str = "") -> None:
        """Choose a part.

        Args:
            tensor: The whole.
            index: As numpy writes one, without brackets; empty for all.

        Raises:
            PertdbgError: The index is none, or not one of this tensor.
        """
        self.tensor, self.index = tensor, index.strip().strip("[]").strip()
        offset, axes = _chosen(self.index, tensor.shape)
        self.offset, self.axes = offset, axes
        self.leading, self._last = axes[:-1], axes[-1] if axes else Axis(0, 0, 1, 1, 0)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._fresh = 0
        """Blocks that were read for what is asked just now."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions that are kept."""
        return tuple(axis.count for axis in self.axes)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self._last.count

    @property
    def rows(self) -> int:
        """Rows that the other dimensions make."""
        return math.prod(axis.count for axis in self.leading) if self.count else 0

    @property
    def pitch(self) -> int:
        """Elements of the tensor from one column to the next."""
        return self._last.pitch

    def start(self, row: int) -> int:
        """Give where a row begins, in elements of the tensor."""
        return self.offset + sum(
            place * axis.pitch for place, axis in zip(self._places(row), self.leading, strict=True)
        )

    def together(self) -> int:
        """Say how many rows, from each multiple of it on, follow each other without a gap."""
        run, size = 1, self.columns
        if self.pitch != 1:
            return 1
        for axis in reversed(self.leading):
            if axis.pitch != size:
                break
            run, size = run * axis.count, size * axis.count
        return run

    def row_name(self, row: int) -> str:
        """Give the places of a row in the tensor's dimensions that are not chosen by the index."""
        places = zip(self._places(row), self.leading, strict=True)
        return ",".join(str(axis.place(place)) for place, axis in places)

    def column_name(self, column: int) -> int:
        """Give the place of a column in the tensor's own dimension."""
        return self._last.place(column)

    def _places(self, row: int) -> list[int]:
        places: list[int] = []
        for axis in reversed(self.leading):
            row, place = divmod(row, max(axis.count, 1))
            places.append(place)
        return places[::-1]

    def read(
        self, rows: tuple[int, int], columns: tuple[int, int], seconds: float
    ) -> list[list[Number | None]]:
        """Read some rows and columns, for a time; what is not read by then is None.

        It is there the next time, or some times after: each reads on, and what was read is kept.

        Raises:
            DamagedRecording: The values are damaged.
        """
        due, self._fresh = time.monotonic() + seconds, 0
        return [self._row(self.start(row), columns, due) for row in range(*rows)]

    def _row(self, start: int, columns: tuple[int, int], due: float) -> list[Number | None]:
        found: list[Number | None] = []
        left, right = columns
        while left < right:
            first = start + left * self.pitch
            block, inside = divmod(first, _BLOCK)
            room = (_BLOCK - 1 - inside) // self.pitch + 1 if self.pitch else 1
            upto = min(left + room, right)
            found += self._some(block, inside, upto - left, due)
            left = upto
        return found

    def _some(self, block: int, inside: int, count: int, due: float) -> list[Number | None]:
        data = self._blocks.get(block)
        if data is None:
            if self._fresh and time.monotonic() > due:
                return [None] * count
            self._fresh += 1
            data = b"".join(self.tensor.data(*self._bytes(block)))
            self._blocks[block] = data
            while len(self._blocks) > _BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(block)
        size, step = self.tensor.dtype.size, max(self.pitch, 1)
        span = data[inside * size : (inside + (count - 1) * step + 1) * size]
        return list(self.tensor.dtype.read(span)[::step])

    def _bytes(self, block: int) -> tuple[int, int]:
        size = self.tensor.dtype.size
        last = min((block + 1) * _BLOCK, self.tensor.count)
        return block * _BLOCK * size, last * size


def _chosen(index: str, shape: tuple[int, ...]) -> tuple[int, tuple[Axis, ...]]:
    """Turn an index into where it begins and the dimensions that it keeps."""
    items = _items(index, len(shape))
    offset, axes = 0, []
    for dimension, (item, size) in enumerate(zip(items, shape, strict=True)):
        stride = math.prod(shape[dimension + 1 :])
        if isinstance(item, int):
            offset += _within(item, size, dimension) * stride
            continue
        places = range(size)[item]
        offset += places.start * stride if places else 0
        axes.append(Axis(dimension, places.start, places.step, len(places), places.step * stride))
    return offset, tuple(axes)


def _items(index: str, dimensions: int) -> list[int | slice]:
    texts = [text.strip() for text in index.split(",")] if index else []
    given = len(texts) - texts.count("...")
    if given > dimensions or texts.count("...") > 1:
        raise PertdbgError(f"{index!r} has too many places: the tensor has {dimensions} dimensions")
    rest: list[int | slice] = [slice(None)] * (dimensions - given)
    if "..." not in texts:
        return [*map(_item, texts), *rest]
    at = texts.index("...")
    return [*map(_item, texts[:at]), *rest, *map(_item, texts[at + 1 :])]


def _item(text: str) -> int | slice:
    try:
        if found := _SLICE.fullmatch(text):
            start, stop, step = (None if part is None else int(part) for part in found.groups())
            if step == 0:
                raise PertdbgError(f"{text!r} goes nowhere: a step is at least 1")
            return slice(start, stop, step)
        return int(text)
    except ValueError:
        raise PertdbgError(f"{text!r} is no place: try 3, 2:10, ::4, : or ...") from None


def _within(item: int, size: int, dimension: int) -> int:
    if not -size <= item < size:
        raise PertdbgError(f"there is no {item} in dimension {dimension}, which has {size} places")
    return item % size
