"""Being told of the lines of one call through `sys.monitoring` (Python 3.12 and later).

Whatever traces the target in another way goes on undisturbed.
"""

from __future__ import annotations

import sys
import threading
import types
from typing import TYPE_CHECKING, Any

from pertdbg.agent.lines.frames import called_name, hide, is_called, is_entered

if TYPE_CHECKING:
    from pertdbg.agent.lines.lines import Lines

_PLACES = (3, 4, 5, 1, 0)
"""Numbers of tools, in the order in which they are tried."""


class ByMonitoring:
    """Line events of the functions that are gone through; calls and ends of all that they call.

    The events of others are told to us as well while a call is under way, on every thread: they
    are passed over.
    """

    def __init__(self, lines: Lines, code: types.CodeType | None) -> None:
        """Prepare.

        Args:
            lines: Is told.
            code: The function to go through, at its next call; None where somebody else tells of
                its lines.
        """
        self._lines, self._code = lines, code
        self._thread = threading.get_ident()
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool: int | None = None
        self._followed: set[types.CodeType] = set()
        self._over: set[int] = set()
        """Identities of frames that are being stepped over."""

    def start(self) -> None:
        """Begin, if one of the places for tools is free."""
        on = self._monitoring
        self._tool = next((tool for tool in _PLACES if on.get_tool(tool) is None), None)
        if self._tool is None:
            return
        self._lines.untraced = True
        on.use_tool_id(self._tool, "pertdbg lines")
        for event, callback in self._callbacks():
            on.register_callback(self._tool, event, callback)
        events = on.events
        begins = events.PY_START | events.PY_RESUME | events.PY_THROW
        ends = events.PY_RETURN | events.PY_YIELD | events.PY_UNWIND
        on.set_events(self._tool, begins | ends)

    def stop(self) -> None:
        """End."""
        tool, self._tool = self._tool, None
        if tool is None:
            return
        on = self._monitoring
        on.set_events(tool, 0)
        for code in self._followed:
            on.set_local_events(tool, code, 0)
        for event, _ in self._callbacks():
            on.register_callback(tool, event, None)
        on.free_tool_id(tool)
        self._followed.clear()

    def _callbacks(self) -> tuple[tuple[int, Any], ...]:
        events = self._monitoring.events
        return (
            (events.PY_START, self._started),
            (events.PY_RESUME, self._started),  # a generator runs from one yield to the next
            (events.PY_THROW, self._thrown),
            (events.LINE, self._line),
            (events.PY_RETURN, self._returned),
            (events.PY_YIELD, self._returned),
            (events.PY_UNWIND, self._unwound),
            (events.EXCEPTION_HANDLED, self._handled),
        )

    def _elsewhere(self) -> bool:
        return threading.get_ident() != self._thread

    def _started(self, code: types.CodeType, _: int) -> None:
        self._begun(code, sys._getframe(1))

    def _thrown(self, code: types.CodeType, _: int, __: BaseException) -> None:
        self._begun(code, sys._getframe(1))

    def _begun(self, code: types.CodeType, frame: types.FrameType) -> None:
        if self._elsewhere():
            return
        lines = self._lines
        if not lines.watching:
            if code is self._code:
                self._follow(frame)
        elif is_entered(frame, lines):
            lines.into = False
            self._follow(frame)
        elif is_called(frame, lines):
            self._over.add(id(frame))
            lines.called(frame, called_name)

    def _follow(self, frame: types.FrameType) -> None:
        code, events = frame.f_code, self._monitoring.events
        if code not in self._followed:
            self._followed.add(code)
            self._monitoring.set_local_events(self._tool, code, events.LINE)
            on = self._monitoring
            on.set_events(self._tool, on.get_events(self._tool) | events.EXCEPTION_HANDLED)
        self._lines.enter(frame)

    def _line(self, code: types.CodeType, _: int) -> None:
        if code not in self._followed or self._elsewhere():
            return
        frame = sys._getframe(1)
        if self._lines.frame is frame:
            self._lines.line(frame)

    def _handled(self, code: types.CodeType, _: int, error: BaseException) -> None:
        """An exception is caught by a function that is gone through: tidy its traceback."""
        if code in self._followed and not self._elsewhere():
            hide(error.__traceback__, self._lines.mode.extra)
            if self._lines.frame is sys._getframe(1) and not isinstance(error, StopIteration):
                self._lines.raising(type(error).__name__)

    def _returned(self, _: types.CodeType, __: int, ___: Any) -> None:
        self._ended(sys._getframe(1), None)

    def _unwound(self, _: types.CodeType, __: int, error: BaseException) -> None:
        self._ended(sys._getframe(1), error)

    def _ended(self, frame: types.FrameType, error: BaseException | None) -> None:
        if self._elsewhere():
            return
        if id(frame) in self._over:
            self._over.discard(id(frame))
            self._lines.returned(frame)
        elif self._code_is_followed(frame):
            self._lines.leave(None if error is None else type(error).__name__)

    def _code_is_followed(self, frame: types.FrameType) -> bool:
        return frame.f_code in self._followed and self._lines.frame is frame
