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
from pertdbg.agent.seams.locals import read_locals
from pertdbg.agent.seams.plans import Findings, Plan
from pertdbg.agent.seams.scenes import Scope, form_of, numbers_of, subject_of
from pertdbg.agent.seams.source import source_of

if TYPE_CHECKING:
    from pertdbg.agent.lines.call import CallLines


class Follower:
    """Follows one plan through one run of its function."""

    once = False
    """It follows a single step."""

    def __init__(self, plan: Plan, calls: Calls, findings: Findings) -> None:
        self._plan, self._calls, self._findings = plan, calls, findings
        self._counted: dict[Any, Counted] = {}
        """By the plan or, where its subject is an entry, by that too."""
        self.lines: CallLines | None = None
        """What goes through the lines of the function, where that is wanted."""

    @property
    def names(self) -> list[str]:
        """What the loop is called, once a call of it was seen; each entry has a name of its own."""
        return [counted.name for counted in self._counted.values()]

    def line(self, frame: types.FrameType) -> None:
        """A line is about to run."""
        raise NotImplementedError

    def gradient(self, frame: types.FrameType, backward: Backward) -> bool:
        """A backward pass ended inside the function; says whether it was the subject's."""
        raise NotImplementedError

    def end(self, frame: types.FrameType, error: BaseException | None, value: Any) -> None:
        """The function returns, or an exception leaves it."""
        raise NotImplementedError

    def suspend(self, frame: types.FrameType) -> None:
        """The function is suspended."""

    def resume(self, frame: types.FrameType) -> None:
        """The function goes on."""

    def close(self) -> None:
        """It does not: nobody wants more of it."""

    @property
    def _is_sure(self) -> bool:
        """Whether this is a perturbation: its text says it, or a gradient came at least once."""
        return self._plan.loop.sure or self._plan in self._calls.loops

    def _begin(
        self, frame: types.FrameType, scene: Scene, numbers: Numbers, gradient: Any = None
    ) -> Call:
        module = frame.f_code.co_name == "<module>"
        caller = caller_of(frame if module else frame.f_back)
        known, names = self._known(frame), names_in(frame)
        call = self._calls.begin(known, scene, numbers, caller, gradient, names)
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

    def _known(self, frame: types.FrameType) -> Counted:
        """Give what is counted of the plan; from the first time on it is in the recording."""
        key = self._key(frame)
        if key not in self._counted:
            plan, loops = self._plan, self._calls.loops
            known = loops.get(key)
            if known is None:
                wanted = plan.name if key is plan else f"{plan.name}[{key[1]}]"
                name = self._calls.free_name(wanted)
                known = self._calls.counting(name, source_of(name, plan.code))
                loops[plan] = loops[key] = known
            self._findings.hit(plan.spec.name, known.name)
            self._counted[key] = known
        return self._counted[key]

    def _key(self, frame: types.FrameType) -> Any:
        """Give what is counted by: the plan, or the entry that its subject is just now."""
        index = self._plan.loop.index
        if index is None:
            return self._plan
        entry = self._scope(frame).get(index)
        small = type(entry) is int and -_ENTRIES < entry < _ENTRIES
        named = type(entry) is str and len(entry) < _ENTRIES
        return (self._plan, entry) if small or named else self._plan

    def _scope(self, frame: types.FrameType) -> Scope:
        return read_locals(frame, self._plan.names, traced=True)

    def _numbers(self, scope: Scope) -> Numbers:
        of = subject_of(self._plan, scope)
        spec, guesses = self._plan.spec, self._plan.loop.guesses
        ranges = guesses.ranges if form_of(self._plan) == "image" else ()
        bounds = [bound for bound in guesses.bounds if bound not in ranges]
        loop = self._plan.loop
        return numbers_of(
            spec, scope, bounds, guesses.steps, norms=loop.norms, guards=loop.guards, of=of
        )


_ENTRIES = 64
"""Entries of a longer list are counted as one: they are samples, rather than layers."""


def names_in(frame: types.FrameType) -> Scope:
    """Give all that a function's own names stand for just now."""
    code = frame.f_code
    names = code.co_names if code.co_name == "<module>" else (*code.co_varnames, *code.co_cellvars)
    return read_locals(frame, frozenset(names), traced=True)
