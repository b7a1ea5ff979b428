"""The numbers of many calls, each checked against its checksum once and then kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pertdbg.recording import schema
from pertdbg.recording.safeopen import Source
from pertdbg.recording.tiles import DATA_SIZE, marks_in, tile_id, values_of

CHUNK = 64
"""Calls that are read together."""

CHUNKS_KEPT = 128

RUNS_KEPT = 512
"""Runs of tiles, of at most 16 each, that are kept."""

_CALL = schema.Seal(schema.CALLS)
_TILE = schema.Seal(schema.TILES)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The plottable numbers of one call."""

    values: tuple[float | None, ...]
    marks: int


class Facts:
    """Reads numbers and tiles; what is missing or damaged is None."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.tiles = lru_cache(RUNS_KEPT)(self._tiles)
        self._chunks: OrderedDict[int, list[Numbers | None]] = OrderedDict()

    def numbers(self, lo: int, hi: int) -> Iterator[Numbers | None]:
        """Give the numbers of the calls lo to hi, both included; both exist."""
        for chunk in range((lo - 1) // CHUNK, (hi - 1) // CHUNK + 1):
            first = chunk * CHUNK + 1
            rows = self._chunk(chunk, min(hi, first + CHUNK - 1))
            yield from rows[max(lo - first, 0) : hi - first + 1]

    def _tiles(self, level: int, first: int, last: int) -> list[bytes | None]:
        """Give the data of the tiles first to last of a level, both included."""
        bounds = (tile_id(level, first), tile_id(level, last))
        rows = self._source.query(f"{schema.TILES.select} WHERE id BETWEEN ? AND ?", bounds)
        found = {row[0]: row[1] for row in rows if _TILE.holds(row) and len(row[1]) == DATA_SIZE}
        return [found.get(tile_id(level, index)) for index in range(first, last + 1)]

    def _chunk(self, chunk: int, upto: int) -> list[Numbers | None]:
        known = self._chunks.setdefault(chunk, [])
        self._chunks.move_to_end(chunk)
        first = chunk * CHUNK + 1 + len(known)
        if first <= upto:
            known.extend(self._read(first, upto))
            while len(self._chunks) > CHUNKS_KEPT:
                self._chunks.popitem(last=False)
        return known

    def _read(self, lo: int, hi: int) -> list[Numbers | None]:
        rows = self._source.query(f"{schema.CALLS.select} WHERE id BETWEEN ? AND ?", (lo, hi))
        found = {row[0]: _numbers(row) for row in rows if _CALL.holds(row)}
        return [found.get(ident) for ident in range(lo, hi + 1)]


def _numbers(row: tuple[Any, ...]) -> Numbers:
    return Numbers(values_of(row), marks_in(row))
