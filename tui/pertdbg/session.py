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
from pertdbg.answer import Answer, Stored
from pertdbg.errors import PertdbgError
from pertdbg.recording.copy import copy_recording
from pertdbg.recording.meta import KEPT_AS
from pertdbg.recording.reader import Recording
from pertdbg.wire import ANSWERS, BadFrame, Frame, Unpacker, pack

if TYPE_CHECKING:
    from pertdbg.ablation.variant import Target
    from pertdbg.conditions import Condition
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
    """The target waits at the end of a call, or inside one."""

    id: int
    line: int | None = None
    """Inside a call, which has no record yet: the place of the last of its events."""
    because: tuple[str, ...] = ()
    """The conditions that hold there, where these stopped it."""


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

    KEPT = ".pertdbg"
    """How the name ends under which it is kept."""

    def __init__(self, target_name: str, title: str = "", about: str = "") -> None:
        self.target_name, self.title, self.about = target_name, title, about
        self.recording: Recording | None = None
        self.state = State.LOADING
        self.loading = "starting python"
        self.ended: Ended | None = None
        self.kept: Path | None = None
        self.stdout_path: Path | None = None
        self.stderr_path: Path | None = None
        self.left = ""
        """What is to be said of a target that runs on, once the session is closed."""
        self.conditions: tuple[Condition, ...] = ()
        """Where the target is to stop."""
        self.watches: tuple[str, ...] = ()
        """Expressions that the scenario wants shown."""
        self._kept_as = ""
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
    def kept_as(self) -> str:
        """What watches and conditions are kept for, by `pertdbg.conditions.Kept`; may be empty."""
        if self._kept_as or self.recording is None:
            return self._kept_as
        found = self.recording.meta.extra.get(KEPT_AS)
        return found if isinstance(found, str) else ""

    @property
    def live(self) -> bool:
        """Whether a target is there to be commanded."""
        return self.state in (State.LOADING, State.STOPPED, State.RUNNING)

    @property
    def target(self) -> Target | None:
        """What can be run again, changed; None where there is only a recording of it."""
        return None

    @property
    def temporary(self) -> bool:
        """Whether the recording goes when the session closes, unless it is kept."""
        return False

    @property
    def ends(self) -> bool:
        """Whether a target is there that ends with the session, unless it is left."""
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

    def line(self, *, into: bool = False) -> None:
        """Let the target run to the end of the next line of an update and stop there.

        Args:
            into: Stop also inside a function that the line calls.
        """

    def pause(self) -> None:
        """Stop the target at the next end of a call."""

    def look(self, what: frozenset[str]) -> None:
        """Say which pictures (`histogram`, `map`) are looked at, so that stops fill them."""

    def stop_when(self, conditions: Sequence[Condition]) -> None:
        """Stop the target where one of these conditions holds, and at none of those before.

        In a recording they stop nothing; `pertdbg.conditions.search` finds where they hold.
        """
        self.conditions = tuple(conditions)

    async def ask(self, text: str, confirmed: bool = False) -> Answer:
        """Evaluate an expression in the paused frame of the target, and give a summary.

        Args:
            text: The question; any Python.
            confirmed: Run it even if something in it may change what the target has.
        """
        del confirmed  # nothing runs here
        return Answer(text, error="there is no target that could be asked: this is a recording")

    async def complete(self, text: str) -> list[str]:
        """Give what may stand at the end of a question; empty where the target is not stopped."""
        del text
        return []

    async def store(self, *, answer: bool = False) -> Stored:
        """Let the stopped target store its tensors in the recording, so that they can be seen.

        Args:
            answer: Not those of the call, or of the line, but the one that `ask` gave last.
        """
        del answer
        return Stored(why="there is no target that could store it: this is a recording")

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

    async def _end_tasks(self, *tasks: asyncio.Task[None]) -> None:
        """End what goes on beside us, and with it the events."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._events.put_nowait(None)

    async def leave(self) -> None:
        """Let go of the recording, and of the target, which runs on.

        Raises:
            PertdbgError: The target can't be left so that one could come back to it.
        """
        await self.close()

    async def end(self) -> None:
        """Let go of the recording, and end a target that is ours."""
        await self.close()

    async def close(self) -> None:
        """End the target, if any, and let go of the recording."""
        if self.recording is not None:
            self.recording.close()
            self.recording = None


class SteeredSession(Session):
    """A session whose target has the agent inside: it is commanded over the control socket."""

    def __init__(self, target_name: str, title: str, about: str) -> None:
        """Prepare a session; `_reach` says where the target is."""
        super().__init__(target_name, title, about)
        self._writer: asyncio.StreamWriter | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._stops_given = False
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[Frame]] = {}

    def _reach(self, recording: Path, control: Path, key: str) -> None:
        """Take note of where the target records, and where and how it is commanded."""
        self._recording_path, self._control, self._key = recording, control, key

    def next(self) -> None:
        """Let the target run to the end of its next call and stop there."""
        self._send({"do": "next"})

    def go(self, until: int | None = None) -> None:
        """Let the target run to the end of the call with this id, or to its own end."""
        self._send({"do": "go", "until": until})

    def line(self, *, into: bool = False) -> None:
        """Let the target run to the end of the next line of an update and stop there."""
        self._send({"do": "line", "into": into})

    def pause(self) -> None:
        """Stop the target at the next end of a call."""
        self._send({"do": "pause"})

    def look(self, what: frozenset[str]) -> None:
        """Say which pictures (`histogram`, `map`) are looked at, so that stops fill them."""
        self._send({"do": "look", "what": sorted(what)})

    def stop_when(self, conditions: Sequence[Condition]) -> None:
        """Stop the target where one of these conditions holds, and at none of those before."""
        super().stop_when(conditions)
        self._stops_given = True
        self._send(self._stops())

    async def ask(self, text: str, confirmed: bool = False) -> Answer:
        """Evaluate an expression in the paused frame of the target, and give a summary."""
        command = {"do": "ask", "text": text, "confirmed": confirmed}
        return Answer.of(text, await self._question(command))

    async def complete(self, text: str) -> list[str]:
        """Give what may stand at the end of a question; empty where the target is not stopped."""
        names = (await self._question({"do": "complete", "text": text})).get("names")
        return list(map(str, names)) if isinstance(names, list) else []

    async def store(self, *, answer: bool = False) -> Stored:
        """Let the stopped target store its tensors in the recording, so that they can be seen."""
        return Stored.of(await self._question({"do": "store", "answer": answer}))

    async def _question(self, command: Frame) -> Frame:
        if self.state is not State.STOPPED or self._writer is None:
            return {"why": "the target is not stopped; stop it first"}
        self._asked += 1
        number = self._asked
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({**command, "number": number})
            return await self._waiting[number]
        finally:
            self._waiting.pop(number, None)

    def _answered(self, frame: Frame) -> None:
        waiting = self._waiting.get(frame.get("number", 0))
        if waiting is not None and not waiting.done():
            waiting.set_result(frame)

    def _stops(self) -> Frame:
        return {"do": "break", "conditions": [one.as_json() for one in self.conditions]}

    def _send(self, command: Frame) -> None:
        if self._writer is not None and self.live:
            self._writer.write(pack(command))

    async def _connect(self) -> None:
        """Connect to the agent as soon as it listens, and turn its notices into events."""
        from pertdbg.agent.control import SOCKET

        path = self._control / SOCKET
        while True:
            with contextlib.suppress(OSError):
                reader, self._writer = await asyncio.open_unix_connection(str(path))
                break
            await asyncio.sleep(_POLL)
        self._writer.write(b"".join(map(pack, self._greeting())))
        unpacker = Unpacker()
        with contextlib.suppress(OSError, BadFrame):
            while data := await reader.read(65536):
                for frame in unpacker.feed(data):
                    self._notice(frame)
        for number in list(self._waiting):
            self._answered({"number": number, "why": "the target has gone"})

    async def _hang_up(self) -> None:
        """End what goes on beside us, and the connection."""
        await self._end_tasks(*self._tasks)
        if self._writer is not None:
            self._writer.close()

    def _greeting(self) -> list[Frame]:
        """Give what the agent is told first."""
        return [{"key": self._key}, *([self._stops()] if self._stops_given else [])]

    def _notice(self, frame: Frame) -> None:
        self._open()
        now = frame.get("now")
        if now == "loading":
            self.loading = str(frame.get("text", ""))
            self._events.put_nowait(Loading(self.loading))
        elif now == "stopped":
            self.state = State.STOPPED
            because = tuple(map(str, frame.get("because", ())))
            line = frame.get("line")
            at = line if isinstance(line, int) else None
            self._events.put_nowait(Stopped(int(frame.get("id", 0)), at, because))
        elif now in ANSWERS.values():
            self._answered(frame)
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


class LiveSession(SteeredSession):
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
        self._reach(Path(self._config.recording), self._folder, self._config.key)
        self.conditions = _conditions(config)
        self._kept_as = str(config.meta.get(KEPT_AS, ""))
        self._process: subprocess.Popen[bytes] | None = None
        self._kept_head = 0

    @property
    def target(self) -> Target | None:
        """What can be run again, changed: a scenario, or a script in our own interpreter."""
        from pertdbg.ablation.variant import Target

        if self._script is None:
            return Target(scenario=self._config.scenario)
        if self._script.python != sys.executable or self._script.is_piped:
            return None
        return Target(given=self._script.given, adapters=tuple(self._config.adapters))

    @property
    def temporary(self) -> bool:
        """Whether there are records that no kept copy holds."""
        return self.recording is not None and self.recording.head > self._kept_head

    @property
    def ends(self) -> bool:
        """Whether the target runs: it ends with the session, unless it is left."""
        return self.live

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
        await self._let_go()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def leave(self) -> None:
        """Let the target run on, with a control point to come back to.

        Raises:
            PertdbgError: There is no place for a control point.
        """
        from pertdbg.controlpoint import leave_at

        if not self.live or self._process is None:
            await self.close()
            return
        self.left = leave_at(self._config, self.target_name, self._process.pid)
        self._send({"do": "leave"})
        await self._let_go()

    async def _let_go(self) -> None:
        await self._hang_up()
        if self.kept is not None and self.temporary:
            copy_recording(self._recording_path, self.kept, replace=True)
        await super().close()

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


def _conditions(config: Config) -> tuple[Condition, ...]:
    if not config.stop_when:
        return ()
    from pertdbg.conditions import Condition  # most runs have none

    return tuple(map(Condition.from_json, config.stop_when))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
