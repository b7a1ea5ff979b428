"""Sending a target on, and why one can't be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from pertdbg.app.stops import Stops
from pertdbg.app.trier import Trier
from pertdbg.record import CallRecord
from pertdbg.session import Event, Session, State, Stopped

if TYPE_CHECKING:
    from pertdbg.conditions import Condition

_OWED = 20
"""Most moves that can be asked for ahead of a slow target."""

_WATCHED = "another process writes this recording: it is followed, not steered"


class Runner(Trier):
    """Keys that let the target run, and what stops it."""

    def __init__(self, session: Session) -> None:
        """Take up the conditions that the session has."""
        super().__init__(session)
        self.stops = Stops(session.conditions)
        self._until: Condition | None = None
        """Where it is to stop once, for a move."""

    def action_go(self) -> None:
        """Let the target run to its next stop or its end."""
        self.run_to(None)

    def action_pause(self) -> None:
        """Stop a running target at its next call."""
        self.owed.clear()
        if self.is_watched():
            self.hint(_WATCHED)
        elif self.session.state is State.RUNNING and not self.stepping:
            self.session.pause()
            self.hint("stopping at the next call")

    def run_to(self, id_: int | None) -> None:
        """Let the target run to a call, or to its end, also from where it was sent before."""
        if self.stepping or self.can_run():
            self.follow, self.stepping = True, False
            self.owed.clear()
            self.session.go(id_)

    def run_call(self) -> None:
        """Let the target run to the end of its next call, where it can be sent on."""
        if self.stepping:
            self._owe(self.run_call)
        elif self.can_run():
            self.follow = self.stepping = True
            self.session.next()

    def run_line(self, into: bool) -> None:
        """Let the target run one line, where it is at the head and can be sent on."""
        if self.stepping:
            self._owe(functools.partial(self.run_line, into))
        elif self.session.state is State.RUNNING and self.session.live:
            self.action_pause()
        elif self.can_run():
            self.follow = self.stepping = True
            self.session.line(into=into)

    def run_step(self, record: CallRecord) -> None:
        """Let the target run to the first call of the layer's next training step, or a stop."""
        from pertdbg.conditions import Condition

        if self.can_run():
            self._until = Condition(f"batch > {record.batch}", layer=record.layer)
            self.send_stops()
            self.follow = True
            self.session.go()

    def _owe(self, action: Callable[[], None]) -> None:
        """Do something once the target has stopped where it was sent."""
        if len(self.owed) < _OWED:
            self.owed.append(action)

    def send_stops(self) -> None:
        """Say where the target is to stop."""
        until = [] if self._until is None else [self._until]
        self.session.stop_when([*self.stops.on, *until])

    def _hear(self, event: Event) -> None:
        super()._hear(event)
        if self._until is not None and isinstance(event, Stopped):
            self._until = None
            self.send_stops()

    def is_watched(self) -> bool:
        """Say whether the target goes on, but is not ours to command."""
        return not self.session.live and self.session.state in (State.LOADING, State.RUNNING)

    def can_run(self) -> bool:
        """Say whether the target can be sent on, and why not where it can't."""
        state = self.session.state
        if self.is_watched():
            self.hint(_WATCHED)
        elif state is State.REPLAY:
            self.hint("a recording does not run; it has no further call")
        elif state is State.ENDED:
            self.hint(self.session.ended.text if self.session.ended else "the target has ended")
        elif state is State.LOADING:
            self.hint("the target is still loading")
        elif state is State.STOPPED:
            self.interrupted = False
            return True
        return False
