"""Version 1 of the file: its tables, and the checksum that each row carries.

Every table has a last column `crc`. `Seal` computes it over the whole row, its id included, so
that neither a flipped bit nor a row that moved is taken for the truth.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_
from typing import Any

from pertdbg.recording.columns import CALL, Kind

APPLICATION_ID = 0x50444247
"""`PDBG`, in the header of the file."""

VERSION = 1000
"""1000 x major + minor, in the header's user_version. A reader takes what it knows exactly."""

NAME_LIMIT = 1_000
"""Longest name or path that is stored, in characters."""

TEXT_LIMIT = 20_000
"""Longest message that is stored, in characters."""

SOURCE_LIMIT = 1_000_000
"""Longest source that is stored, in characters."""

CHUNK_LIMIT = 65_536
"""Most bytes of output in one row."""

OUTPUT_LIMIT = 4 << 20
"""Most bytes that are kept of each output stream of the target."""

GAP_LIMIT = 1000
"""Most records in a row that a writer may leave out."""

PART_SIZE = 256 << 10
"""Bytes of a tensor in one row; the last part may be shorter."""

EVENTS_LIMIT = 4 << 20
"""Longest JSON of the events of one call, in bytes."""

BLOB_LIMIT = 8 << 20
"""Longest text, blob or row that a reader accepts, in bytes."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: whole numbers first, then reals, then texts and blobs, then the checksum."""

    name: str
    ints: tuple[str, ...]
    """The first is the primary key."""
    floats: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, without `crc`."""
        return self.ints + self.floats + self.texts + self.blobs

    @property
    def ddl(self) -> str:
        """The statement that makes it, exactly as SQLite keeps it."""
        key, *ints = self.ints
        parts = [f"{key} integer primary key"]
        parts += [f"{name} integer" for name in ints]
        parts += [f"{name} real" for name in self.floats]
        parts += [f"{name} text" for name in self.texts]
        parts += [f"{name} blob" for name in self.blobs]
        return f"CREATE TABLE {self.name}({', '.join(parts)}, crc integer)"

    @property
    def insert(self) -> str:
        """The statement that adds a row, or replaces the one with its id."""
        marks = ", ".join("?" * (len(self.columns) + 1))
        return f"INSERT OR REPLACE INTO {self.name}({', '.join(self.columns)}, crc) VALUES({marks})"

    @property
    def select(self) -> str:
        """The beginning of a statement that reads whole rows, checksum last."""
        return f"SELECT {', '.join(self.columns)}, crc FROM {self.name}"  # noqa: S608 - own names


def _call_table() -> Table:
    def of(*kinds: Kind) -> tuple[str, ...]:
        return tuple(column.name for column in CALL if column.kind in kinds)

    ints = of("int", "bool", "ref", "address", "mask")
    return Table("call", ints, of("float"), of("text"), of("blob"))


CALLS = _call_table()
LAYERS = Table("layer", ("id", "first_line"), texts=("name", "cls", "file", "source"))
TENSOR_KINDS = Table(
    "tensor_kind",
    (
        "id",
        "is_leaf",
        "requires_grad",
        "retains_grad",
        "has_grad",
        "has_tangent",
        "storage_offset",
        "nbytes",
        "is_view",
        "contiguous",
    ),
    texts=("shape", "dtype", "device", "layout", "grad_fn", "storage", "stride"),
)
DETAIL = Table("detail", ("id",), texts=("json",))
MARKS = Table("mark", ("id", "call"), texts=("kind", "text"))
PICTURES = Table("picture", ("id", "rows", "cols", "whole_rows", "whole_cols"), blobs=("data",))
OUTPUT = Table("output", ("id", "call"), texts=("stream",), blobs=("data",))
TILES = Table("tile", ("id",), blobs=("data",))
EVENTS = Table("event", ("call",), texts=("data",))
CLOCK = Table("clock", ("mono_ns", "wall_ns"))
TENSORS = Table(
    "tensor",
    ("id", "call", "nbytes", "parts", "pinned"),
    texts=("role", "dtype", "shape", "codec", "why"),
)
TENSOR_PARTS = Table("tensor_part", ("id", "tensor", "part"), blobs=("data",))

TABLES = (
    *(CALLS, LAYERS, TENSOR_KINDS, DETAIL, MARKS, PICTURES, OUTPUT, TILES),
    *(EVENTS, CLOCK, TENSORS, TENSOR_PARTS),
)
"""The tables whose rows carry a `Seal`."""

_OTHER_DDL = (
    # The value of a row of meta is text, a number or NULL.
    "CREATE TABLE meta(key text primary key, value, crc integer) without rowid",
    "CREATE TABLE scalar(id integer primary key, name text, path text, type text, unit text,"
    " doc text)",
    # A row of an index carries no checksum, so that what is found there is checked in the table.
    "CREATE INDEX mark_call ON mark(call)",
    "CREATE INDEX tensor_call ON tensor(call)",
)

DDL = (
    *(table.ddl for table in TABLES),
    *_OTHER_DDL,
)
"""All statements of version 1. A file with any other is not read."""


class Seal:
    """The checksum of a table's rows.

    It is the CRC-32 of: the table's name in ASCII; one byte for each column, 1 where it is NULL;
    the whole numbers as int64 and the reals as float64, little endian, 0 for NULL; then for each
    text (UTF-8) and blob that is not NULL its length as uint32 and its bytes.
    """

    def __init__(self, table: Table) -> None:
        self._seed = zlib.crc32(table.name.encode())
        self._ints = len(table.ints)
        self._numbers = self._ints + len(table.floats)
        self._texts = self._numbers + len(table.texts)
        self._numbers_format = struct.Struct(f"<{self._ints}q{len(table.floats)}d")

    def __call__(self, row: Sequence[Any]) -> int:
        """Compute the checksum of a row without its `crc`.

        Raises:
            struct.error, TypeError, AttributeError: A value is not of its column's type.
        """
        numbers = [0 if value is None else value for value in row[: self._numbers]]
        crc = zlib.crc32(bytes(map(is_, row, repeat(None))), self._seed)
        crc = zlib.crc32(self._numbers_format.pack(*numbers), crc)
        for text in row[self._numbers : self._texts]:
            if text is not None:
                data = text.encode()
                crc = zlib.crc32(data, zlib.crc32(len(data).to_bytes(4, "little"), crc))
        for blob in row[self._texts :]:
            if blob is not None:
                crc = zlib.crc32(blob, zlib.crc32(len(blob).to_bytes(4, "little"), crc))
        return crc

    def holds(self, row: Sequence[Any]) -> bool:
        """Say whether a row that was read, with its `crc` last, is the one that was written."""
        try:
            return bool(self(row[:-1]) == row[-1])
        except (struct.error, TypeError, AttributeError, UnicodeError):
            return False


def seal_meta(key: str, value: str | int | float | None) -> int:
    """Compute the checksum of a row of meta: the CRC-32 of ``meta`` and the JSON of the pair."""
    return zlib.crc32(json.dumps([key, value]).encode(), zlib.crc32(b"meta"))
