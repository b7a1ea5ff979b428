"""Makes one compact file of a recording in any state, to send to somebody."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from pertdbg.recording import create
from pertdbg.recording.safeopen import Source


def pack_recording(source: Path, target: Path, *, tensors: bool = True) -> None:
    """Copy a recording, even one that is being written, and squeeze the copy.

    Args:
        source: The recording.
        target: The file to make.
        tensors: Whether to keep stored tensors; parts of unfinished ones go in any case.

    Raises:
        PertdbgError: The source cannot be read, or the target exists or cannot be written.
    """
    with create.drafted(target) as draft:
        opened = Source(source)
        with contextlib.closing(opened), contextlib.closing(sqlite3.connect(draft)) as connection:
            connection.isolation_level = None
            opened.copy_to(connection)
            connection.execute("PRAGMA journal_mode=delete").fetchone()
            if not tensors:
                connection.execute("DELETE FROM tensor")
            connection.execute(
                "DELETE FROM tensor_part WHERE tensor NOT IN (SELECT id FROM tensor)"
            )
            connection.execute("VACUUM")
