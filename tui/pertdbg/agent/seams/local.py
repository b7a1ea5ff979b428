"""The seam at a function's locals: a loop whose delta lives and dies inside one function."""

from __future__ import annotations

import types
import weakref
from typing import Any

from pertdbg.agent.seams.calls import Call, Calls, Numbers, Scene
from pertdbg.agent.seams.follower import Follower
from pertdbg.agent.seams.gradients import Backward, own_gradient
from pertdbg.agent.seams.places import is_outside
from pertdbg.agent.seams.plans import Findings, Plan
from pertdbg.agent.seams.scenes import Scope, scene_of, subject_of
from pertdbg.agent.seams.tracing import read_locals


class Tracker(Follower):
    """Follows one loop through one run of its function.

    Making delta is one call, and each pass of the loop another. A pass begins for us when its
    gradient is there, before anything clears it, and ends when the next pass begins or the loop
    is left.
    """

    def __init__(self, plan: Plan, calls: Calls, findings: Findings) -> None:
        super().__init__(plan, calls, findings)
        self._creating: int | None = None
        """The first line that makes delta, while these lines run."""
        self._call: Call | None = None
        """The call of this pass, once its gradient was seen."""
        self._passing = self._at_head = False
        self._wrote = False
        """A line that moves delta ran in this pass."""
        self._moved = False
        """One ran since the gradient was seen."""
        self._made = False
        """Delta was made since the loop was last left."""
        self._first: weakref.ref[Any] | None = None
        self._line = 0
        self._late: int | None = None
        """The line that made delta, where only a gradient is going to show that it is one."""

    def line(self, frame: types.FrameType) -> None:
        """A line is about to run: an end or a beginning may lie before it."""
        line, loop = frame.f_lineno, self._plan.loop
        if self._creating is not None and self._is_made(line):
            self._end_creation(frame)
        if loop.in_head(line):
            if not loop.by_gradient:
                self._end_pass(frame)
            self._ensure_made(frame)
            self._at_head = True
        elif loop.within(line):
            if self._at_head or (loop.endless and line == loop.first):
                self._begin_pass(frame)
            if line in loop.writing:
                self._wrote = self._moved = True
        else:
            self._leave_loop(frame)
        if line in loop.creating and self._creating is None:
            self._begin_creation(frame)

    def end(self, frame: types.FrameType, error: BaseException | None, _: Any) -> None:
        """The function returns, or an exception leaves it."""
        failed = error is not None and frame.f_lineno in self._plan.loop.creating
        if self._creating is not None and failed:
            self._end_creation(frame, error)
        self._leave_loop(frame, error)

    def gradient(self, frame: types.FrameType, backward: Backward) -> bool:
        """A backward pass ended inside the function; says whether it was the subject's."""
        if self._plan.loop.by_gradient and (self._call is None or self._moved):
            if self._call is not None:
                self._end_pass(frame)
            self._passing = True
        if not self._passing:
            return False
        scope = read_locals(frame, self._plan.names)
        subject = subject_of(self._plan, scope)
        if subject is None:
            return False
        if self._creating is not None:
            self._end_creation(frame)
        loop = self._plan.loop
        found = backward.gradient_of(subject, self._plan.spec.leaf, inside=loop.inside)
        if not self._is_sure:
            if found is None:
                return False
            self._shown(frame)
        self._ensure_made(frame)
        if self._call is not None and (found is None or self._moved):
            return found is not None
        scene, numbers = self._seen(scope)
        given = None if found is own_gradient(subject) else found
        self._call = self._begin(frame, scene, numbers, given)
        self._line, self._moved = frame.f_lineno, False
        return found is not None

    def _shown(self, frame: types.FrameType) -> None:
        """A gradient has come: it is a perturbation that the function moves."""
        self._known()
        if self._late is not None:
            self._creating, self._late = self._late, None
            self._end_creation(frame)

    def _begin_pass(self, frame: types.FrameType) -> None:
        if not self._plan.loop.by_gradient:
            self._end_pass(frame)
        self._ensure_made(frame)
        self._passing, self._at_head, self._wrote = True, False, False

    def _is_made(self, line: int) -> bool:
        """Say whether delta is made: its loop begins or, where the loop makes it, it goes on."""
        loop = self._plan.loop
        if self._creating is None or not loop.within(self._creating):
            return loop.in_head(line)
        return line > loop.made_by(self._creating) or loop.in_head(line)

    def _begin_creation(self, frame: types.FrameType) -> None:
        if self._call is not None:
            self._end_pass(frame)
            self._passing = True
        self._creating = frame.f_lineno

    def _end_creation(self, frame: types.FrameType, error: BaseException | None = None) -> None:
        line, self._creating = self._creating, None
        scope = self._scope(frame)
        subject = subject_of(self._plan, scope)
        if subject is None and error is None:
            return
        self._first = None if subject is None else weakref.ref(subject)
        if not self._is_sure:
            self._late = line
            return
        self._made = True
        scene, numbers = self._seen(scope)
        self._end(frame, self._begin(frame, Scene(), numbers), scene, line, error)

    def _ensure_made(self, frame: types.FrameType) -> None:
        """Count a delta that no line here made: an argument, or one that lives outside."""
        if self._made or self._creating is not None or not self._is_sure:
            return
        outside = is_outside(self._plan.loop.subject, frame.f_code)
        known = self._calls.loops.get(self._plan)
        if self._plan.loop.creating or (outside and known is not None and known.batch):
            return
        self._begin_creation(frame)
        self._end_creation(frame)

    def _end_pass(self, frame: types.FrameType, error: BaseException | None = None) -> None:
        if not self._passing:
            return
        self._passing = False
        call, self._call = self._call, None
        scope = self._scope(frame)
        scene, numbers = self._seen(scope)
        if call is None and (scene.roles.delta is None or not self._is_sure):
            return
        line = frame.f_lineno if call is None else self._line
        if call is None:
            call = self._begin(frame, scene, numbers)
        self._end(frame, call, scene, line, error)

    def _leave_loop(self, frame: types.FrameType, error: BaseException | None = None) -> None:
        idle = self._call is None and not self._wrote and error is None
        if self._passing and not idle:
            self._end_pass(frame, error)
        if self._passing or self._at_head:
            self._made, self._late = False, None
        self._passing = self._at_head = False

    def _seen(self, scope: Scope) -> tuple[Scene, Numbers]:
        numbers = self._numbers(scope)
        return scene_of(self._plan, scope, numbers, self._first), numbers
