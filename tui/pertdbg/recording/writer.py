"""Writes a recording: one connection, one commit for each record, on the caller's thread.

A record that `Recorder.write` took is in the file's journal when it returns: the kernel has it,
so SIGKILL cannot lose it. A failure of power can, unless the recorder is made `durable="power"`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording import create, schema
from pertdbg.recording.budget import DEFAULT
from pertdbg.recording.eventrows import EventRows
from pertdbg.recording.events import Inside
from pertdbg.recording.flusher import Flusher
from pertdbg.recording.interning import WriterInterns
from pertdbg.recording.meta import MetaValue
from pertdbg.recording.pack import bounded, marks_of, pack
from pertdbg.recording.parts import FAULTS, HeatMap, LayerSource
from pertdbg.recording.retention import Retention, TensorPolicy
from pertdbg.recording.statements import Pending, Statement, meta, sealed
from pertdbg.recording.streams import OutputRows
from pertdbg.recording.tensorrows import TensorRows
from pertdbg.recording.tiles import Tiler

CLOCK_EVERY = 10.0
"""Seconds between two rows of `clock`."""

SHARED_AGAIN = 5000
"""After so many records, the parts that they share are written again for the next ones."""

_ERRORS = (sqlite3.Error, OSError, OverflowError, struct.error)


class RecordingFailed(PertdbgError):
    """The recording cannot go on: the disk is full, the folder is gone, or the like.

    What was acknowledged before stays readable. Each later use of the recorder raises it again.
    """


class Recorder:
    """The one writer of a recording. Use it from one thread at a time.

    Args:
        path: The file to make; a journal stands beside it until `close`.
        meta: What the recording says of itself; see `pertdbg.recording.meta`.
        durable: "kill": nothing is lost when the process is killed. "power": what was written is
            forced to the disk too, every 0.05 s by a thread of its own, so that a failure of power
            loses no more than the records of that time and of the flush itself. On a network
            disk, each record is, which costs milliseconds.
        tensors: Which calls' tensors `wants_tensors` asks for: `none`, `last`, `every:N`, `all`.
        budget: Bytes that tensors may take in the file.

    Raises:
        PertdbgError: The file exists already or cannot be made, or `tensors` is something else.
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
        tensors: str = "none",
        budget: int = DEFAULT,
    ) -> None:
        self._tensors = TensorRows(Retention(TensorPolicy.parse(tensors), budget))
        self.path = path.absolute()
        if tensors != "none":
            meta = {"tensors": tensors, "tensor_budget": budget, **meta}
        self.started_ns = create.make(self.path, meta)
        self._flusher: Flusher | None = None
        self._connection: sqlite3.Connection | None = self._connect(durable == "power")
        self._file = _identity(self.path)
        self._failure = ""
        self._interns = WriterInterns()
        self._tiler = Tiler()
        self._head = 0
        self._marks = 0
        self._beyond: dict[str, bool] = {}
        self._output = OutputRows()
        self._events = EventRows()
        self._clock_due = 0.0

    def add_layer(self, layer: LayerSource) -> None:
        """Keep a layer and its source; given again by its name, it replaces what was kept."""
        self._interns.add_layer(layer)
        self._commit(self._interns.take())

    def write(
        self,
        record: CallRecord,
        picture: HeatMap | None = None,
        inside: Inside | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        """Keep a record; when this returns, SIGKILL can no longer lose it.

        Args:
            record: Facts of the call.
            picture: Its map.
            inside: Its lines and graphs.
            renamed: Other labels for the storages in these; see `events.to_text`.

        Raises:
            ValueError: The record's id is not above that of the last one, or far above it.
            RecordingFailed: It could not be written.
        """
        try:
            missing = self._missing(record.id)
            rows = self._rows(record, picture, missing)
            if inside is not None:
                rows += self._events.add(record.id, inside, renamed)
            self._commit(rows)
        except BaseException:  # Ctrl-C too, at whatever point it came
            self._interns.renew()
            raise
        self._head = record.id
        self._beyond[record.layer] = bool(record.delta.beyond)
        self._tensors.called(record, fault=bool(marks_of(record, True) & FAULTS))

    def wants_tensors(self, layer: str, call: int, *, fault: bool = False) -> bool:
        """Say whether the tensors of a layer's next call, or of its last, are wanted by `tensor`.

        A call with a fault, and the one after it, are wanted whenever any are.

        Args:
            layer: Its name.
            call: The number of the call, per layer.
            fault: Whether the call is known already to have raised, refused or met a NaN.
        """
        return self._tensors.wants(layer, call, fault=fault)

    def tensor(
        self,
        call_id: int,
        role: str,
        dtype: str,
        shape: Sequence[int],
        data: bytes | bytearray | memoryview,
        *,
        why: str = "",
        under_way: bool = False,
    ) -> bool:
        """Keep a tensor of the call that was written last, within the budget.

        Others may go for it; see `pertdbg.recording.retention`. Where it doesn't fit even so, it
        is left out and `Meta.tensors_left_out` counts it.

        Args:
            call_id: Id of the record.
            role: Such as `delta` or `gradient`.
            dtype: Torch's name of the element type, such as `bfloat16`.
            shape: Of the tensor.
            data: The values, row-major, little endian.
            why: What asked for it, in words.
            under_way: It is of the call after that, whose record comes later.

        Returns:
            Whether it was kept.

        Raises:
            ValueError: The bytes are not such a tensor, or the call is another.
            RecordingFailed: It could not be written.
        """
        if under_way:
            self._tensors.begun(self._head + 1)
        left_out = self._tensors.left_out
        for pending in self._tensors.add(call_id, role, dtype, shape, data, why):
            self._commit(pending)
        return self._tensors.left_out == left_out

    def stored_roles(self, call_id: int) -> frozenset[str]:
        """Give the roles of the tensors that are kept of a call."""
        return self._tensors.roles(call_id)

    def drop_tensors(self, call_id: int) -> None:
        """Drop what was kept of a call that was under way: its record is not going to come."""
        self._commit(self._tensors.drop(call_id))

    def events(self, call_id: int, inside: Inside) -> None:
        """Keep what the lines of a call did that is under way; its record comes later."""
        self._commit(self._events.add(call_id, inside))

    def pin(self, call_id: int) -> None:
        """Keep the tensors of a call whatever comes, unless pinned ones take half of the budget."""
        self._commit(self._tensors.pin(call_id))

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
        self._flusher = None  # its thread has stayed in the parent
        self._failure = "it belongs to the parent process"

    def close(self) -> None:
        """End the recording cleanly: one file is left, unless somebody reads it at this moment.

        Does nothing when it was closed or failed before.
        """
        if self._connection is None:
            return
        self._commit([meta("clean_close", 1), meta("calls", self._head)])
        self._end_flushing()
        create.end(self._connection)
        self._connection = None
        self._failure = "it was closed"

    def _connect(self, power: bool) -> sqlite3.Connection:
        try:
            connection, ahead = create.connect(self.path, power=power)
        except sqlite3.Error as error:
            raise PertdbgError(f"cannot write the recording {self.path}: {error}") from error
        if power and ahead:
            self._flusher = Flusher(self.path.with_name(self.path.name + "-wal"))
        return connection

    def _missing(self, ident: int) -> int:
        """Say how many records before this one were not written."""
        if ident > self._head + 1 and self._connection is not None:
            # The last write may have been interrupted, after its commit or before it.
            (last,) = self._connection.execute("SELECT max(id) FROM call").fetchone()
            self._head = last or 0
        missing = ident - self._head - 1
        if self._connection is None:
            raise self._ended()
        if not 0 <= missing <= schema.GAP_LIMIT:
            raise ValueError(f"record {ident} cannot follow record {self._head}")
        return missing

    def _rows(self, record: CallRecord, picture: HeatMap | None, missing: int) -> Pending:
        try:
            if record.id % SHARED_AGAIN == 0:
                self._interns.again()
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
            if record.time >= self._clock_due:
                self._clock_due = record.time + CLOCK_EVERY
                pending.append(sealed(schema.CLOCK, (time.monotonic_ns(), time.time_ns())))
            return [*pending, sealed(schema.CALLS, row)]
        except _ERRORS as error:
            raise self._failed(error) from error

    def _mark(self, call_id: int, kind: str, text: str) -> Statement:
        self._marks += 1
        kind_text = (bounded(kind, schema.NAME_LIMIT), bounded(text, schema.TEXT_LIMIT))
        return sealed(schema.MARKS, (self._marks, call_id, *kind_text))

    def _commit(self, pending: Pending) -> None:
        connection = self._connection
        if connection is None:
            raise self._ended()
        try:
            if _identity(self.path) != self._file:
                raise OSError("another file has taken its place")
            if len(pending) == 1:
                connection.execute(*pending[0])
            elif pending:
                connection.execute("BEGIN IMMEDIATE")
                for statement, values in pending:
                    connection.execute(statement, values)
                connection.execute("COMMIT")
            if self._flusher is not None:
                self._flusher.written()
        except _ERRORS as error:
            raise self._failed(error) from error
        except BaseException:  # interrupted by Ctrl-C
            connection.rollback()
            raise

    def _ended(self) -> RecordingFailed:
        return RecordingFailed(f"the recording {self.path} takes no more: {self._failure}")

    def _failed(self, error: BaseException) -> RecordingFailed:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self._failure = reason
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
            self._end_flushing()
        return RecordingFailed(f"recording to {self.path} ended after {self._head} calls: {reason}")

    def _end_flushing(self) -> None:
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.close()


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - Path.stat costs twice as much, on every record
    return found.st_dev, found.st_ino
