"""Forces the journal to the disk in groups, for recordings that outlive a failure of power."""

from __future__ import annotations

import os
import threading
from pathlib import Path

WINDOW = 0.05
"""Seconds between two flushes: what was written since the last one is lost with the power, and
what is written while one runs."""

_flush = getattr(os, "fdatasync", os.fsync)


class Flusher:
    """Flushes the journal on a thread of its own, which does nothing else.

    The journal may be opened a second time: it carries no lock, unlike the database file, whose
    locks would all be gone with the first file descriptor that is closed.
    """

    def __init__(self, journal: Path, window: float = WINDOW) -> None:
        self._journal = journal
        self._window = window
        self._file: int | None = None
        self._dirty = threading.Event()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    def written(self) -> None:
        """Take note that there is something to flush.

        Raises:
            OSError: An earlier flush failed.
        """
        if self._failure is not None:
            raise self._failure
        if not self._dirty.is_set():
            if self._thread is None:
                self._begin()
            self._dirty.set()

    def close(self) -> None:
        """Flush once more and end; does nothing when nothing was written."""
        if self._thread is None or self._file is None:
            return
        self._end.set()
        self._dirty.set()
        self._thread.join()
        os.close(self._file)
        self._thread = None

    def _begin(self) -> None:
        self._file = os.open(self._journal, os.O_RDWR | os.O_CLOEXEC)
        folder = os.open(self._journal.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)  # so that the names of the new files outlive the failure too
        finally:
            os.close(folder)
        self._thread = threading.Thread(target=self._run, name="pertdbg flush", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._file is not None  # noqa: S101 - `_begin` opened it
        last = False
        while not last:
            if not self._end.is_set():
                self._dirty.wait()
            last = self._end.wait(self._window)  # what came before the end is flushed after it
            self._dirty.clear()
            try:
                _flush(self._file)
            except OSError as error:
                self._failure = error
                return
