"""Makes a new recording of all that is sound in a damaged one.

The pages of the file and of its journal are read one by one, see `rawpages`; a row counts when its
checksum holds, wherever it was found.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.recording import create, schema
from pertdbg.recording.columns import DETAILS, ROLES
from pertdbg.recording.rawfiles import RawFiles
from pertdbg.recording.rawpages import RawRow, rows_of
from pertdbg.recording.safeopen import MOST_LOST, Source
from pertdbg.recording.statements import meta, sealed
from pertdbg.recording.tensorrows import part_id
from pertdbg.recording.tiles import FAN, LEVELS, Tiler

_REPLACED = ("layer", "tensor", "event")
"""Tables whose rows are written again, so that of two with one id the newer one counts."""

_BATCH = 256
_GAPS_LIMIT = 100_000
"""Most gaps that get a mark."""

_BY_SIZE = {
    size: [table for table in schema.TABLES if len(table.columns) + 1 == size]
    for size in {len(table.columns) + 1 for table in schema.TABLES}
}
_REFERENCES = {
    "tensor_kind": [role.replace(".", "_") for role in ROLES],
    "detail": list(DETAILS),
}
_SEALS = {table.name: schema.Seal(table) for table in schema.TABLES}


@dataclass(slots=True)
class Salvaged:
    """What became of a damaged recording."""

    calls: int = 0
    """Records that are in the new file."""
    last: int = 0
    """Id of the last one that is known of."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """First and last id of each run of records that are lost."""
    broken: int = 0
    """Records that are there and cannot be shown, since a part that they share is lost."""
    layers: int = 0
    """Layers whose names are lost."""
    tensors: int = 0
    """Tensors that are not whole, and so left out."""
    settings: bool = False
    """Some of what the recording says of itself is lost."""

    @property
    def whole(self) -> bool:
        """Whether nothing that is known of is missing."""
        return not (self.lost or self.broken or self.layers or self.tensors or self.settings)

    @property
    def lost_calls(self) -> int:
        """How many records are lost."""
        return sum(last - first + 1 for first, last in self.lost)


def salvage(source: Path, target: Path) -> Salvaged:
    """Make a new recording of all that is sound in another, which stays as it is.

    Raises:
        PertdbgError: The source cannot be read or has nothing of a recording in it, or the target
            exists or cannot be written.
    """
    with create.drafted(target) as draft:
        try:
            files = RawFiles(source)
        except OSError as error:
            raise PertdbgError(f"cannot read {source}: {error.strerror or error}") from error
        with contextlib.closing(files), contextlib.closing(create.empty(draft)) as connection:
            connection.execute("BEGIN")
            _fill(connection, files)
            _settle_meta(connection, source)
            found = _account(connection)
            if not found.last and not connection.execute("SELECT 1 FROM meta LIMIT 1").fetchone():
                raise PertdbgError(f"{source} holds nothing of a pertdbg recording")
            _repair(connection, found)
            connection.execute("COMMIT")
    return found


def _fill(connection: sqlite3.Connection, files: RawFiles) -> None:
    inserts = {
        table.name: table.insert
        if table.name in _REPLACED
        else table.insert.replace("OR REPLACE", "OR IGNORE")
        for table in schema.TABLES
    }
    for number, page in files.pages():
        for row in rows_of(page, files.page, first=number == 1):
            for name, values in _recognised(row):
                connection.execute(inserts.get(name, create.META_INSERT), values)


def _recognised(row: RawRow) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Give the table that a row belongs to, and the row, if its checksum holds."""
    if row.id is None:
        if len(row.values) == 3 and _holds_meta(*row.values):
            yield "meta", row.values
        return
    for table in _BY_SIZE.get(len(row.values), ()):
        values = (row.id, *_as_columns(table, row.values[1:]))
        if row.values[0] is None and _SEALS[table.name].holds(values):
            yield table.name, values
            return


def _as_columns(table: schema.Table, values: tuple[Any, ...]) -> Iterator[Any]:
    """Give the values with reals as such: SQLite stores a whole one as a whole number."""
    first = len(table.ints) - 1
    last = first + len(table.floats)
    for k, value in enumerate(values):
        yield float(value) if first <= k < last and type(value) is int else value


def _holds_meta(key: Any, value: Any, crc: Any) -> bool:
    plain = value is None or isinstance(value, (str, int, float))
    return isinstance(key, str) and plain and schema.seal_meta(key, value) == crc


def _settle_meta(connection: sqlite3.Connection, path: Path) -> None:
    """Where SQLite itself can still read it, its word on what is newest counts."""
    try:
        with contextlib.closing(Source(path)) as source:
            rows = source.query("SELECT key, value, crc FROM meta LIMIT 1000")
    except PertdbgError:
        return
    connection.executemany(create.META_INSERT, [row for row in rows if _holds_meta(*row)])


def _account(connection: sqlite3.Connection) -> Salvaged:
    """See what is there and what is not."""
    found = Salvaged()
    (count,) = connection.execute("SELECT count(*) FROM call").fetchone()
    bounds = (1, count + MOST_LOST)  # beyond it is no record of ours, whatever its checksum
    connection.execute("DELETE FROM call WHERE id NOT BETWEEN ? AND ?", bounds)
    (found.calls, last) = connection.execute("SELECT count(*), max(id) FROM call").fetchone()
    known = connection.execute("SELECT value FROM meta WHERE key = 'calls'").fetchone()
    found.last = max(last or 0, min(_whole(known), (last or 0) + MOST_LOST))
    ids = (ident for (ident,) in connection.execute("SELECT id FROM call ORDER BY id"))
    for before, after in itertools.pairwise(itertools.chain([0], ids, [found.last + 1])):
        if after > before + 1:
            found.lost.append((before + 1, after - 1))
    where = " OR ".join(
        f"({column} IS NOT NULL AND {column} NOT IN (SELECT id FROM {table}))"  # noqa: S608 - own
        for table, columns in _REFERENCES.items()
        for column in columns
    )
    broken = f"SELECT count(*) FROM call WHERE {where}"  # noqa: S608 - own names
    (found.broken,) = connection.execute(broken).fetchone()
    keys = {key for (key,) in connection.execute("SELECT key FROM meta")}
    found.settings = not {"uuid", "created_ns", "started_ns", "clean_close"} <= keys
    return found


def _whole(row: tuple[Any] | None) -> int:
    return row[0] if row is not None and isinstance(row[0], int) else 0


def _repair(connection: sqlite3.Connection, found: Salvaged) -> None:
    """Make what is there a recording that opens and says what it lacks."""
    query = "SELECT DISTINCT layer FROM call WHERE layer NOT IN (SELECT id FROM layer)"
    for (ident,) in connection.execute(query).fetchall():
        row = (ident, None, f"layer {ident} (name lost)", None, None, None)
        connection.execute(*sealed(schema.LAYERS, row))
        found.layers += 1
    for ident, wanted in connection.execute("SELECT id, parts FROM tensor").fetchall():
        bounds = (part_id(ident, 0), part_id(ident + 1, 0))
        there = "SELECT count(*) FROM tensor_part WHERE id >= ? AND id < ?"
        (parts,) = connection.execute(there, bounds).fetchone()
        if parts != wanted:
            connection.execute("DELETE FROM tensor WHERE id = ?", (ident,))
            found.tensors += 1
    connection.execute("DELETE FROM tensor_part WHERE tensor NOT IN (SELECT id FROM tensor)")
    _sum_up(connection, found.last)
    _mark_gaps(connection, found)


def _sum_up(connection: sqlite3.Connection, last: int) -> None:
    """Make the tiles that are missing."""
    expected = sum(last // FAN**level for level in range(1, LEVELS + 1))
    if connection.execute("SELECT count(*) FROM tile").fetchone()[0] >= expected:
        return
    tiler, insert = Tiler(), schema.TILES.insert.replace("OR REPLACE", "OR IGNORE")
    for first in range(1, last + 1, _BATCH):
        bounds = (first, min(first + _BATCH - 1, last))
        rows = connection.execute(f"{schema.CALLS.select} WHERE id BETWEEN ? AND ?", bounds)
        there = {row[0]: row for row in rows}
        for ident in range(bounds[0], bounds[1] + 1):
            tiles = tiler.add(there.get(ident))
            connection.executemany(insert, [sealed(schema.TILES, tile)[1] for tile in tiles])


def _mark_gaps(connection: sqlite3.Connection, found: Salvaged) -> None:
    (mark,) = connection.execute("SELECT max(id) FROM mark").fetchone()
    for number, (first, last) in enumerate(found.lost[:_GAPS_LIMIT], (mark or 0) + 1):
        text = f"{last - first + 1} records are lost from here: the file was damaged"
        connection.execute(*sealed(schema.MARKS, (number, first, "gap", text)))
    if not found.whole:
        connection.execute(*meta("salvaged", f"{found.lost_calls} of {found.last} records lost"))
