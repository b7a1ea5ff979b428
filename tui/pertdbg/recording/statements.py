"""Rows on their way into the file: a statement and its values, checksum last."""

from __future__ import annotations

from typing import Any

from pertdbg.recording import schema
from pertdbg.recording.create import META_INSERT, meta_row
from pertdbg.recording.meta import MetaValue, bounded_value

Statement = tuple[str, tuple[Any, ...]]
Pending = list[Statement]
"""Statements that belong to one commit."""

_WAYS = {table.name: (table.insert, schema.Seal(table)) for table in schema.TABLES}


def sealed(table: schema.Table, row: tuple[Any, ...]) -> Statement:
    """Give the statement that keeps a row of a table."""
    insert, seal = _WAYS[table.name]
    return insert, (*row, seal(row))


def meta(key: str, value: MetaValue) -> Statement:
    """Give the statement that sets a value of the meta table."""
    return META_INSERT, meta_row(key, bounded_value(value))
