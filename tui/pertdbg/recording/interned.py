"""The repeated parts of records, looked up by the ids that rows hold."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pertdbg.recording import details, schema, unpack
from pertdbg.recording.parts import LayerSource
from pertdbg.recording.safeopen import DamagedRecording, Source

_CACHE = 4096
_LAYERS = schema.Seal(schema.LAYERS)
_KINDS = schema.Seal(schema.TENSOR_KINDS)
_DETAIL = schema.Seal(schema.DETAIL)


class ReaderInterns:
    """Reads repeated parts, each at most once as long as it stays in the cache."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._layers: dict[int, LayerSource] = {}
        self._layers_seen: tuple[Any, ...] = ()
        self.tensor_kind = lru_cache(_CACHE)(self._tensor_kind)
        self.detail = lru_cache(_CACHE)(self._detail)

    def layers(self) -> dict[int, LayerSource]:
        """Give all layers that are sound, by id; read again only when one was added or replaced."""
        (seen,) = self._source.query("SELECT count(*), sum(crc) FROM layer")
        if seen != self._layers_seen:
            rows = self._source.query(f"{schema.LAYERS.select} ORDER BY id LIMIT 1000")
            sound = (_layer(row) for row in rows if _LAYERS.holds(row))
            self._layers = {found[0]: found[1] for found in sound if found is not None}
            self._layers_seen = seen
        return self._layers

    def layer_name(self, ident: int) -> str:
        """Give the name of a layer."""
        layer = self._layers.get(ident) or self.layers().get(ident)
        if layer is None:
            raise DamagedRecording("its layer is missing or damaged")
        return layer.name

    def _tensor_kind(self, ident: int) -> Mapping[str, Any]:
        return unpack.tensor_kind(self._row(schema.TENSOR_KINDS, _KINDS, ident))

    def _detail(self, part: str, ident: int) -> Any:
        return details.parse(part, self._row(schema.DETAIL, _DETAIL, ident)[1])

    def _row(self, table: schema.Table, seal: schema.Seal, ident: int) -> tuple[Any, ...]:
        rows = self._source.query(f"{table.select} WHERE id = ?", (ident,))
        if not rows or not seal.holds(rows[0]):
            raise DamagedRecording(f"row {ident} of {table.name} is missing or damaged")
        return rows[0]


def _layer(row: tuple[Any, ...]) -> tuple[int, LayerSource] | None:
    ident, first_line, name, cls, file, source, _ = row
    try:
        return ident, LayerSource(
            details.name(name),
            details.name_or_none(cls),
            details.name_or_none(file),
            first_line,
            details.source(source),
        )
    except ValueError:
        return None
