"""Opens a recording that may be damaged, unfinished, or made by somebody with bad intent.

Nothing in the file is run, and nothing is written beside it. The file must have exactly the
tables and indices of a version that is known, so it can hold no view, trigger or computed column.
Every question has a deadline.
"""

from __future__ import annotations

import contextlib
import marshal
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.recording.lengthlimit import limit_length
from pertdbg.recording.schema import APPLICATION_ID, BLOB_LIMIT, DDL, VERSION

DEADLINE = 10.0
"""Seconds after which a question to the file is given up."""

ROWS = 200_000
"""Most rows that one question may give, unless it asks for more."""

MEMORY = 48 << 20
"""Most bytes of memory that the rows of one answer may take."""

MOST_LOST = 1 << 20
"""Most records that a recording may lack; more would take long to go through."""

ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What a question can end with; the second where an error's own words are no Unicode."""

_VALUE = 16
"""Bytes of memory that a value takes beside its own."""

_MOST_UNLIMITED = 32 << 20
"""Largest file that is read where nothing limits a value but the size of the file."""

_STEPS = 20_000
_MAGIC = b"SQLite format 3\0"
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_PRAGMAS = ("trusted_schema=off", "cell_size_check=on", "mmap_size=0", "query_only=on")
_LIMITS = {
    "SQLITE_LIMIT_SQL_LENGTH": 100_000,
    "SQLITE_LIMIT_ATTACHED": 0,
    "SQLITE_LIMIT_TRIGGER_DEPTH": 0,
    "SQLITE_LIMIT_WORKER_THREADS": 0,
}


class DamagedRecording(PertdbgError):
    """A recording, or the part of it that was asked for, does not hold what was written.

    `pertdbg salvage` makes a new file of what is sound.
    """


class Source:
    """A recording's file, opened for reading only."""

    def __init__(self, path: Path) -> None:
        """Open a recording.

        Raises:
            PertdbgError: There is no such file, it is not a recording, a newer pertdbg made it,
                or it is damaged.
        """
        self.path = path
        self.file = path
        """The file that is open: a copy, where the recording could not be opened in its place."""
        self._deadline = 0.0
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        _check_header(path)
        try:
            self._connection = self._open(path, "ro")
        except sqlite3.OperationalError:
            # A crashed recording needs its journal played back, which SQLite refuses to do where
            # it may not write (seen with 3.40): that is then done on a copy.
            self._connection = self._open_copy()
        except ERRORS as error:
            raise DamagedRecording(f"{path} is damaged: {_said(error)}") from error

    def query(
        self, sql: str, values: Sequence[Any] = (), *, rows: int = ROWS
    ) -> list[tuple[Any, ...]]:
        """Ask the file; the transaction ends before this returns.

        Args:
            sql: The question.
            values: Of its parameters.
            rows: Most rows that the answer may have.

        Raises:
            DamagedRecording: The file cannot answer, or the answer is larger than any that a
                recording gives.
        """
        self._deadline = time.monotonic() + DEADLINE
        try:
            with contextlib.closing(self._connection.execute(sql, values)) as cursor:
                return _within_limits(cursor, rows, self.path)
        except (*ERRORS, OverflowError, MemoryError) as error:
            raise DamagedRecording(f"{self.path} cannot be read here: {_said(error)}") from error

    def check(self, seconds: float) -> list[str]:
        """Let SQLite look at the structure of the file; give what it complains of."""
        self._deadline = time.monotonic() + seconds
        try:
            rows = self._connection.execute("PRAGMA integrity_check(20)").fetchmany(20)
        except ERRORS as error:
            return [_said(error)]
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def size(self) -> int:
        """Give the bytes that the file's pages take, journal included."""
        (pages,), (page,) = self.query("PRAGMA page_count")[0], self.query("PRAGMA page_size")[0]
        return int(pages * page)

    def copy_to(self, connection: sqlite3.Connection) -> None:
        """Copy the file as it is now, journal included, into another database."""
        self._connection.backup(connection)

    def close(self) -> None:
        """Close the file, and remove the copy if there is one."""
        self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _open(self, path: Path, mode: str) -> sqlite3.Connection:
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, timeout=2.0, check_same_thread=False
        )
        try:
            self._harden(connection)
            _check_tables(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_copy(self) -> sqlite3.Connection:
        self._copy = tempfile.TemporaryDirectory(prefix="pertdbg-")
        try:
            self.file = _copy(self.path, Path(self._copy.name))
            return self._open(self.file, "rw")
        except (OSError, *ERRORS) as error:
            self._copy.cleanup()
            raise DamagedRecording(f"{self.path} cannot be opened: {_said(error)}") from error
        except PertdbgError:
            self._copy.cleanup()
            raise

    def _harden(self, connection: sqlite3.Connection) -> None:
        self._deadline = time.monotonic() + DEADLINE
        connection.set_progress_handler(self._late, _STEPS)
        limited = limit_length(connection, BLOB_LIMIT)
        if not limited and self.path.stat().st_size > _MOST_UNLIMITED:
            raise PertdbgError(
                f"{self.path} is too large to be read safely by this Python, whose sqlite3 knows "
                "no limits: use Python 3.11 or later"
            )
        if hasattr(connection, "setlimit"):  # Python 3.11
            for name, value in _LIMITS.items():
                connection.setlimit(getattr(sqlite3, name), value)
        if hasattr(connection, "setconfig"):  # Python 3.12
            connection.setconfig(getattr(sqlite3, "SQLITE_DBCONFIG_DEFENSIVE"), True)  # noqa: B009
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").fetchall()

    def _late(self) -> bool:
        return time.monotonic() > self._deadline


def _within_limits(cursor: sqlite3.Cursor, most: int, path: Path) -> list[tuple[Any, ...]]:
    """Fetch one by one, so that a file made to overwhelm is noticed before it does."""
    rows: list[tuple[Any, ...]] = []
    memory = 0
    for row in cursor:
        memory += _size(row)
        rows.append(row)
        if memory > MEMORY or len(rows) > most:
            raise DamagedRecording(f"{path} cannot be read here: far too much stands there")
    return rows


def _size(row: tuple[Any, ...]) -> int:
    """Give about how much memory a row takes; summing up `sys.getsizeof` costs as much as reading.

    Raises:
        MemoryError: There is none left, which `marshal` says in other words.
    """
    try:
        return len(marshal.dumps(row, 2)) + _VALUE * len(row)
    except ValueError as error:
        raise MemoryError("no memory is left") from error


def _check_header(path: Path) -> None:
    try:
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise PertdbgError(f"{path} is not a file")  # opening a pipe would wait for ever
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        raise PertdbgError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise PertdbgError(f"{path} is a folder, not a recording") from None
    except OSError as error:
        raise PertdbgError(f"cannot read {path}: {error.strerror}") from error
    application = int.from_bytes(header[68:72], "big")
    if len(header) < 100 or not header.startswith(_MAGIC) or application != APPLICATION_ID:
        raise PertdbgError(f"{path} is not a pertdbg recording")
    _check_version(path, int.from_bytes(header[60:64], "big"))


def _check_version(path: Path, version: int) -> None:
    form = f"format {version // 1000}.{version % 1000}"
    known = f"{VERSION // 1000}.{VERSION % 1000}"
    if version > VERSION:
        raise PertdbgError(
            f"{path} was made by a newer pertdbg ({form}; this one reads {known}): update pertdbg"
        )
    if version != VERSION:
        raise PertdbgError(f"{path} has {form}, which no released pertdbg wrote")


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT sql FROM sqlite_master").fetchmany(len(DDL) + 1)
    if sorted(str(sql) for (sql,) in found) != sorted(DDL):
        raise PertdbgError(f"{path} is not a recording that pertdbg wrote: its tables are others")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    _check_version(path, version)


def _copy(path: Path, folder: Path) -> Path:
    target = folder / "copy.pertdbg"
    shutil.copyfile(path, target)
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        with contextlib.suppress(FileNotFoundError):
            if suffix == "-journal" and _names_other_files(beside):
                raise DamagedRecording(f"{beside} is not a journal that pertdbg wrote")
            shutil.copyfile(beside, target.with_name(target.name + suffix))
    return target


def _names_other_files(journal: Path) -> bool:
    """Say whether a rollback journal points at a super-journal, which SQLite might delete."""
    return journal.read_bytes()[-8:] == _SUPER_JOURNAL


def _said(error: Exception) -> str:
    """Give an error's words, in which a file may have put some of its own."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(error))[:300]
