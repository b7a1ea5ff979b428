"""The seam at an attack of one step, which binds the moved subject to another name."""

from __future__ import annotations

import types
from typing import Any

from pertdbg.agent.base import shape_of
from pertdbg.agent.probe import Roles
from pertdbg.agent.seams.calls import Call, Calls, Scene
from pertdbg.agent.seams.follower import Follower
from pertdbg.agent.seams.gradients import Backward
from pertdbg.agent.seams.locals import read_locals
from pertdbg.agent.seams.plans import Findings, Plan
from pertdbg.agent.seams.rebinds import RETURNED, Rebound
from pertdbg.agent.seams.scenes import Scope, first_tensor, image_scene, subject_of
from pertdbg.agent.tensors import is_tensor


class OneStep(Follower):
    """Follows the one step of a function through one run of it.

    The step begins when the subject's gradient is there, and ends when the last line that binds
    the moved one has run. A gradient that nothing is bound of leaves no record.
    """

    once = True

    def __init__(self, plan: Plan, rebound: Rebound, calls: Calls, findings: Findings) -> None:
        super().__init__(plan, calls, findings)
        self._rebound = rebound
        self._subject: Any = None
        self._call: Call | None = None
        self._line = 0
        self._binds = False
        """A line that binds the moved subject has begun."""

    def line(self, frame: types.FrameType) -> None:
        """A line is about to run."""
        if self._call is None:
            return
        line, lines = frame.f_lineno, self._rebound.lines
        if line in lines:
            self._binds = True
        elif not self._plan.loop.within(line) or (self._binds and line < min(lines)):
            self._finish(frame, None)

    def gradient(self, frame: types.FrameType, backward: Backward) -> bool:
        """A backward pass ended inside the function; says whether it was the subject's."""
        line = frame.f_lineno
        if not self._plan.loop.within(line) or self._binds:
            return False
        scope = read_locals(frame, self._plan.names)
        subject = subject_of(self._plan, scope)
        if subject is None:
            return False
        loop = self._plan.loop
        found = backward.gradient_of(subject, self._plan.spec.leaf, inside=loop.inside)
        if found is None:
            return False
        self._give_up()
        numbers = self._numbers(scope)
        if self._rebound.is_delta:
            scene = self._delta(subject, scope)
            made = self._begin(frame, Scene(), numbers)  # it is there before its step
            self._end(frame, made, scene, line)
        else:
            scene = Scene(Roles(None, subject, None))
        self._subject, self._line = subject, line
        self._call = self._begin(frame, scene, numbers, found)
        self._binds = line in self._rebound.lines
        return True

    def end(self, frame: types.FrameType, error: BaseException | None, value: Any) -> None:
        """The function returns, or an exception leaves it."""
        if self._call is not None:
            self._finish(frame, value, error)

    def _delta(self, delta: Any, scope: Scope) -> Scene:
        return Scene(Roles(delta, first_tensor(self._plan.loop.guesses.added_to, scope, delta)))

    def _finish(
        self, frame: types.FrameType, value: Any, error: BaseException | None = None
    ) -> None:
        """Record what the subject was moved to, if it was."""
        call, subject, scope = self._call, self._subject, self._scope(frame)
        name = self._rebound.name
        moved = value if name == RETURNED else first_tensor([name], scope)
        if call is None or not self._binds or (error is None and not _is_moved(moved, subject)):
            self._give_up()
            return
        self._call = self._subject = None
        self._binds = False
        scene = Scene()
        if error is None and self._rebound.is_delta:
            scene = self._delta(moved, scope)
        elif error is None:
            scene = image_scene(moved, subject, call.numbers.bound)
        self._end(frame, call, scene, self._line, error)

    def _give_up(self) -> None:
        """Let go of a gradient that nothing came of."""
        if self._call is not None:
            self._call.entry = self._call.gradient = None
        self._call = self._subject = None
        self._binds = False


def _is_moved(moved: Any, subject: Any) -> bool:
    return is_tensor(moved) and moved is not subject and shape_of(moved) == shape_of(subject)
