"""The app on a target that somebody else started: it can be left, and come back to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

from pertdbg.controlpoint import Point, runs_on
from pertdbg.errors import PertdbgError
from pertdbg.recording.meta import Meta
from pertdbg.seat import Seat
from pertdbg.session import Ended, Running, State, SteeredSession, TargetEnded
from pertdbg.wire import Frame

_POLL = 0.05
"""Seconds between two looks at the recording and the process."""

_AGAIN = 0.3
"""Seconds after which a connection is made again that the agent gave up."""


class AttachSession(SteeredSession):
    """A session on one seat of a control point. Closing it leaves the target running."""

    def __init__(self, seat: Seat) -> None:
        """Prepare to connect; nothing is sent before `start`."""
        super().__init__(seat.target, seat.title, "")
        self.seat = seat
        self._reach(Path(seat.recording), Path(seat.control), seat.key)
        self.stdout_path = None if seat.stdout is None else Path(seat.stdout)
        self.stderr_path = None if seat.stderr is None else Path(seat.stderr)
        self._looks: Frame | None = None
        self._unsaid: list[Frame] = []
        """What was asked for while there was no connection."""
        self._seen = (-1, State.LOADING)
        self._since = time.monotonic()
        self._look_at_it()

    @property
    def elapsed(self) -> float:
        """Seconds since the recording was begun, up to the target's end."""
        if self.recording is None or self._took is not None:
            return super().elapsed
        return max(time.time() - self.recording.meta.created_ns / 1e9, 0.0)

    @property
    def quiet(self) -> float:
        """Seconds since the target made a call or changed its state, as far as we saw it."""
        return time.monotonic() - self._since

    async def start(self) -> None:
        """Connect, and begin to follow the recording."""
        self._tasks = [
            asyncio.create_task(self._stay_connected()),
            asyncio.create_task(self._watch()),
        ]

    def look(self, what: frozenset[str]) -> None:
        """Say which pictures are looked at; said again whenever a connection is made."""
        self._looks = {"do": "look", "what": sorted(what)}
        self._send(self._looks)

    async def close(self) -> None:
        """Leave the target, which goes on, also where it is stopped."""
        self._send({"do": "leave"})
        await self._hang_up()
        await super().close()

    def _send(self, command: Frame) -> None:
        if self._writer is None:
            self._unsaid.append(command)
        super()._send(command)

    def _greeting(self) -> list[Frame]:
        unsaid, self._unsaid = self._unsaid, []
        looks = [] if self._looks is None else [self._looks]
        return [*super()._greeting(), *looks, *unsaid]

    async def _stay_connected(self) -> None:
        """Connect, and again after the agent hung up: it does where we were asleep too long."""
        while self.ended is None:
            await self._connect()
            if self._writer is not None:
                self._writer.close()
            self._writer = None
            await asyncio.sleep(_AGAIN)

    async def _watch(self) -> None:
        while self.ended is None:
            self._look_at_it()
            await asyncio.sleep(_POLL)

    def _look_at_it(self) -> None:
        """See what is new in the recording, and whether the target is still there."""
        there, listens = self.seat.alive, self._control.exists()
        with contextlib.suppress(PertdbgError):  # it cannot be read at this moment
            self._open()
        recording = self.recording
        seen = (0 if recording is None else recording.head, self.state)
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        if self.state is State.LOADING and seen[0]:  # it answers at its next call
            self.state = State.RUNNING
            self._events.put_nowait(Running())
        ended = self._how(there, listens)
        if ended is not None and self.ended is None:
            self._took, self.ended, self.state = self.elapsed, ended, State.ENDED
            self._events.put_nowait(TargetEnded(ended))

    def _how(self, there: bool, listens: bool) -> Ended | None:
        meta = None if self.recording is None else self.recording.meta
        if meta is not None and (meta.clean_close or meta.state == "ended"):
            return _ended(meta)
        if not there:
            text = f"process {self.seat.pid} is gone and did not close its recording"
            return Ended(None, None, text)
        if listens or meta is None:
            return None
        return Ended(None, None, "recording has ended; the target runs on without us")


class PointSession(AttachSession):
    """A session on a control point with one seat, whose one app we are."""

    def __init__(self, point: Point, lock: int) -> None:
        """Prepare to connect.

        Args:
            point: Where.
            lock: File descriptor of `Point.lock`; given back when the session closes.
        """
        super().__init__(point.seats[0])
        self._name, self._lock = point.name, lock

    async def close(self) -> None:
        """Leave the target, and the place of its app."""
        if self.live:
            self.left = runs_on(self.target_name, self._name, [self.seat.recording])
        await super().close()
        os.close(self._lock)


def _ended(meta: Meta) -> Ended:
    status = meta.exit_status
    text = meta.exit_text or ("ended" if status is None else f"ended, exit status {status}")
    return Ended(status, None, text)
