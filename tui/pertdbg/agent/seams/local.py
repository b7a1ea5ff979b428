"""The seam at a function's locals: a loop whose delta lives and dies inside one function."""

from __future__ import annotations

import types
import weakref
from typing import Any

from pertdbg.agent.seams.calls import Call, Calls, Numbers, Scene
from pertdbg.agent.seams.follower import Follower
from pertdbg.agent.seams.gradients import Backward, own_gradient
from pertdbg.agent.seams.locals import read_locals
from pertdbg.agent.seams.places import is_outside
from pertdbg.agent.seams.plans import Findings, Plan
from pertdbg.agent.seams.scenes import Scope, scene_of, subject_of


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
        self._made: set[Any] = set()
        """The deltas that were made since the loop was last left, by what they are counted by."""
        self._entry: dict[str, Any] = {}
        """Which entry of a list the subject is in this pass."""
        self._started = False
        self._first: weakref.ref[Any] | None = None
        self._line = 0
        self._late: int | None = None
        """The line that made delta, where only a gradient is going to show that it is one."""
        self._before: tuple[weakref.ref[Any], int] | None = None
        """The subject's gradient, and its version, when the function was suspended."""

    def line(self, frame: types.FrameType) -> None:
        """A line is about to run: an end or a beginning may lie before it."""
        line, loop = frame.f_lineno, self._plan.loop
        if self._creating is not None and self._is_made(line):
            self._end_creation(frame)
        if line in loop.renewing:
            self._made.clear()
        if loop.in_head(line):
            if not loop.by_gradient:
                self._end_pass(frame)
            if loop.index is None:
                self._ensure_made(frame)
            self._at_head = True
        elif loop.within(line):
            if self._begins(line):
                self._begin_pass(frame)
            if line in loop.writing:
                self._wrote = self._moved = True
        else:
            self._leave_loop(frame)
        if line in loop.creating:
            self._note_creation(frame)

    def _begins(self, line: int) -> bool:
        loop = self._plan.loop
        first = loop.whole and not self._started
        return self._at_head or first or (loop.endless and line == loop.first)

    def end(self, frame: types.FrameType, error: BaseException | None, _: Any) -> None:
        """The function returns, or an exception leaves it."""
        failed = error is not None and frame.f_lineno in self._plan.loop.creating
        if self._creating is not None and failed:
            self._end_creation(frame, error)
        self._leave_loop(frame, error)

    def suspend(self, frame: types.FrameType) -> None:
        """The function is suspended: a pass in which nothing is left to move delta ends here.

        Whether the function is ever resumed is not known, and one that is not says nothing.
        """
        line, loop = frame.f_lineno, self._plan.loop
        moved = self._wrote and (self._moved or self._call is None)
        if self._passing and moved and line > max(loop.writing):
            self._end_pass(frame)
        self._before = self._filled(frame)

    def resume(self, frame: types.FrameType) -> None:
        """The function goes on: who resumes it may have run the backward that it waits for."""
        waits = self._call is None or not self._moved
        now = self._filled(frame) if waits else None
        if now is not None and now != self._before:
            self.gradient(frame, Backward((), (), fills=True), traced=True)

    def _filled(self, frame: types.FrameType) -> tuple[weakref.ref[Any], int] | None:
        """Give what is in the subject's `.grad`, by what tells that it is written to."""
        subject = subject_of(self._plan, self._scope(frame))
        gradient = None if subject is None else own_gradient(subject)
        return None if gradient is None else (weakref.ref(gradient), gradient._version)

    def close(self) -> None:
        """The function is closed where it was suspended: what is under way is no update."""
        self._give_up()
        self._creating, self._at_head = None, False

    def _give_up(self) -> None:
        """Let go of a pass that moved nothing."""
        if self._call is not None:
            self._call.entry = self._call.gradient = None
        self._call, self._passing = None, False

    def gradient(self, frame: types.FrameType, backward: Backward, *, traced: bool = False) -> bool:
        """A backward pass ended inside the function; says whether it was the subject's."""
        if self._plan.loop.by_gradient and (self._call is None or self._moved):
            if self._call is not None:
                self._end_pass(frame)
            self._passing = True
        if not self._passing:
            return False
        scope = read_locals(frame, self._plan.names, traced=traced)
        subject = subject_of(self._plan, scope)
        if subject is None:
            return False
        if self._creating is not None:
            self._end_creation(frame)
        if self._call is None:
            self._enter(scope)
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
        self._known(frame)
        if self._late is not None:
            self._creating, self._late = self._late, None
            self._end_creation(frame)

    def _begin_pass(self, frame: types.FrameType) -> None:
        loop = self._plan.loop
        if not loop.by_gradient:
            self._end_pass(frame)
        self._passing, self._at_head, self._wrote = True, False, False
        self._started, self._moved = True, False
        if not loop.by_gradient:
            self._enter(read_locals(frame, self._plan.names, traced=True))
        if loop.index is None or not any(map(loop.within, loop.creating)):
            self._ensure_made(frame)
        if loop.apart:
            self._begin_apart(frame)

    def _enter(self, scope: Scope) -> None:
        """Note which entry of a list this pass is about."""
        index = self._plan.loop.index
        self._entry = {} if index is None or index not in scope else {index: scope[index]}

    def _begin_apart(self, frame: types.FrameType) -> None:
        """Begin a call with the gradient that is there, as it was taken elsewhere."""
        scope = self._scope(frame)
        subject = subject_of(self._plan, scope)
        there = subject is not None and own_gradient(subject) is not None
        if subject is not None and (there or self._plan.loop.whole) and self._is_sure:
            scene, numbers = self._seen(scope)
            self._call = self._begin(frame, scene, numbers)
            self._line = frame.f_lineno

    def _scope(self, frame: types.FrameType) -> Scope:
        scope = super()._scope(frame)
        return {**scope, **self._entry} if self._passing else scope

    def _is_made(self, line: int) -> bool:
        """Say whether delta is made: its loop begins or, where the loop makes it, it goes on."""
        loop = self._plan.loop
        if self._creating is None or not loop.within(self._creating):
            return loop.in_head(line)
        return line > loop.made_by(self._creating) or loop.in_head(line)

    def _note_creation(self, frame: types.FrameType) -> None:
        if self._plan.loop.index is not None:
            # Its first gradient tells that it is made, and which one it is.
            self._made.discard(self._key(frame))
        elif self._creating is None:
            self._begin_creation(frame)

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
        self._made.add(self._key(frame))
        scene, numbers = self._seen(scope)
        self._end(frame, self._begin(frame, Scene(), numbers), scene, line, error)

    def _ensure_made(self, frame: types.FrameType) -> None:
        """Count a delta that no line here made: an argument, or one that lives outside."""
        loop, key = self._plan.loop, self._key(frame)
        if key in self._made or self._creating is not None or not self._is_sure:
            return
        outside = is_outside(loop.subject, frame.f_code)
        known = self._calls.loops.get(key)
        made_here = loop.creating and loop.index is None
        if made_here or (outside and known is not None and known.batch):
            return
        self._begin_creation(frame)
        self._end_creation(frame)

    def _end_pass(self, frame: types.FrameType, error: BaseException | None = None) -> None:
        if not self._passing:
            return
        if self._plan.loop.apart and not self._wrote and error is None:
            self._give_up()
            return
        scope = self._scope(frame)
        call, self._call = self._call, None
        scene, numbers = self._seen(scope)
        line = frame.f_lineno if call is None else self._line
        if call is None and scene.roles.delta is not None and self._is_sure:
            call = self._begin(frame, scene, numbers)
        self._passing = False
        if call is not None:
            self._end(frame, call, scene, line, error)

    def _leave_loop(self, frame: types.FrameType, error: BaseException | None = None) -> None:
        idle = self._call is None and not self._wrote and error is None
        if self._passing and not idle:
            self._end_pass(frame, error)
        if self._passing or self._at_head:
            self._late = None
            if self._plan.loop.index is None:
                self._made.clear()
        self._passing = self._at_head = False

    def _seen(self, scope: Scope) -> tuple[Scene, Numbers]:
        numbers = self._numbers(scope)
        return scene_of(self._plan, scope, numbers, self._first), numbers
