"""Calls of functions that are followed; torch need not be there yet when they begin."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pertdbg.agent.seams.hand import modules_at_hand
from pertdbg.agent.seams.plans import Plan
from pertdbg.agent.seams.spec import Spec
from pertdbg.agent.seams.tracing import Active, is_generator

if TYPE_CHECKING:
    from pertdbg.agent.lines.call import CallLines
    from pertdbg.agent.seams.calls import Calls
    from pertdbg.agent.seams.follower import Follower
    from pertdbg.agent.seams.gradients import Backward
    from pertdbg.agent.seams.live import Live

GetLive = Callable[[], "Live | None"]
"""Gives what observes, once torch is there."""


class Loops:
    """One running call of a function that has loops to follow."""

    by_line = True

    def __init__(self, plans: tuple[Plan, ...], live: GetLive, *, lined: bool) -> None:
        self._plans, self._live = plans, live
        self._trackers: list[Follower] = []
        self._lined = lined
        """Its lines are gone through where that is wanted."""
        self._made = self._entered = False
        self._inside: CallLines | None = None
        """What goes through the lines of the function, where that is wanted."""

    def line(self, frame: types.FrameType) -> None:
        """A line is about to run."""
        live = self._ready()
        if live is not None:
            if not self._entered:
                self._entered = True
                live.calls.run.flow.safely(live.calls.run.flow.entered, modules_at_hand(frame))
            with live.calls.guarded("following a loop"):
                if self._inside is not None:
                    self._inside.lines.finish_line()
                for tracker in self._trackers:
                    tracker.line(frame)
                if self._lined:
                    self._go_inside(live.calls, frame)

    def suspend(self, frame: types.FrameType) -> None:
        """The function is suspended, and what is under way in it with it."""
        live = self._ready()
        if live is not None:
            with live.calls.guarded("following a loop"):
                for tracker in self._trackers:
                    tracker.suspend(frame)

    def resume(self, frame: types.FrameType) -> None:
        """The function goes on."""
        live = self._ready()
        if live is not None:
            with live.calls.guarded("following a loop"):
                for tracker in self._trackers:
                    tracker.resume(frame)

    def forget(self) -> None:
        """Follow it no further."""
        self._made, self._trackers = True, []
        self._come_out()

    def end(self, frame: types.FrameType, value: Any, error: BaseException | None) -> None:
        """The function ends."""
        live = self._ready()
        if live is not None:
            with live.calls.guarded("following a loop"):
                if self._inside is not None:
                    self._inside.lines.leave(None if error is None else type(error).__name__)
                    self._inside.stop(error)
                for tracker in self._trackers:
                    if isinstance(error, GeneratorExit):
                        tracker.close()
                    else:
                        tracker.end(frame, error, value)
            names = [name for tracker in self._trackers for name in tracker.names]
            live.calls.run.flow.safely(live.calls.run.flow.left, names)
        self._trackers = []
        self._come_out()

    def gradient(self, frame: types.FrameType, backward: Backward, *, once: bool) -> bool:
        """A backward pass ended inside; says whether one of the loops was waiting for it.

        Args:
            frame: The function's.
            backward: The pass.
            once: Tell those that follow a single step, else those that follow a loop.
        """
        told = [tracker for tracker in self._trackers if tracker.once is once]
        claimed = [tracker.gradient(frame, backward) for tracker in told]
        return any(claimed)

    def _go_inside(self, calls: Calls, frame: types.FrameType) -> None:
        """Begin, end or go on going through the lines, as it is wanted now."""
        if self._inside is not None and not calls.run.wants_lines():
            self._come_out()
        elif self._inside is None:
            self._inside = calls.lines()
            for tracker in self._trackers:
                tracker.lines = self._inside
            if self._inside is not None:
                self._inside.start(frame=frame)
        if self._inside is not None:
            self._inside.lines.pause()
            self._inside.lines.resume(frame)

    def _come_out(self) -> None:
        inside, self._inside = self._inside, None
        for tracker in self._trackers:
            tracker.lines = None
        if inside is not None:
            inside.close()

    def _ready(self) -> Live | None:
        live = self._live()
        if live is None or not live.calls.run.recording:
            return None
        if not self._made:
            self._made, self._trackers = True, live.trackers(self._plans)
        return live


class FollowsLoops:
    """A function whose loops are followed."""

    def __init__(self, plans: tuple[Plan, ...], live: GetLive) -> None:
        self._plans, self._live = plans, live

    def begin(self, frame: types.FrameType) -> Active | None:
        """Follow each call, but none inside a method that is observed itself."""
        live = self._live()
        if live is not None and not live.calls.open:
            return None
        # What goes through lines is in the way of other code, which runs while this is suspended.
        return Loops(self._plans, self._live, lined=not is_generator(frame.f_code))


class FollowsWeights:
    """A method that may move weights."""

    def __init__(self, specs: list[Spec], live: GetLive) -> None:
        self._specs, self._live = specs, live

    def begin(self, frame: types.FrameType) -> Active | None:
        """Follow the call if the object has the shape."""
        live = self._live()
        return None if live is None else live.attack(self._specs, frame)
