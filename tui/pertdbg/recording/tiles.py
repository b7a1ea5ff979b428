"""Summaries of many calls, so that a plot over a million of them reads few rows and loses no spike.

A tile of level k sums up `FAN`^k consecutive calls. Its data is the marks that any of them
carries, as uint64; then for each plottable column how many values there were and how many of them
NaN or infinite, as uint32, and the least and greatest finite one, as float64 (NaN where there is
none); all little endian.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Any, NamedTuple

from pertdbg.recording.columns import CALL, FLOATS, HISTOGRAM_RANGE, PLOTTABLE

FAN = 16
"""Calls in a tile of level 1, and tiles of one level in one of the next."""

LEVELS = 6
"""Levels that are kept; the last spans 16 million calls."""

_NOTHING = float("nan")
_HEAD = struct.Struct("<Q")
_PART = struct.Struct("<IIdd")
_plottable: Callable[[Sequence[Any]], tuple[float | None, ...]] = operator.itemgetter(
    *(CALL.index(column) for column in PLOTTABLE)
)
_NO_VALUES = (None,) * len(PLOTTABLE)
_PATHS = [column.path for column in CALL]
_MASK = _PATHS.index("nan_mask")
_MARKS = _PATHS.index("marks")
_MASKED = [column.path for column in FLOATS + HISTOGRAM_RANGE]
_BITS = [_MASKED.index(c.path) if c.path in _MASKED else -1 for c in PLOTTABLE]

DATA_SIZE = _HEAD.size + len(PLOTTABLE) * _PART.size
"""Bytes of a tile's data."""

INDEX = {column.path: k for k, column in enumerate(PLOTTABLE)}
"""Where a column stands among the summaries of a tile."""


class Summary(NamedTuple):
    """What is known of one fact over some calls."""

    n: int
    """Values, NaN and infinite ones included."""
    bad: int
    """Values that are NaN or infinite."""
    low: float
    """The least finite value, NaN where there is none."""
    high: float
    """The greatest finite value, NaN where there is none."""


EMPTY = Summary(0, 0, _NOTHING, _NOTHING)


class Tile(NamedTuple):
    """What is known of all facts over some calls."""

    marks: int
    """Bits of the marks that any of the calls carries."""
    summaries: tuple[Summary, ...]
    """In the order of `PLOTTABLE`."""


def tile_id(level: int, index: int) -> int:
    """Give the id of the tile that sums up the calls from 1 + index * FAN**level."""
    return level << 40 | index


def values_of(row: Sequence[Any]) -> tuple[float | None, ...]:
    """Give the values of the plottable columns in a row of `call`; None where one is not known."""
    values = _plottable(row)
    mask = row[_MASK]
    if not mask:
        return values
    return tuple(
        _NOTHING if bit >= 0 and mask >> bit & 1 else value
        for value, bit in zip(values, _BITS, strict=True)
    )


def marks_in(row: Sequence[Any]) -> int:
    """Give the marks of a row of `call`."""
    marks: int = row[_MARKS]
    return marks


def summarise(values: Iterable[float | None]) -> Summary:
    """Sum up the values of one fact."""
    known = [value for value in values if value is not None]
    finite = [value for value in known if isfinite(value)]
    if not finite:
        return Summary(len(known), len(known), _NOTHING, _NOTHING)
    return Summary(len(known), len(known) - len(finite), min(finite), max(finite))


def merge(parts: Iterable[Summary]) -> Summary:
    """Sum up summaries."""
    parts = list(parts)
    finite = [part for part in parts if part.n > part.bad]
    return Summary(
        sum(part.n for part in parts),
        sum(part.bad for part in parts),
        min((part.low for part in finite), default=_NOTHING),
        max((part.high for part in finite), default=_NOTHING),
    )


def summary_in(data: bytes, k: int) -> Summary:
    """Read the summary of one column out of a tile's data."""
    return Summary(*_PART.unpack_from(data, _HEAD.size + k * _PART.size))


def marks_of_tile(data: bytes) -> int:
    """Read the marks out of a tile's data."""
    marks: int = _HEAD.unpack_from(data)[0]
    return marks


class Tiler:
    """Makes the tiles while rows are written, in order from id 1."""

    def __init__(self) -> None:
        self._rows: list[tuple[tuple[float | None, ...], int]] = []
        self._waiting: list[list[Tile]] = [[] for _ in range(LEVELS)]
        self._made = [0] * LEVELS

    @property
    def seen(self) -> int:
        """How many rows it was given."""
        return self._made[0] * FAN + len(self._rows)

    def add(self, row: Sequence[Any] | None) -> list[tuple[int, bytes]]:
        """Take the next row of `call`, or None for one that is missing.

        Returns:
            The rows of `tile` that are complete with it.
        """
        self._rows.append((_NO_VALUES, 0) if row is None else (values_of(row), marks_in(row)))
        if len(self._rows) < FAN:
            return []
        tile = _tile_of_rows(self._rows)
        self._rows.clear()
        return self._climb(tile)

    def _climb(self, tile: Tile) -> list[tuple[int, bytes]]:
        rows = []
        for level in range(LEVELS):
            rows.append((tile_id(level + 1, self._made[level]), _data(tile)))
            self._made[level] += 1
            waiting = self._waiting[level]
            waiting.append(tile)
            if len(waiting) < FAN:
                break
            tile = _tile_of_tiles(waiting)
            waiting.clear()
        return rows


def _tile_of_rows(rows: Sequence[tuple[tuple[float | None, ...], int]]) -> Tile:
    columns = zip(*[values for values, _ in rows], strict=True)
    marks = functools.reduce(operator.or_, [marks for _, marks in rows])
    return Tile(marks, tuple(map(summarise, columns)))


def _tile_of_tiles(tiles: Sequence[Tile]) -> Tile:
    columns = zip(*[tile.summaries for tile in tiles], strict=True)
    marks = functools.reduce(operator.or_, [tile.marks for tile in tiles])
    return Tile(marks, tuple(map(merge, columns)))


def _data(tile: Tile) -> bytes:
    return _HEAD.pack(tile.marks) + b"".join([_PART.pack(*part) for part in tile.summaries])
