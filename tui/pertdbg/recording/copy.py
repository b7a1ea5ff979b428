"""Makes one file of a recording in any state: running, ended, or crashed."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from pertdbg.recording import create
from pertdbg.recording.safeopen import Source


def copy_recording(source: Path, target: Path, *, replace: bool = False) -> None:
    """Copy a recording as it is at this moment, even while it is written, to a single file.

    Args:
        source: The recording.
        target: The file to make.
        replace: Whether a file of that name is replaced.

    Raises:
        PertdbgError: The source cannot be read, or the target exists or cannot be written.
    """
    with create.drafted(target, replace=replace) as draft:
        _copy(source, draft)


def fold(path: Path) -> bool:
    """Fold what lies beside a recording into it, once neither a writer nor a reader has it open.

    Returns:
        Whether one file is left.
    """
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        return create.fold_and_close(sqlite3.connect(uri, uri=True, isolation_level=None))
    except sqlite3.Error:
        return False


def _copy(source: Path, draft: Path) -> None:
    opened = Source(source)
    try:
        with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            opened.copy_to(connection)
            connection.execute("PRAGMA journal_mode=delete").fetchone()
    finally:
        opened.close()
