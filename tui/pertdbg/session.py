"""The host's side of one debugging session: a recording, and the target that writes it if it runs.

No torch and no screen here. The app reads records from `Session.recording` and nowhere else;
the control socket carries commands and short notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pertdbg.agent.config import Config
from pertdbg.agent.notice import NOTHING
from pertdbg.errors import PertdbgError
from pertdbg.recording.copy import copy_recording
from pertdbg.recording.reader import Recording
from pertdbg.wire import BadFrame, Frame, Unpacker, pack

if TYPE_CHECKING:
    from pertdbg.target import Script


class State(enum.Enum):
    """What the target is doing."""

    LOADING = "loading"
    STOPPED = "stopped"
    RUNNING = "running"
    ENDED = "ended"
    REPLAY = "replay"


@dataclass(frozen=True)
class Ended:
    """How the target came to its end."""

    status: int | None
    """Exit status; None where a signal ended it or it is not known."""
    signal: str | None
    """Name of the signal that ended it, as `SIGKILL`."""
    text: str
    """The same in words, with the last line of a traceback where there is one."""
    could_not_start: bool = False
    """The target gave up before its first call, for a mistake that `text` names."""


@dataclass(frozen=True)
class Loading:
    """The target says what it does before its first call."""

    text: str


@dataclass(frozen=True)
class Stopped:
    """The target waits at the end of a call."""

    id: int


@dataclass(frozen=True)
class Running:
    """The target goes on."""


@dataclass(frozen=True)
class TargetEnded:
    """The target's process is no more."""

    ended: Ended


Event = Loading | Stopped | Running | TargetEnded

_POLL = 0.03
"""Seconds between looks for the agent's socket and for the target's end."""

_GRACE = 2.0
"""Seconds that a target has to end after SIGTERM before SIGKILL."""


class Session:
    """A recording to look at: one that is there (`open`), or one that a target is writing."""

    def __init__(self, target_name: str, title: str = "", about: str = "") -> None:
        self.target_name, self.title, self.about = target_name, title, about
        self.recording: Recording | None = None
        self.state = State.LOADING
        self.loading = "starting python"
        self.ended: Ended | None = None
        self.kept: Path | None = None
        self.stdout_path: Path | None = None
        self.stderr_path: Path | None = None
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._began = time.monotonic()
        self._took: float | None = None

    @classmethod
    def open(cls, path: Path) -> Session:
        """Look at a recording that is there.

        Raises:
            PertdbgError: The file can't be read, or is no recording.
        """
        recording = Recording.open(path)
        meta = recording.meta
        session = cls(path.name, meta.title or "", meta.about or "")
        session.recording, session.state, session.loading = recording, State.REPLAY, ""
        return session

    @property
    def elapsed(self) -> float:
        """Seconds since the target was started, up to its end."""
        return time.monotonic() - self._began if self._took is None else self._took

    @property
    def live(self) -> bool:
        """Whether a target is there to be commanded."""
        return self.state in (State.LOADING, State.STOPPED, State.RUNNING)

    @property
    def temporary(self) -> bool:
        """Whether the recording goes when the session closes, unless it is kept."""
        return False

    async def start(self) -> None:
        """Start the target; nothing to do for a recording that is there."""

    async def events(self) -> AsyncIterator[Event]:
        """Give what happens to the target, as it happens, until its end or `close`."""
        if self.state is State.REPLAY:
            return
        while (event := await self._events.get()) is not None:
            yield event

    def next(self) -> None:
        """Let the target run to the end of its next call and stop there."""

    def go(self, until: int | None = None) -> None:
        """Let the target run to the end of the call with this id, or to its own end."""

    def pause(self) -> None:
        """Stop the target at the next end of a call."""

    def look(self, what: frozenset[str]) -> None:
        """Say which pictures (`histogram`, `map`) are looked at, so that stops fill them."""

    def interrupt(self) -> None:
        """Send SIGINT to the target and its children, as Ctrl-C in its terminal would."""

    def keep(self, path: Path) -> None:
        """Copy the recording to a file of this name.

        Raises:
            PertdbgError: The file exists or can't be written.
        """
        if self.recording is None:
            raise PertdbgError("there is nothing recorded yet to keep")
        copy_recording(self.recording.path, path)
        self.kept = path

    async def close(self) -> None:
        """End the target, if any, and let go of the recording."""
        if self.recording is not None:
            self.recording.close()
            self.recording = None


class LiveSession(Session):
    """A session whose target is a child process of its own group, with the agent inside."""

    def __init__(
        self,
        config: Config,
        target_name: str,
        title: str = "",
        about: str = "",
        script: Script | None = None,
    ) -> None:
        """Prepare to run a target.

        Args:
            config: What the agent is told; the paths of the session are filled in here.
            target_name: What the target is called.
            title: What the run shows, in few words.
            about: The same in more words.
            script: What to run, if it is not the scenario that `config` names.
        """
        super().__init__(target_name, title, about)
        self._script = script
        self._folder = Path(tempfile.mkdtemp(prefix="pertdbg-"))
        self._stdout, self._stderr = (self._folder / f"session.{s}" for s in ("stdout", "stderr"))
        self.stdout_path, self.stderr_path = self._stdout, self._stderr
        self._config = replace(
            config,
            recording=str(self._folder / "session.pertdbg"),
            control=str(self._folder),
            key=secrets.token_hex(16),
            parent=os.getpid(),
            stdout=str(self._stdout),
            stderr=str(self._stderr),
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._kept_head = 0

    @property
    def temporary(self) -> bool:
        """Whether there are records that no kept copy holds."""
        return self.recording is not None and self.recording.head > self._kept_head

    async def start(self) -> None:
        """Start the target's process and begin to listen to it."""
        self._began = time.monotonic()
        self._process = self._spawn(*self._command())
        self._tasks = [
            asyncio.create_task(self._connect()),
            asyncio.create_task(self._reap(self._process)),
        ]

    def _command(self) -> tuple[Sequence[str], Mapping[str, str]]:
        """Give the target's command line and environment."""
        if self._script is not None:
            return self._script.command(), self._script.environment(self._config)
        path = self._folder / "config.json"
        self._config.save(path)
        unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return [sys.executable, "-m", "pertdbg.agent", str(path)], unbuffered

    def _spawn(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )

    def next(self) -> None:
        """Let the target run to the end of its next call and stop there."""
        self._send({"do": "next"})

    def go(self, until: int | None = None) -> None:
        """Let the target run to the end of the call with this id, or to its own end."""
        self._send({"do": "go", "until": until})

    def pause(self) -> None:
        """Stop the target at the next end of a call."""
        self._send({"do": "pause"})

    def look(self, what: frozenset[str]) -> None:
        """Say which pictures (`histogram`, `map`) are looked at, so that stops fill them."""
        self._send({"do": "look", "what": sorted(what)})

    def interrupt(self) -> None:
        """Send SIGINT to the target and its children, as Ctrl-C in its terminal would."""
        self._signal(signal.SIGINT)

    def keep(self, path: Path) -> None:
        """Copy what is recorded to a file of this name, and again when the target has ended.

        Raises:
            PertdbgError: The file exists or can't be written.
        """
        super().keep(path)
        self._kept_head = self.recording.head if self.recording is not None else 0

    async def close(self) -> None:
        """End the target and its children and remove what is temporary."""
        await self._end_target()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._events.put_nowait(None)
        if self._writer is not None:
            self._writer.close()
        if self.kept is not None and self.temporary:
            copy_recording(self._recording_path, self.kept, replace=True)
        await super().close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _recording_path(self) -> Path:
        return Path(self._config.recording)

    def _send(self, command: Frame) -> None:
        if self._writer is not None and self.live:
            self._writer.write(pack(command))

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _end_target(self) -> None:
        """End the whole group: workers of the target are in it."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while self._process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(_POLL)
        self._signal(signal.SIGKILL)
        self._process.wait()

    async def _connect(self) -> None:
        """Connect to the agent as soon as it listens, and turn its notices into events."""
        from pertdbg.agent.control import SOCKET

        path = self._folder / SOCKET
        while True:
            with contextlib.suppress(OSError):
                reader, self._writer = await asyncio.open_unix_connection(str(path))
                break
            await asyncio.sleep(_POLL)
        self._writer.write(pack({"key": self._config.key}))
        unpacker = Unpacker()
        with contextlib.suppress(OSError, BadFrame):
            while data := await reader.read(65536):
                for frame in unpacker.feed(data):
                    self._notice(frame)

    def _notice(self, frame: Frame) -> None:
        self._open()
        now = frame.get("now")
        if now == "loading":
            self.loading = str(frame.get("text", ""))
            self._events.put_nowait(Loading(self.loading))
        elif now == "stopped":
            self.state = State.STOPPED
            self._events.put_nowait(Stopped(int(frame.get("id", 0))))
        elif now == "running":
            self.state = State.RUNNING
            self._events.put_nowait(Running())

    def _open(self) -> None:
        """Open the recording when there is one, and see what is new in it."""
        if self.recording is None and self._recording_path.exists():
            with contextlib.suppress(PertdbgError):  # being made this very moment
                self.recording = Recording.open(self._recording_path)
        if self.recording is not None:
            self.recording.refresh()

    async def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the target's end, however it comes."""
        while (status := process.poll()) is None:
            await asyncio.sleep(_POLL)
        self._took = time.monotonic() - self._began
        self._open()
        self.ended = self._how(status)
        self.state = State.ENDED
        self._events.put_nowait(TargetEnded(self.ended))

    def _how(self, status: int) -> Ended:
        last = self._last_error_line()
        if status < 0:
            name = _signal_name(-status)
            return Ended(None, name, f"ended by {name}")
        if status == 0:
            return Ended(0, None, "ended, exit status 0")
        if status == 2 and last.startswith("pertdbg: "):
            return Ended(2, None, last.removeprefix("pertdbg: "), could_not_start=True)
        return Ended(status, None, f"exit status {status}" + (f": {last}" if last else ""))

    def _last_error_line(self) -> str:
        """Give the last line of the target's own; what the agent says of a script is not."""
        with self._stderr.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 8192))
            text = file.read().decode(errors="replace")
        if self._script is not None:
            head, found, _ = text.rpartition(f"pertdbg: {NOTHING}")
            text = head if found else text
        lines = text.strip().splitlines()
        return lines[-1].strip() if lines else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
