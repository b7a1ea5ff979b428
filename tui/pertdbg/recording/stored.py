"""Tensors that a recording holds: what they are, and their values, read where they are asked for.

Neither torch nor numpy is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pertdbg.recording import details, safetensors, schema
from pertdbg.recording.dtypes import Dtype, Number
from pertdbg.recording.safeopen import DamagedRecording, Source
from pertdbg.recording.tensorrows import part_id

ROLES_LIMIT = 256
"""Most tensors of one call that are listed."""

_TENSOR = schema.Seal(schema.TENSORS)
_PART = schema.Seal(schema.TENSOR_PARTS)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a recording."""

    id: int
    call: int
    """Id of the record."""
    role: str
    dtype: Dtype
    shape: tuple[int, ...]
    nbytes: int
    """Of the safetensors file, header included."""
    parts: int
    pinned: bool
    why: str
    _source: Source = field(repr=False, compare=False)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def values(self, start: int = 0, stop: int | None = None) -> list[Number]:
        """Give the elements start to before stop, counted row by row.

        Raises:
            DamagedRecording: They are damaged or missing.
        """
        stop = self.count if stop is None else min(stop, self.count)
        size = self.dtype.size
        return self.dtype.read(b"".join(self.data(start * size, max(start, stop) * size)))

    def at(self, *index: int) -> Number:
        """Give one element.

        Raises:
            IndexError: There is none there.
            DamagedRecording: It is damaged or missing.
        """
        place = 0
        for k, size in zip(index, self.shape, strict=True):
            if not 0 <= k < size:
                raise IndexError(f"{index} of a tensor of shape {self.shape}")
            place = place * size + k
        return self.values(place, place + 1)[0]

    def data(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Give the bytes of the values, start to before stop, in pieces.

        Raises:
            DamagedRecording: They are damaged or missing.
        """
        offset = self._values_at()
        end = self.nbytes if stop is None else offset + stop
        return self._bytes(offset + start, end)

    def file(self) -> Iterator[bytes]:
        """Give the bytes of a safetensors file with this tensor, in pieces.

        Raises:
            DamagedRecording: They are damaged or missing.
        """
        self._values_at()
        return self._bytes(0, self.nbytes)

    def _values_at(self) -> int:
        try:
            return safetensors.values_at(self._part(0), self.dtype, self.shape)
        except ValueError as error:
            raise self._damaged(str(error)) from error

    def _bytes(self, begin: int, end: int) -> Iterator[bytes]:
        size = schema.PART_SIZE
        for part in range(begin // size, -(-end // size) if begin < end else 0):
            yield self._part(part)[max(begin - part * size, 0) : end - part * size]

    def _part(self, part: int) -> bytes:
        rows = self._source.query(
            f"{schema.TENSOR_PARTS.select} WHERE id = ?", (part_id(self.id, part),)
        )
        whole = min(schema.PART_SIZE, self.nbytes - part * schema.PART_SIZE)
        if not rows or not _PART.holds(rows[0]) or len(rows[0][3] or b"") != whole:
            raise self._damaged(f"part {part + 1} of {self.parts} is missing or damaged")
        data: bytes = rows[0][3]
        return data

    def _damaged(self, reason: str) -> DamagedRecording:
        return DamagedRecording(
            f"{self._source.path}: {self.role} of record {self.call} is damaged: {reason}"
        )


def stored_tensors(source: Source, call: int) -> tuple[StoredTensor, ...]:
    """Give the tensors of a call whose rows are sound."""
    rows = source.query(
        f"{schema.TENSORS.select} WHERE call = ? ORDER BY id LIMIT {ROLES_LIMIT}", (call,)
    )
    found = (_tensor(row, source) for row in rows if _TENSOR.holds(row))
    return tuple(tensor for tensor in found if tensor is not None)


def calls_with_tensors(source: Source, lo: int, hi: int) -> list[int]:
    """Give the calls lo to hi, both included, of which a tensor is stored."""
    rows = source.query(
        "SELECT DISTINCT call FROM tensor WHERE call BETWEEN ? AND ? ORDER BY call", (lo, hi)
    )
    return [call for (call,) in rows]


def _tensor(row: tuple[Any, ...], source: Source) -> StoredTensor | None:
    """Read a row; None where it does not make sense, so that no number in it can do harm."""
    ident, call, nbytes, parts, pinned, role, dtype, shape, _, why, _ = row
    try:
        kind, sizes = safetensors.dtype_of(dtype), details.sizes(shape)
        role, why = details.name(role), details.name(why)
    except (ValueError, TypeError):
        return None
    if min(sizes, default=0) < 0 or nbytes is None or call is None:
        return None
    room = nbytes - math.prod(sizes) * kind.size
    if not 0 <= room <= safetensors.HEADER_LIMIT + 8 or parts != -(-nbytes // schema.PART_SIZE):
        return None
    return StoredTensor(ident, call, role, kind, sizes, nbytes, parts, bool(pinned), why, source)
