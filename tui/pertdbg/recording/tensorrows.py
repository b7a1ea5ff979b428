"""Tensors on their way into the file: parts, and what must go to make room for them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

from pertdbg.record import CallRecord
from pertdbg.recording import safetensors, schema
from pertdbg.recording.pack import bounded
from pertdbg.recording.retention import Retention
from pertdbg.recording.statements import Pending, Statement, meta, sealed

_COMMIT = 16
"""Parts in one commit, so that the journal stays small beside a large tensor."""

_PART_BITS = 16
"""A tensor has at most 2**16 parts, that is 16 GiB."""

_Row = tuple[int, int, int, int, int, str, str, str, str, str]


def part_id(tensor: int, part: int) -> int:
    """Give the id of the row of a part."""
    return tensor << _PART_BITS | part


class TensorRows:
    """Turns tensors into rows. Each list of statements that it gives is one commit."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._last = 0
        self._rows: dict[int, list[_Row]] = {}
        """By the call."""
        self._layer: dict[int, str] = {}
        self.left_out = 0
        """Tensors for which there was no room."""

    def wants(self, layer: str, call: int, *, fault: bool) -> bool:
        """Say whether the tensors of a layer's next call, or of its last, are to be stored."""
        return self._retention.wants(layer, call, fault=fault)

    def called(self, record: CallRecord, *, fault: bool) -> None:
        """Take note of a record that was written."""
        self._layer = {record.id: record.layer}
        self._retention.called(record.id, record.layer, record.call, fault=fault)

    def begun(self, call_id: int) -> None:
        """Take note of a call that is under way; its layer is known only with its record."""
        self._layer[call_id] = ""

    def roles(self, call_id: int) -> frozenset[str]:
        """Give the roles of the tensors that are kept of a call."""
        return frozenset(row[5] for row in self._rows.get(call_id, ()))

    def drop(self, call_id: int) -> Pending:
        """Give the statements that drop a call's tensors."""
        self._retention.drop(call_id)
        return list(self._delete(call_id))

    def add(
        self,
        call_id: int,
        role: str,
        dtype: str,
        shape: Sequence[int],
        data: bytes | bytearray | memoryview,
        why: str,
    ) -> Iterator[Pending]:
        """Give the commits that keep a tensor of the last call, its row last.

        Raises:
            ValueError: The bytes are not those of such a tensor, or the call is not the last.
        """
        kind = safetensors.dtype_of(dtype)
        view = memoryview(data).cast("B")
        if len(view) != math.prod(shape) * kind.size:
            raise ValueError(f"{len(view)} bytes are no {dtype} of shape {tuple(shape)}")
        if call_id not in self._layer:
            raise ValueError(f"call {call_id} is not the last one that was recorded")
        role = bounded(role, schema.NAME_LIMIT) or ""
        head = safetensors.header(role, kind, shape, {"pertdbg.id": str(call_id)})
        return self._commits(call_id, role, (dtype, json.dumps(list(shape))), head, view, why)

    def pin(self, call_id: int) -> Pending:
        """Give the statements that keep a call's tensors whatever comes."""
        if not self._retention.pin(call_id):
            return []
        self._rows[call_id] = [(*row[:4], 1, *row[5:]) for row in self._rows[call_id]]
        return [sealed(schema.TENSORS, row) for row in self._rows[call_id]]

    def _commits(
        self,
        call_id: int,
        role: str,
        kind: tuple[str, str],
        head: bytes,
        data: memoryview,
        why: str,
    ) -> Iterator[Pending]:
        nbytes = len(head) + len(data)
        parts = -(-nbytes // schema.PART_SIZE)
        before = self._retention.thinned
        gone, fits = self._retention.room_for(call_id, self._layer[call_id], nbytes)
        pending = [statement for ident in gone for statement in self._delete(ident)]
        if self._retention.thinned > before:
            pending.append(meta("tensors_dropped", self._retention.thinned))
        if not fits or parts > 1 << _PART_BITS:
            self.left_out += 1
            yield [*pending, meta("tensors_left_out", self.left_out)]
            return
        self._last += 1
        tensor = self._last
        for part in range(parts):
            piece = _piece(head, data, part * schema.PART_SIZE)
            pending.append(
                sealed(schema.TENSOR_PARTS, (part_id(tensor, part), tensor, part, piece))
            )
            if len(pending) >= _COMMIT and part < parts - 1:
                yield pending
                pending = []
        row = (tensor, call_id, nbytes, parts, 0, role, *kind, "safetensors", why)
        self._rows.setdefault(call_id, []).append(row)
        self._retention.stored(call_id, self._layer[call_id], nbytes)
        yield [*pending, sealed(schema.TENSORS, row)]

    def _delete(self, call_id: int) -> Iterator[Statement]:
        for tensor, _, _, parts, *_ in self._rows.pop(call_id, ()):
            bounds = (part_id(tensor, 0), part_id(tensor, parts - 1))
            yield "DELETE FROM tensor WHERE id = ?", (tensor,)
            yield "DELETE FROM tensor_part WHERE id BETWEEN ? AND ?", bounds


def _piece(head: bytes, data: memoryview, at: int) -> bytes:
    """Give the part of header and values, seen as one, that begins at a place."""
    end = at + schema.PART_SIZE
    begin = at - len(head)
    return head[at:end] + bytes(data[max(begin, 0) : max(end - len(head), 0)])
