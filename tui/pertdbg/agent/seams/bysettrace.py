"""Being told of functions through `sys.settrace`, before Python 3.12."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from opcode import opmap
from typing import Any

from pertdbg.agent import aside
from pertdbg.agent.seams.tracing import (
    Active,
    Choose,
    Chosen,
    Tracing,
    Waiting,
    is_generator,
    tell_end,
    tell_line,
)

_YIELDS, _RETURNS = bytes([opmap["YIELD_VALUE"]]), bytes([opmap["RETURN_VALUE"]])
_WAITS = bytes([opmap["YIELD_FROM"]]) if "YIELD_FROM" in opmap else None
"""The instruction that waits for another generator, where Python has one for that (3.10)."""


def _stands_at(frame: types.FrameType) -> str:
    """Say what kind of instruction a frame stands at: `yield`, `return`, or another."""
    code, at = frame.f_code.co_code, frame.f_lasti
    # Python 3.10 stands right before the instruction that waits for another generator.
    if code[at : at + 1] == _YIELDS or code[at + 2 : at + 3] == _WAITS:
        return "yield"
    return "return" if code[at : at + 1] == _RETURNS else ""


class BySettrace(Tracing):
    """Through `sys.settrace`, on the thread that installs it."""

    def __init__(self, choose: Choose) -> None:
        super().__init__(choose)
        self._known: dict[int, tuple[types.CodeType, Chosen | None]] = {}

    def install(self) -> str | None:
        """Begin, if nobody else traces this thread."""
        if sys.gettrace() is not None:
            return "another debugger or a coverage tool traces this thread"
        sys.settrace(self._called)
        return None

    def remove(self) -> None:
        """Stop."""
        if sys.gettrace() == self._called:
            sys.settrace(None)
        super().remove()

    def _join(self, frame: types.FrameType, _: Chosen, active: Active) -> None:
        if sys.gettrace() == self._called and frame.f_trace is None:
            frame.f_trace_lines = active.by_line
            frame.f_trace = self._following(active)

    def _leave(self, frame: types.FrameType) -> None:
        if getattr(frame.f_trace, "__module__", None) == __name__:
            del frame.f_trace
            frame.f_trace_lines = True

    @aside.entered
    def _called(self, frame: types.FrameType, event: str, _: Any) -> Any:
        if event != "call":
            return None
        before = frame.f_trace
        if type(before) is _Follower and before.resume(frame):
            return before
        try:
            known = self._known.get(id(frame.f_code))
            if known is None:
                known = self._known[id(frame.f_code)] = (frame.f_code, self._chosen(frame))
            if known[1] is None:
                return None
            active = self._begin(known[1], frame)
            if active is None:
                return None
            frame.f_trace_lines = active.by_line
            return self._following(active)
        except RecursionError:  # the target is at its depth's end, and meets its own a call later
            return None

    def _following(self, active: Active) -> Callable[..., Any]:
        return _Follower(active, self)


class _Follower:
    """Is told by Python of what happens in one running call, and tells on."""

    __slots__ = ("_active", "_line", "_raised", "_thrown", "_tracing")

    def __init__(self, active: Active, tracing: Tracing) -> None:
        self._active, self._tracing = active, tracing
        self._raised: BaseException | None = None
        self._thrown = False
        """It was raised at a `yield`, by who resumed the function."""
        self._line = 0
        """The last line that began since."""

    def resume(self, frame: types.FrameType) -> bool:
        """Go on with a call that was suspended; says whether this is one."""
        active = self._active
        if not isinstance(active, Waiting) or active not in self._tracing.waiting:
            return False
        self._tracing.resumed(frame, active)
        return True

    @aside.entered
    def __call__(self, frame: types.FrameType, event: str, value: Any) -> Any:
        if event == "line":
            self._line = frame.f_lineno
            if not is_generator(frame.f_code):
                self._raised = None
            tell_line(self._active, frame)
        elif event == "exception" and not isinstance(value[1], _ENDS):
            self._raised, self._line = value[1], 0
            self._thrown = is_generator(frame.f_code) and _stands_at(frame) == "yield"
        elif event == "return":
            waits, error = self._left(frame, value)
            if waits and isinstance(self._active, Waiting):
                self._tracing.suspended(frame, self._active)
            else:
                self._tracing.active.pop(id(frame), None)
                tell_end(self._active, frame, value, error)
        return self

    def _left(self, frame: types.FrameType, value: Any) -> tuple[bool, BaseException | None]:
        """Say whether a function that is left is suspended, and which exception leaves it.

        An exception that passes a `with` or a `finally` on its way leaves no other trace than where
        the frame stands: where it was raised. That may be a `yield`, but not the last line that
        began then.
        """
        error, self._raised = self._raised, None
        if value is not None:
            return is_generator(frame.f_code) and _stands_at(frame) == "yield", None
        if not is_generator(frame.f_code):
            return False, error
        stands = _stands_at(frame)
        thrown = error is not None and self._thrown and self._line != frame.f_lineno
        if stands == "return" or (stands == "yield" and not thrown):
            return stands == "yield", None
        return False, error


_ENDS = (StopIteration, StopAsyncIteration)
"""What another generator raises at its end is no error of the function that asked it."""
