"""A session on a recording that another process is writing: looked at, never touched.

The other process may be of another user, the folder may be one that cannot be written, and the
file may come later, end, be begun anew, or lose its writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.recording.create import on_network_disk
from pertdbg.recording.meta import Meta
from pertdbg.recording.reader import Recording
from pertdbg.session import Ended, Loading, Running, Session, State, TargetEnded

POLL = 0.05
"""Seconds between two looks at the file."""

_SILENCE = 1.0
"""Seconds without anything new after which it is asked whether the writer still lives."""

_COPIES = 20
"""Times as long as copying took, nothing is copied again: what cannot be read in its place."""

_SUFFIX = ".pertdbg"

_Stamp = tuple[tuple[int, int, int, int], ...]
"""Device, inode, size and time of the file and its journal."""


class FollowSession(Session):
    """A recording that grows, read only. Its events are those of the process that writes it."""

    def __init__(self, path: Path) -> None:
        """Look at the recording, or wait for it.

        Args:
            path: A file that is there or will be.

        Raises:
            PertdbgError: The file can't be read, or is no recording.
        """
        super().__init__(path.name or str(path))
        self._wanted = path
        self._stamp: _Stamp = ()
        self._opened: _Stamp = ()
        self._changed = time.monotonic()
        self._copy_after = 0.0
        self._watching: asyncio.Task[None] | None = None
        self._uuid = ""
        """Of the recording that is open; empty where it cannot be read on."""
        self._problem = ""
        self.loading = f"waiting for {path} to be written"
        self.poll()
        if self._problem:
            raise PertdbgError(self._problem)

    @property
    def live(self) -> bool:
        """No: the target belongs to somebody else."""
        return False

    @property
    def elapsed(self) -> float:
        """Seconds since the recording was begun, or since it is waited for."""
        if self.recording is None or self._took is not None:
            return super().elapsed
        return max(time.time() - self.recording.meta.created_ns / 1e9, 0.0)

    async def start(self) -> None:
        """Begin to watch the file."""
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Let go of the recording; its writer goes on."""
        await self._end_tasks(*([] if self._watching is None else [self._watching]))
        await super().close()

    def poll(self) -> None:
        """Look at the file once: what is new, another file under its name, its writer's end."""
        try:
            self._look()
            self._problem = ""
        except (PertdbgError, OSError) as error:  # half made, gone this moment, or damaged
            self._problem = str(error)
        self._judge()

    async def _watch(self) -> None:
        while True:
            self.poll()
            await asyncio.sleep(POLL)

    def _look(self) -> None:
        path = self._wanted
        stamp = _stamp(path)
        if not stamp:
            return
        if self.recording is None or self._is_other(stamp):
            self._open(path, stamp)
        elif self._is_newer(self.recording, stamp):
            self._stamp, self._changed = stamp, time.monotonic()
            if self.recording.meta.uuid != self._uuid:
                self._open(path, stamp)

    def _is_newer(self, recording: Recording, stamp: _Stamp) -> bool:
        """See what is new; one that cannot be read on may be another one, copied over it."""
        try:
            return recording.refresh() or stamp != self._stamp
        except PertdbgError:
            self._uuid = ""
            return stamp != self._stamp

    def _is_other(self, stamp: _Stamp) -> bool:
        """Say whether another file than the one that is open is to be read now.

        A copy, which is what is open where SQLite cannot read the file in its place, never grows.
        """
        assert self.recording is not None  # noqa: S101 - as the caller saw
        if stamp[0][:2] != self._stamp[0][:2]:
            return True
        copied = self.recording.copied
        return copied and stamp != self._opened and time.monotonic() > self._copy_after

    def _open(self, path: Path, stamp: _Stamp) -> None:
        began = time.monotonic()
        recording = Recording.open(path)
        now = time.monotonic()
        before, self.recording = self.recording, recording
        self._stamp = self._opened = stamp
        self._changed, self._uuid = now, recording.meta.uuid
        self._copy_after = now + _COPIES * (now - began)
        meta = recording.meta
        self.target_name, self.title, self.about = path.name, meta.title, meta.about
        if before is not None:
            before.close()

    def _judge(self) -> None:
        """Work out what the target does, and tell of it where that has changed."""
        ended = self._how()
        if ended is not None:
            if ended != self.ended:
                self._took = self._run_time()
                self.ended, self.state = ended, State.ENDED
                self._events.put_nowait(TargetEnded(ended))
            return
        self.ended = self._took = None
        recording = self.recording
        if recording is not None and recording.head:
            if self.state is not State.RUNNING:
                self.state = State.RUNNING
                self._events.put_nowait(Running())
            return
        self._load("no call yet" if recording is None else recording.meta.loading)

    def _load(self, text: str) -> None:
        if self.recording is None:
            text = self._problem or f"waiting for {self._wanted} to be written"
        text = text or "no call was made yet"
        if (self.state, self.loading) != (State.LOADING, text):
            self.state, self.loading = State.LOADING, text
            self._events.put_nowait(Loading(text))

    def _how(self) -> Ended | None:
        """Say how the writer came to its end; None while it goes on, or where none can tell."""
        if self.recording is None:
            return None
        meta = self.recording.meta
        if meta.clean_close or meta.state == "ended":
            return _ended(meta)
        if not self.recording.path.exists():
            return Ended(None, None, "the file was removed")
        silent = time.monotonic() - self._changed > _SILENCE
        if silent and not on_network_disk(self.recording.path) and is_gone(meta):
            text = f"process {meta.pid} is gone and did not close its recording"
            return Ended(None, None, text)
        return None

    def _run_time(self) -> float:
        recording = self.recording
        if recording is None or not recording.head:
            return 0.0
        with contextlib.suppress(PertdbgError):
            return recording.record(recording.head).time
        return 0.0


def recordings_in(folder: Path) -> list[Path]:
    """Give the files of a folder that are called as recordings are, by name."""
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in found if path.suffix == _SUFFIX and not path.name.startswith(".")]


def is_gone(meta: Meta) -> bool:
    """Say whether the process that wrote a recording, on this machine, is no more.

    A process that began after the recording only has its number.
    """
    if meta.pid <= 0:
        return False
    try:
        os.kill(meta.pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass  # somebody else's
    try:
        # What follows the name, which may hold blanks: state, and the start in ticks since boot.
        values = Path(f"/proc/{meta.pid}/stat").read_text().rpartition(")")[2].split()
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):  # no Linux: what else can be known
        return False
    began = booted + int(values[19]) / os.sysconf("SC_CLK_TCK")
    return values[0] in "ZX" or began > meta.created_ns / 1e9 + 2


def _ended(meta: Meta) -> Ended:
    status = meta.exit_status
    if status is not None:
        return Ended(status, None, meta.exit_text or f"exit status {status}")
    return Ended(None, None, meta.exit_text or "closed by its writer")


def _stamp(path: Path) -> _Stamp:
    """Give what tells whether a file or its journal has changed; nothing where it is not there."""
    found = []
    for place in (path, path.with_name(path.name + "-wal")):
        with contextlib.suppress(OSError):
            stat = place.stat()
            found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found) if path.exists() else ()
