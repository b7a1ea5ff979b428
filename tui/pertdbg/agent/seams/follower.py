"""What follows one plan through one run of a function: its locals, its name, its calls."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from pertdbg.agent.seams.calls import (
    Call,
    Calls,
    Counted,
    Numbers,
    Outcome,
    Scene,
    caller_of,
)
from pertdbg.agent.seams.gradients import Backward
from pertdbg.agent.seams.plans import Findings, Plan
from pertdbg.agent.seams.scenes import Scope, form_of, numbers_of
from pertdbg.agent.seams.source import source_of
from pertdbg.agent.seams.tracing import read_locals

if TYPE_CHECKING:
    from pertdbg.agent.lines.call import CallLines


class Follower:
    """Follows one plan through one run of its function."""

    once = False
    """It follows a single step."""

    def __init__(self, plan: Plan, calls: Calls, findings: Findings) -> None:
        self._plan, self._calls, self._findings = plan, calls, findings
        self._counted: Counted | None = None
        self.lines: CallLines | None = None
        """What goes through the lines of the function, where that is wanted."""

    @property
    def name(self) -> str | None:
        """What the loop is called, once a call of it was seen."""
        return None if self._counted is None else self._counted.name

    def line(self, frame: types.FrameType) -> None:
        """A line is about to run."""
        raise NotImplementedError

    def gradient(self, frame: types.FrameType, backward: Backward) -> bool:
        """A backward pass ended inside the function; says whether it was the subject's."""
        raise NotImplementedError

    def end(self, frame: types.FrameType, error: BaseException | None, value: Any) -> None:
        """The function returns, or an exception leaves it."""
        raise NotImplementedError

    @property
    def _is_sure(self) -> bool:
        """Whether this is a perturbation: its text says it, or a gradient came at least once."""
        return self._plan.loop.sure or self._plan in self._calls.loops

    def _begin(
        self, frame: types.FrameType, scene: Scene, numbers: Numbers, gradient: Any = None
    ) -> Call:
        module = frame.f_code.co_name == "<module>"
        caller = caller_of(frame if module else frame.f_back)
        call = self._calls.begin(self._known(), scene, numbers, caller, gradient, names_in(frame))
        call.lines = self.lines
        if self.lines is not None:
            self.lines.begin(call.entry)
        return call

    def _end(
        self,
        frame: types.FrameType,
        call: Call,
        scene: Scene,
        line: int | None,
        error: BaseException | None = None,
    ) -> None:
        """Record a call that stands for a line, and how it ended."""
        raised = None if error is None else frame.f_lineno
        self._calls.finish(call, scene, Outcome(None, error, raised, line), names_in(frame))

    def _known(self) -> Counted:
        """Give what is counted of the plan; from the first time on it is in the recording."""
        if self._counted is None:
            plan = self._plan
            known = self._calls.loops.get(plan)
            if known is None:
                name = self._calls.free_name(plan.name)
                known = self._calls.counting(name, source_of(name, plan.code))
                self._calls.loops[plan] = known
            self._findings.hit(plan.spec.name, known.name)
            self._counted = known
        return self._counted

    def _scope(self, frame: types.FrameType) -> Scope:
        return read_locals(frame, self._plan.names, traced=True)

    def _numbers(self, scope: Scope) -> Numbers:
        spec, guesses = self._plan.spec, self._plan.loop.guesses
        ranges = guesses.ranges if form_of(self._plan) == "image" else ()
        bounds = [bound for bound in guesses.bounds if bound not in ranges]
        return numbers_of(spec, scope, bounds, guesses.steps)


def names_in(frame: types.FrameType) -> Scope:
    """Give all that a function's own names stand for just now."""
    code = frame.f_code
    names = code.co_names if code.co_name == "<module>" else (*code.co_varnames, *code.co_cellvars)
    return read_locals(frame, frozenset(names), traced=True)
