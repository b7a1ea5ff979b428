"""Rows of `call`, read some at a time, each checked against its checksum once, kept for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from pertdbg.recording import schema
from pertdbg.recording.safeopen import Source

T = TypeVar("T")

_CALL = schema.Seal(schema.CALLS)


class Chunks(Generic[T]):
    """Gives what is made of rows; None in the place of one that is missing or damaged."""

    def __init__(
        self, source: Source, make: Callable[[tuple[Any, ...]], T], *, size: int, kept: int
    ) -> None:
        """Say what is read.

        Args:
            source: Where the rows are.
            make: What is made of a row, its checksum included.
            size: Calls that are read together.
            kept: Chunks of so many calls that are kept.
        """
        self._source, self._make = source, make
        self._size, self._most = size, kept
        self._chunks: OrderedDict[int, list[T | None]] = OrderedDict()

    def between(self, lo: int, hi: int) -> Iterator[T | None]:
        """Give those of the calls lo to hi, both included; both exist."""
        for chunk in range((lo - 1) // self._size, (hi - 1) // self._size + 1):
            first = chunk * self._size + 1
            rows = self._chunk(chunk, min(hi, first + self._size - 1))
            yield from rows[max(lo - first, 0) : hi - first + 1]

    def one(self, ident: int) -> T | None:
        """Give that of a call, which exists."""
        chunk, place = divmod(ident - 1, self._size)
        return self._chunk(chunk, ident)[place]

    def _chunk(self, chunk: int, upto: int) -> list[T | None]:
        known = self._chunks.setdefault(chunk, [])
        self._chunks.move_to_end(chunk)
        first = chunk * self._size + 1 + len(known)
        if first <= upto:
            known.extend(self._read(first, upto, (chunk + 1) * self._size))
            while len(self._chunks) > self._most:
                self._chunks.popitem(last=False)
        return known

    def _read(self, lo: int, hi: int, end: int) -> list[T | None]:
        """Read the calls lo to hi, which exist, and those up to `end` that do."""
        rows = self._source.query(f"{schema.CALLS.select} WHERE id BETWEEN ? AND ?", (lo, end))
        last = max(hi, rows[-1][0]) if rows else hi
        found = {row[0]: self._make(row) for row in rows if _CALL.holds(row)}
        return [found.get(ident) for ident in range(lo, last + 1)]
