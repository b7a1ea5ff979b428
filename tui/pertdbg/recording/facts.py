"""The numbers of many calls, each checked against its checksum once and then kept for a while."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pertdbg.recording import schema
from pertdbg.recording.chunks import Chunks
from pertdbg.recording.safeopen import Source
from pertdbg.recording.tiles import DATA_SIZE, marks_in, tile_id, values_of

RUNS_KEPT = 512
"""Runs of tiles, of at most 16 each, that are kept."""

_CHUNK = 64
_CHUNKS_KEPT = 128

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
        self.numbers = Chunks(source, _numbers, size=_CHUNK, kept=_CHUNKS_KEPT).between
        """Gives the numbers of the calls lo to hi, both included; both exist."""

    def _tiles(self, level: int, first: int, last: int) -> list[bytes | None]:
        """Give the data of the tiles first to last of a level, both included."""
        bounds = (tile_id(level, first), tile_id(level, last))
        rows = self._source.query(f"{schema.TILES.select} WHERE id BETWEEN ? AND ?", bounds)
        found = {row[0]: row[1] for row in rows if _TILE.holds(row) and len(row[1]) == DATA_SIZE}
        return [found.get(tile_id(level, index)) for index in range(first, last + 1)]


def _numbers(row: tuple[Any, ...]) -> Numbers:
    return Numbers(values_of(row), marks_in(row))
