"""Finds rows in the pages of a damaged database without the help of SQLite.

The file format is https://sqlite.org/fileformat2.html. Every page is looked at on its own, so that
neither a damaged tree nor a missing end of the file hides a page that is there. Nothing that is
read is trusted: a row counts only when its checksum holds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pertdbg.recording.schema import BLOB_LIMIT

TABLE_LEAF = 0x0D
INDEX_LEAF = 0x0A
_INDEX_INTERIOR = 0x02

COLUMNS_LIMIT = 200
"""Most columns of a row; `call` has some ninety."""

_FILE_HEADER = 100
_NUMBERS: dict[int, Callable[[bytes], Any]] = {
    0: lambda _: None,
    7: lambda data: struct.unpack(">d", data)[0],
    8: lambda _: 0,
    9: lambda _: 1,
}
_SIZES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}

Page = Callable[[int], bytes | None]
"""Gives a page by its number, None where there is none."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row as it stands in a page."""

    id: int | None
    """The rowid; None in a table without."""
    values: tuple[Any, ...]
    """As stored: the column of the rowid is NULL, and a real may stand as a whole number."""


def rows_of(page: bytes, other: Page, *, first: bool = False) -> Iterator[RawRow]:
    """Give the rows of a page that can be read; other pages give none.

    Args:
        page: Its bytes.
        other: Where the rest of a long row is found.
        first: Whether it is the first page, which begins with the file's header.
    """
    at = _FILE_HEADER if first else 0
    if len(page) < at + 12 or page[at] not in (TABLE_LEAF, INDEX_LEAF, _INDEX_INTERIOR):
        return
    kind = page[at]
    begin = at + (12 if kind == _INDEX_INTERIOR else 8)
    count = int.from_bytes(page[at + 3 : at + 5], "big")
    for k in range(min(count, (len(page) - begin) // 2)):
        place = int.from_bytes(page[begin + 2 * k : begin + 2 * k + 2], "big")
        try:
            yield _cell(page, place, kind, other)
        except (_Unreadable, ValueError, struct.error):
            continue


class _Unreadable(Exception):
    """What stands here is no row."""


def _cell(page: bytes, at: int, kind: int, other: Page) -> RawRow:
    ident = None
    if kind == _INDEX_INTERIOR:
        at += 4
    size, at = _varint(page, at)
    if kind == TABLE_LEAF:
        ident, at = _varint(page, at)
    if not 0 < size <= BLOB_LIMIT:
        raise _Unreadable
    return RawRow(ident, _values(_payload(page, at, size, kind, other)))


def _payload(page: bytes, at: int, size: int, kind: int, other: Page) -> bytes:
    """Give a row's bytes, from this page and those that they flow over into."""
    usable = len(page)
    least = (usable - 12) * 32 // 255 - 23
    most = usable - 35 if kind == TABLE_LEAF else (usable - 12) * 64 // 255 - 23
    if size <= most:
        return _exactly(page, at, size)
    local = least + (size - least) % (usable - 4)
    if local > most:
        local = least
    pieces, missing = [_exactly(page, at, local)], size - local
    following = int.from_bytes(_exactly(page, at + local, 4), "big")
    while missing > 0:
        more = other(following)
        if more is None:
            raise _Unreadable
        pieces.append(_exactly(more, 4, min(missing, usable - 4)))
        missing -= len(pieces[-1])
        following = int.from_bytes(more[:4], "big")
    return b"".join(pieces)


def _values(payload: bytes) -> tuple[Any, ...]:
    size, at = _varint(payload, 0)
    end, types = size, []
    if size > len(payload):
        raise _Unreadable
    while at < size:
        code, at = _varint(payload, at)
        types.append(code)
        if len(types) > COLUMNS_LIMIT:
            raise _Unreadable
    values = []
    for code in types:
        length = _SIZES.get(code, (code - 12) // 2)
        values.append(_value(code, _exactly(payload, end, length)))
        end += length
    return tuple(values)


def _value(code: int, data: bytes) -> Any:
    if code in _NUMBERS:
        return _NUMBERS[code](data)
    if code < 7:
        return int.from_bytes(data, "big", signed=True)
    if code < 12:
        raise _Unreadable
    return data if code % 2 == 0 else data.decode()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a number of one to nine bytes; give it and where it ends."""
    number = 0
    for k in range(8):
        byte = data[at + k] if at + k < len(data) else -1
        if byte < 0:
            raise _Unreadable
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + k + 1
    number = number << 8 | _exactly(data, at + 8, 1)[0]
    return number - (1 << 64) if number >= 1 << 63 else number, at + 9


def _exactly(data: bytes, at: int, size: int) -> bytes:
    found = data[at : at + size]
    if len(found) != size or size < 0 or at < 0:
        raise _Unreadable
    return found
