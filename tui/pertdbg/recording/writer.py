"""Writes a recording: one connection, one commit for each record, no thread.

A record that `Recorder.write` took is in the file's journal when it returns: the kernel has it,
so SIGKILL cannot lose it. A failure of power can, unless the recorder is made `durable="power"`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording import create, schema
from pertdbg.recording.interning import WriterInterns
from pertdbg.recording.meta import MetaValue
from pertdbg.recording.pack import bounded, pack
from pertdbg.recording.parts import HeatMap, LayerSource
from pertdbg.recording.statements import Pending, Statement, meta, sealed
from pertdbg.recording.streams import OutputRows
from pertdbg.recording.tiles import Tiler

_FAULTS = (sqlite3.Error, OSError, OverflowError, struct.error)


class RecordingFailed(PertdbgError):
    """The recording cannot go on: the disk is full, the folder is gone, or the like.

    What was acknowledged before stays readable. Each later use of the recorder raises it again.
    """


class Recorder:
    """The one writer of a recording. Use it from one thread at a time.

    Args:
        path: The file to make; a journal stands beside it until `close`.
        meta: What the recording says of itself; see `pertdbg.recording.meta`.
        durable: "kill": nothing is lost when the process is killed. "power": each record is
            forced to the disk too, which costs a fraction of a millisecond to several.

    Raises:
        PertdbgError: The file exists already or cannot be made.
    """

    path: Path
    """Absolute."""
    started_ns: int
    """The monotonic clock's nanoseconds from which records count their time."""

    def __init__(
        self,
        path: Path,
        meta: Mapping[str, MetaValue],
        *,
        durable: Literal["kill", "power"] = "kill",
    ) -> None:
        self.path = path.absolute()
        self.started_ns = create.make(self.path, meta)
        self._connection: sqlite3.Connection | None = self._connect(durable == "power")
        self._file = _identity(self.path)
        self._failure = ""
        self._interns = WriterInterns()
        self._tiler = Tiler()
        self._head = 0
        self._marks = 0
        self._beyond: dict[str, bool] = {}
        self._output = OutputRows()

    def add_layer(self, layer: LayerSource) -> None:
        """Keep a layer and its source; given again by its name, it replaces what was kept."""
        self._interns.add_layer(layer)
        self._commit(self._interns.take())

    def write(self, record: CallRecord, picture: HeatMap | None = None) -> None:
        """Keep a record; when this returns, SIGKILL can no longer lose it.

        Raises:
            ValueError: The record's id is not above that of the last one, or far above it.
            RecordingFailed: It could not be written.
        """
        try:
            missing = self._missing(record.id)
            self._commit(self._rows(record, picture, missing))
        except BaseException:  # Ctrl-C too, at whatever point it came
            self._interns.renew()
            raise
        self._head = record.id
        self._beyond[record.layer] = bool(record.delta.beyond)

    def mark(self, call_id: int, kind: str, text: str) -> None:
        """Mark a call: that the target stopped there, that records are missing, and so on."""
        self._commit([self._mark(call_id, kind, text)])

    def output(self, stream: Literal["stdout", "stderr"], call_id: int, data: bytes) -> None:
        """Keep what the target printed before the end of a call; the newest, where it is much."""
        if data:
            self._commit(self._output.add(stream, call_id, data))

    def state(self, **values: MetaValue) -> None:
        """Set values of the meta table, such as ``state="running"`` or ``exit_status=1``."""
        self._commit([meta(key, value) for key, value in values.items()])

    def forget(self) -> None:
        """Drop the recording in a forked child, without touching what the parent writes.

        The connection must not be closed here, not even when it is collected: that would take
        part in the parent's locks and journal. So it is leaked.
        """
        if self._connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        self._connection = None
        self._failure = "it belongs to the parent process"

    def close(self) -> None:
        """End the recording cleanly: one file is left, unless somebody reads it at this moment.

        Does nothing when it was closed or failed before.
        """
        if self._connection is None:
            return
        self._commit([meta("clean_close", 1)])
        create.end(self._connection)
        self._connection = None
        self._failure = "it was closed"

    def _connect(self, power: bool) -> sqlite3.Connection:
        try:
            return create.connect(self.path, power=power)
        except sqlite3.Error as error:
            raise PertdbgError(f"cannot write the recording {self.path}: {error}") from error

    def _missing(self, ident: int) -> int:
        """Say how many records before this one were not written."""
        if ident > self._head + 1 and self._connection is not None:
            # The last write may have been interrupted, after its commit or before it.
            (last,) = self._connection.execute("SELECT max(id) FROM call").fetchone()
            self._head = last or 0
        missing = ident - self._head - 1
        if not 0 <= missing <= schema.GAP_LIMIT:
            raise ValueError(f"record {ident} cannot follow record {self._head}")
        return missing

    def _rows(self, record: CallRecord, picture: HeatMap | None, missing: int) -> Pending:
        try:
            row = pack(record, self._beyond.get(record.layer, False), self._interns)
            pending = self._interns.take()
            if missing:
                text = f"{missing} records before this one were not written"
                pending.append(self._mark(record.id, "gap", text))
            for _ in range(self._tiler.seen + 1, record.id):
                pending += [sealed(schema.TILES, tile) for tile in self._tiler.add(None)]
            pending += [sealed(schema.TILES, tile) for tile in self._tiler.add(row)]
            if picture is not None:
                sizes = (picture.rows, picture.cols, picture.whole_rows, picture.whole_cols)
                pending.append(sealed(schema.PICTURES, (record.id, *sizes, picture.data)))
            return [*pending, sealed(schema.CALLS, row)]
        except _FAULTS as error:
            raise self._failed(error) from error

    def _mark(self, call_id: int, kind: str, text: str) -> Statement:
        self._marks += 1
        kind_text = (bounded(kind, schema.NAME_LIMIT), bounded(text, schema.TEXT_LIMIT))
        return sealed(schema.MARKS, (self._marks, call_id, *kind_text))

    def _commit(self, pending: Pending) -> None:
        connection = self._connection
        if connection is None:
            raise RecordingFailed(f"the recording {self.path} takes no more: {self._failure}")
        try:
            if _identity(self.path) != self._file:
                raise OSError("another file has taken its place")
            if len(pending) == 1:
                connection.execute(*pending[0])
                return
            connection.execute("BEGIN IMMEDIATE")
            for statement, values in pending:
                connection.execute(statement, values)
            connection.execute("COMMIT")
        except _FAULTS as error:
            raise self._failed(error) from error
        except BaseException:  # interrupted by Ctrl-C
            connection.rollback()
            raise

    def _failed(self, error: BaseException) -> RecordingFailed:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self._failure = reason
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
        return RecordingFailed(f"recording to {self.path} ended after {self._head} calls: {reason}")


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - Path.stat costs twice as much, on every record
    return found.st_dev, found.st_ino
