"""The ranks of a job that runs, as one session: each is commanded on a seat of its own."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pertdbg.agent.config import Config
from pertdbg.agent.group import KEY
from pertdbg.answer import Answer, Stored
from pertdbg.attach import AttachSession
from pertdbg.controlpoint import Point, claim, free_name, holds, runs_on
from pertdbg.errors import PertdbgError
from pertdbg.follow import POLL
from pertdbg.process import began
from pertdbg.ranklaunch import Launch
from pertdbg.ranks import RankSession, RankState, rank_state
from pertdbg.recording.copy import copy_recording
from pertdbg.seat import remove
from pertdbg.session import Ended, Event, Loading, State, TargetEnded
from pertdbg.target import Script

if TYPE_CHECKING:
    from pertdbg.conditions import Condition

_QUIET = 1.0
"""Seconds without a call from which a rank that runs is taken to wait for another one."""

_LOOK = 0.3
"""Seconds between two looks who has come to the control point."""

_GRACE = 5.0
"""Seconds that a job has to end after SIGTERM before SIGKILL."""


class Others(enum.Enum):
    """What the other ranks do while one is stepped."""

    TOGETHER = "go along to the same call"
    HELD = "wait at their next stop"
    FREE = "run free"


class LiveRanks(RankSession):
    """The ranks at a control point. Closing the session leaves them all running."""

    def __init__(self, name: str, point: Point | None = None, lock: int | None = None) -> None:
        """Prepare a session without ranks; they are taken in as they sit down.

        Args:
            name: What the session is called.
            point: Where they sit down; to be known before `start`.
            lock: File descriptor of `Point.lock`.
        """
        super().__init__(name)
        self.others = Others.TOGETHER
        self.loading = "starting the ranks"
        self._point, self._lock = point, lock
        self._following: list[asyncio.Task[None]] = []
        self._heard: dict[int, Event] = {}
        """What each rank said last."""
        self._pictures: frozenset[str] = frozenset()
        self._steered = False
        """A rank was chosen or sent on: it stays the one that is looked at. Else the lowest is."""

    @property
    def live(self) -> bool:
        """Whether the rank that is looked at is there to be commanded."""
        return self.state in (State.LOADING, State.STOPPED, State.RUNNING)

    @property
    def attached(self) -> list[AttachSession]:
        """The ranks that have come."""
        return [member for member in self.members if isinstance(member, AttachSession)]

    def states(self) -> list[RankState]:
        """Say what each rank does, and who waits for whom, as far as that can be seen."""
        return [_state_of(member, self.attached) for member in self.attached]

    def next(self) -> None:
        """Let the rank run to the end of its next call, and the others as `others` says."""
        shown, self._steered = self._shown, True
        if shown is not None:
            shown.next()
            self._move_others(shown.recording.head + 1 if shown.recording is not None else 1)

    def go(self, until: int | None = None) -> None:
        """Let the rank run to the end of a call, or to its own end, and the others too."""
        self._steered = True
        if self._shown is not None:
            self._shown.go(until)
            self._move_others(until)

    def line(self, *, into: bool = False) -> None:
        """Let the rank run one line; the others make the call that it is in, if they are to."""
        shown, self._steered = self._shown, True
        if shown is not None:
            shown.line(into=into)
            self._move_others(shown.recording.head + 1 if shown.recording is not None else 1)

    def pause(self) -> None:
        """Stop the rank at the end of its next call; the others too, unless they run free."""
        for member in self.attached:
            if member is self._shown or self.others is not Others.FREE:
                member.pause()

    def stop_when(self, conditions: Sequence[Condition]) -> None:
        """Stop each rank where one of these conditions holds."""
        super().stop_when(conditions)
        for member in self.attached:
            member.stop_when(conditions)

    async def ask(self, text: str, confirmed: bool = False) -> Answer:
        """Evaluate an expression in the paused frame of the rank that is looked at."""
        ask = super().ask if self._shown is None else self._shown.ask
        return await ask(text, confirmed)

    async def complete(self, text: str) -> list[str]:
        """Give what may stand at the end of a question to the rank that is looked at."""
        return [] if self._shown is None else await self._shown.complete(text)

    async def store(self, *, answer: bool = False) -> Stored:
        """Let the rank that is looked at store its tensors in its recording."""
        store = super().store if self._shown is None else self._shown.store
        return await store(answer=answer)

    def look(self, what: frozenset[str]) -> None:
        """Say which pictures are looked at."""
        self._pictures = what
        for member in self.attached:
            member.look(what)

    def choose_others(self, others: Others) -> None:
        """Choose what the other ranks do while one is stepped."""
        self.others = others
        if others is Others.FREE:
            self._move_others(None)

    def switch(self, to: int | None = None) -> None:
        """Look at a member, or at the next rank: the first after the last."""
        super().switch(to)
        shown, self._steered = self._shown, True
        if shown is not None and shown.seat.rank in self._heard:
            self._events.put_nowait(self._heard[shown.seat.rank])

    def poll(self) -> None:
        """See who has sat down."""
        now = time.monotonic()
        if self._point is not None and now >= self._look_after:
            self._look_after = now + _LOOK
            self._point = self._point.refreshed()
            known = {member.seat.pid for member in self.attached}
            for seat in self._point.seats:
                if seat.pid not in known:
                    self._take_in(AttachSession(seat))
        self._mirror()

    async def close(self) -> None:
        """Leave all ranks, which go on, also where they are stopped."""
        if self._point is not None and (any(m.live for m in self.attached) or self.ends):
            folders = {str(Path(member.seat.recording).parent) for member in self.attached}
            self.left = runs_on(self._point.holder.target, self._point.name, sorted(folders))
        await super().close()
        await asyncio.gather(*self._following, return_exceptions=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def _shown(self) -> AttachSession | None:
        return self.attached[self._at] if self.members else None

    def _move_others(self, until: int | None) -> None:
        """Let the other ranks go, or stop, as was chosen.

        They go along to the call of the same id: ranks make the same calls, and one that is
        there already stays.
        """
        for member in self.attached:
            if member is self._shown:
                continue
            if self.others is Others.TOGETHER:
                member.go(until)
            elif self.others is Others.FREE:
                member.go()
            elif member.state is State.RUNNING:
                member.pause()

    def _take_in(self, member: AttachSession) -> None:
        """Take a rank in, in the place of one that ended and was begun again."""
        here, rank = self._shown, member.seat.rank
        for before in [other for other in self.attached if other.seat.rank == rank]:
            self.members.remove(before)
            self._following.append(asyncio.create_task(before.close()))
            here = member if before is here else here
        ordered = sorted([*self.attached, member], key=lambda other: other.seat.rank)
        self.members = [*ordered]
        shown = here if here is not None and self._steered else ordered[0]
        self._at = ordered.index(shown)
        if here is not None and shown is not here:  # the ranks come in any order
            self._mirror()
            self._events.put_nowait(Loading(self.loading))
        member.look(self._pictures)
        if self.conditions:
            member.stop_when(self.conditions)
        self._following.append(asyncio.create_task(self._follow(member)))

    async def _follow(self, member: AttachSession) -> None:
        await member.start()
        async for event in member.events():
            self._hear(member, event)

    def _hear(self, member: AttachSession, event: Event) -> None:
        self._heard[member.seat.rank] = event
        if member is self._shown:
            self._mirror()
            self._events.put_nowait(event)

    def _mirror(self) -> None:
        """Show what the chosen rank does; its events come by `_hear`."""
        member = self._shown
        if member is None:
            return
        self.recording, self.state, self.loading = member.recording, member.state, member.loading
        self.ended, self.title, self.about = member.ended, member.title, member.about
        self.stdout_path, self.stderr_path = member.stdout_path, member.stderr_path


class LaunchedRanks(LiveRanks):
    """Ranks that we launch, recorded in a temporary folder."""

    KEPT = ".ranks"

    def __init__(self, script: Script, config: Config, ranks: int) -> None:
        """Prepare to launch; nothing runs before `start`.

        Args:
            script: What to run.
            config: What the agent of each rank is told; the rest is filled in here.
            ranks: How many.
        """
        super().__init__(script.name)
        self.title = script.name
        self._script, self._ranks = script, ranks
        self._room = Path(tempfile.mkdtemp(prefix="pertdbg-"))
        self._config = replace(
            config,
            parent=os.getpid(),
            began=began(os.getpid()),
            meta={**config.meta, "uuid": os.urandom(16).hex(), "world_size": ranks},
        )
        self._launcher: subprocess.Popen[bytes] | None = None
        self._kept_heads: list[int] = []

    @property
    def ends(self) -> bool:
        """Whether the job runs: it can be ended, or left."""
        return self._launcher is not None and self._launcher.poll() is None

    @property
    def temporary(self) -> bool:
        """Whether there are records that no kept copy holds."""
        return any(self._heads()) and self._heads() != self._kept_heads

    async def start(self) -> None:
        """Launch the ranks and begin to look for them.

        Raises:
            PertdbgError: There is no place for a control point.
        """
        name = free_name(self._script.stem)
        out, err = (self._room / f"launcher.{stream}" for stream in ("stdout", "stderr"))
        mine = holds(self._config, os.getpid())
        self._point = Point(claim(name, mine), mine, ())
        self._lock = self._point.lock()
        run, folder = str(self._config.meta["uuid"]), self._point.folder
        launch = Launch(
            self._script, self._config, str(self._room), run, str(folder), captured=True
        )
        with out.open("wb") as stdout, err.open("wb") as stderr:
            self._launcher = subprocess.Popen(
                launch.command(self._ranks),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=launch.environment(),
                start_new_session=True,
            )
        self.stdout_path, self.stderr_path = out, err
        holds(self._config, self._launcher.pid).save(folder)
        await super().start()

    def poll(self) -> None:
        """See who has sat down, and whether the launcher has given up before anybody did."""
        super().poll()
        launcher = self._launcher
        if launcher is None or self.members or self.ended is not None:
            return
        status = launcher.poll()
        if status is not None:
            self._took = self.elapsed
            self.state, self.ended = State.ENDED, Ended(status, None, self._why(status))
            self._events.put_nowait(TargetEnded(self.ended))

    def interrupt(self) -> None:
        """Send SIGINT to the launcher, which passes it on to the ranks."""
        if self._launcher is not None:
            self._launcher.send_signal(signal.SIGINT)

    def keep(self, path: Path) -> None:
        """Copy what each rank has recorded into a new folder.

        Raises:
            PertdbgError: The folder exists or can't be written.
        """
        recordings = [Path(member.seat.recording) for member in self.attached if member.recording]
        if not recordings:
            raise PertdbgError("there is nothing recorded yet to keep")
        try:
            path.mkdir()
        except OSError as error:
            raise PertdbgError(f"cannot make the folder {path}: {error.strerror}") from error
        for recording in recordings:
            copy_recording(recording, path / recording.name)
        self.kept, self._kept_heads = path, self._heads()

    async def end(self) -> None:
        """End the job, then the session."""
        await self._end_job()
        await self.close()

    async def close(self) -> None:
        """Leave the ranks; what is temporary goes where the job has ended."""
        runs, heads = self.ends, self._heads()
        kept = self.kept if heads != self._kept_heads else None
        recordings = [Path(member.seat.recording) for member in self.attached]
        await super().close()
        if kept is not None:
            for recording in recordings:
                with contextlib.suppress(PertdbgError):  # a rank that recorded nothing
                    copy_recording(recording, kept / recording.name, replace=True)
        if not runs:
            if self._point is not None:
                remove(self._point.folder)
            shutil.rmtree(self._room, ignore_errors=True)

    async def _end_job(self) -> None:
        """End the launcher and the ranks, which have process groups of their own."""
        launcher = self._launcher
        if launcher is None:
            return
        launcher.terminate()
        deadline = time.monotonic() + _GRACE
        while launcher.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(POLL)
        for seat in [member.seat for member in self.attached if member.seat.alive]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(seat.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()

    def _heads(self) -> list[int]:
        return [member.recording.head for member in self.attached if member.recording is not None]

    def _why(self, status: int) -> str:
        """Say why no rank came, in the launcher's words."""
        text = (self._room / "launcher.stderr").read_text(errors="replace")[-8192:]
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        own = [line for line in lines if line.startswith("pertdbg: ")]
        return f"exit status {status}: {(own or lines or ['the launcher has ended'])[-1]}"


def _state_of(member: AttachSession, members: list[AttachSession]) -> RankState:
    state = rank_state(member.seat.rank, member)
    if member.state is not State.RUNNING or member.quiet < _QUIET:
        return state
    others = [other for other in members if other is not member]
    stopped = [other.seat.rank for other in others if other.state is State.STOPPED]
    gone = [other.seat.rank for other in others if other.state is State.ENDED]
    recording = member.recording
    timeout = None if recording is None else recording.meta.extra.get(KEY)
    # The collective began after the last call, so it gives up later than this.
    left = timeout - member.quiet if isinstance(timeout, (int, float)) else None
    return replace(state, waits_for=tuple(stopped or gone), left=left)
