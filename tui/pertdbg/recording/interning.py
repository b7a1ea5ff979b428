"""The parts that repeat from call to call, each written once."""

from __future__ import annotations

import json
from typing import Any

from pertdbg.recording import schema
from pertdbg.recording.pack import Row, bounded, detail_json
from pertdbg.recording.parts import LayerSource
from pertdbg.recording.statements import Pending, sealed

CACHE_LIMIT = 10_000
"""Parts that are remembered; beyond it one may be written twice, which does no harm."""

_TEXTS_AT = len(schema.TENSOR_KINDS.ints) - 1


class WriterInterns:
    """Gives ids to repeated parts, and the rows that must be written with the next commit."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, LayerSource]] = {}
        self._kinds: dict[Row, int] = {}
        self._details: dict[Row, int] = {}
        self._last = 0
        self._pending: Pending = []

    def take(self) -> Pending:
        """Hand over the rows that are due."""
        pending, self._pending = self._pending, []
        return pending

    def add_layer(self, layer: LayerSource) -> None:
        """Keep a layer, in place of one with the same name."""
        ident, _ = self._layers.get(layer.name) or (len(self._layers) + 1, layer)
        self._layers[layer.name] = ident, layer
        row = (
            ident,
            layer.first_line,
            bounded(layer.name, schema.NAME_LIMIT),
            bounded(layer.cls, schema.NAME_LIMIT),
            bounded(layer.file, schema.NAME_LIMIT),
            bounded(layer.source, schema.SOURCE_LIMIT),
        )
        self._pending.append(sealed(schema.LAYERS, row))

    def renew(self) -> None:
        """Have everything written again, since it is not known what of it was."""
        self._kinds.clear()
        self._details.clear()
        self._pending.clear()
        for _, layer in list(self._layers.values()):
            self.add_layer(layer)

    def again(self) -> None:
        """Have what records share written once more, so that losing one copy is not losing all."""
        self._kinds.clear()
        self._details.clear()

    def layer(self, name: str) -> int:
        """Give the id of a layer."""
        if name not in self._layers:
            self.add_layer(LayerSource(name))
        return self._layers[name][0]

    def tensor_kind(self, key: Row) -> int:
        """Give the id of a tensor's static facts."""
        ident = self._kinds.get(key)
        if ident is None:
            ident = self._new(self._kinds, key)
            row = (ident, *key[:_TEXTS_AT], *(_text(value) for value in key[_TEXTS_AT:]))
            self._pending.append(sealed(schema.TENSOR_KINDS, row))
        return ident

    def detail(self, key: Row) -> int:
        """Give the id of a repeated part."""
        ident = self._details.get(key)
        if ident is None:
            ident = self._new(self._details, key)
            self._pending.append(sealed(schema.DETAIL, (ident, detail_json(key))))
        return ident

    def _new(self, cache: dict[Row, int], key: Row) -> int:
        if len(cache) >= CACHE_LIMIT:
            cache.clear()
        self._last += 1
        cache[key] = self._last
        return self._last


def _text(value: Any) -> str | None:
    if isinstance(value, tuple):
        return json.dumps(value)
    return bounded(value, schema.NAME_LIMIT)
