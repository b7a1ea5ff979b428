"""Makes the file of a recording, opens it for writing, and ends it."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.recording.documented import described
from pertdbg.recording.meta import MetaValue, first_values
from pertdbg.recording.schema import APPLICATION_ID, DDL, VERSION, seal_meta

PAGE_SIZE = 4096
"""A small commit writes one page to the journal, so small pages cost less."""

CHECKPOINT_PAGES = 4000
"""The journal is folded into the file when it has this many pages (16 MB)."""

NETWORK_DISKS = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.sshfs", "glusterfs", "gpfs", "lustre"),
    *("ncpfs", "nfs", "nfs4", "smb3", "smbfs"),
)
"""File systems on which SQLite's write-ahead log is not safe: it needs shared memory."""

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}

META_INSERT = "INSERT OR REPLACE INTO meta(key, value, crc) VALUES(?, ?, ?)"


def meta_row(key: str, value: MetaValue) -> tuple[str, MetaValue, int]:
    """Give the row of the meta table for a value."""
    return key, value, seal_meta(key, value)


def make(path: Path, meta: Mapping[str, MetaValue]) -> int:
    """Make the file, so that it appears under its name only when its tables are whole.

    Returns:
        The monotonic clock's nanoseconds from which records count their time.

    Raises:
        PertdbgError: It exists already, or the folder cannot be written.
    """
    values = first_values(meta)
    with drafted(path) as draft, contextlib.closing(empty(draft)) as connection:
        connection.executemany(META_INSERT, [meta_row(*item) for item in values.items()])
    started = values["started_ns"]
    return started if isinstance(started, int) else 0


@contextlib.contextmanager
def drafted(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Give a name under which to make a file that gets its own name when it is whole.

    Raises:
        PertdbgError: It exists already and is not to be replaced, or it cannot be written.
    """
    path = path.absolute()
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        if not replace and os.path.lexists(path):
            raise FileExistsError
        yield draft
        if replace:
            draft.replace(path)
        else:
            publish(draft, path)
    except FileExistsError:
        raise PertdbgError(f"{path} exists already: choose another name or remove it") from None
    except (OSError, sqlite3.Error) as error:
        raise PertdbgError(f"cannot write {path}: {reason(path, error)}") from error
    finally:
        remove_draft(draft)


def empty(path: Path) -> sqlite3.Connection:
    """Make a file with the tables of a recording, and nothing in them but their description."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
    connection.execute("PRAGMA auto_vacuum=incremental")
    connection.execute("BEGIN")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    for statement in DDL:
        connection.execute(statement)
    connection.executemany("INSERT INTO scalar VALUES(?, ?, ?, ?, ?, ?)", described())
    connection.execute("COMMIT")
    return connection


def connect(path: Path, *, power: bool) -> tuple[sqlite3.Connection, bool]:
    """Open a file that `make` made, for its one writer.

    Where the write-ahead log does not work the rollback journal is used. It too is safe against
    SIGKILL; without `power` it leaves the order of its writes to the kernel, with it each commit
    is forced to the disk.

    Returns:
        The connection, and whether it writes ahead to a log.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    synchronous = "normal"  # the log is flushed before it is folded in, and by `Flusher`
    ahead = not on_network_disk(path) and _log_ahead(connection)
    if not ahead:
        connection.execute("PRAGMA journal_mode=persist").fetchone()
        synchronous = "full" if power else "off"
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}").fetchone()
    return connection, ahead


def end(connection: sqlite3.Connection) -> bool:
    """Close the writer's connection; say whether one file is left.

    Where somebody still reads the recording the journal stays, complete, and
    `pertdbg.recording.fold` can do it later.
    """
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(passive)").fetchone()
    return fold_and_close(connection)


def fold_and_close(connection: sqlite3.Connection) -> bool:
    """Fold the journal into the file, if nobody else has it open, and close it.

    There is no checkpoint beside a living writer: SQLite before 3.51.3 can damage a file that two
    connections write or checkpoint at the same instant. A change of the journal's mode first
    takes the file for itself.
    """
    try:
        connection.execute("PRAGMA busy_timeout=0").fetchone()
        return bool(connection.execute("PRAGMA journal_mode=delete").fetchone()[0] == "delete")
    except sqlite3.Error:  # "database is locked" by a reader, or the disk is full
        return False
    finally:
        with contextlib.suppress(sqlite3.Error):
            connection.close()


def publish(draft: Path, path: Path) -> None:
    """Give a finished file its name.

    Raises:
        FileExistsError: There is a file of that name.
    """
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        draft.rename(path)


def remove_draft(draft: Path) -> None:
    """Remove a file that did not get its name, if there is one."""
    for leftover in (draft, draft.with_name(draft.name + "-journal")):
        with contextlib.suppress(OSError):
            leftover.unlink()


def reason(path: Path, error: Exception) -> str:
    """Say why a file could not be made; SQLite alone says only that it could not."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if not os.access(path.parent, os.W_OK):
        return f"the folder {path.parent} is not writable"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def on_network_disk(path: Path, mounts: str = "/proc/self/mountinfo") -> bool:
    """Say whether a path lies on a network file system; False where that cannot be told."""
    try:
        lines = Path(mounts).read_text(errors="replace").splitlines()
    except OSError:
        return False
    best, kind = "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].replace("\\040", " ")
        if len(point) >= len(best) and path.is_relative_to(point):
            best, kind = point, right.split(" ")[0]
    return kind in NETWORK_DISKS


def _log_ahead(connection: sqlite3.Connection) -> bool:
    try:
        return bool(connection.execute("PRAGMA journal_mode=wal").fetchone()[0] == "wal")
    except sqlite3.OperationalError:
        return False
