"""Being told of the lines of one call, beside whatever else traces the target."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any, Protocol

from pertdbg.agent.lines.frames import called_name, hide, is_called, is_entered, is_ours
from pertdbg.agent.lines.scope import release

if TYPE_CHECKING:
    from pertdbg.agent.lines.lines import Lines


class Tracer(Protocol):
    """A way of being told."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


class BySettrace:
    """Through `sys.settrace`; a tracer that was there before is told of everything as before.

    Frames of ours are shown to none.
    """

    def __init__(self, lines: Lines, code: types.CodeType | None) -> None:
        """Prepare.

        Args:
            lines: Is told.
            code: The function to go through, at its next call; None where somebody else tells of
                its lines.
        """
        self._lines, self._code = lines, code
        self._theirs: Any = None

    def start(self) -> None:
        """Begin to trace this thread."""
        self._theirs = sys.gettrace()
        sys.settrace(self._called)

    def stop(self) -> None:
        """Put back what was there, unless somebody else has taken our place."""
        if sys.gettrace() == self._called:
            sys.settrace(self._theirs)
        self._theirs = self._code = None

    def forward(self, trace: Any, frame: types.FrameType, event: str, arg: Any) -> Any:
        """Tell the other tracer; gives its local trace function.

        It may put itself, another or none in our place meanwhile: that is what it wants to have
        behind us. One of ours that stands there goes through a function inside this one.
        """
        if trace is None:
            return None
        before = sys.gettrace()
        local = trace(frame, event, arg)
        now = sys.gettrace()
        if not _is_of_ours(now):
            self._theirs = now
            sys.settrace(before if _is_of_ours(before) else self._called)
        return local

    def _called(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        code, lines = frame.f_code, self._lines
        if is_ours(code):
            return None
        theirs = self.forward(self._theirs, frame, event, arg)
        if not lines.watching:
            if code is self._code:
                lines.enter(frame)
                return _Following(self, lines, theirs)
            return theirs
        if is_entered(frame, lines):
            lines.into = False
            lines.enter(frame)
            return _Following(self, lines, theirs)
        if is_called(frame, lines):
            lines.called(frame, called_name)
            frame.f_trace_lines = theirs is not None
            return _Over(self, lines, theirs)
        return theirs


def _is_of_ours(trace: Any) -> bool:
    return isinstance(getattr(trace, "__self__", None), BySettrace)


class _Over:
    """Local trace function of a function that is stepped over."""

    __slots__ = ("_lines", "_theirs", "_tracer")

    def __init__(self, tracer: BySettrace, lines: Lines, theirs: Any) -> None:
        self._tracer, self._lines, self._theirs = tracer, lines, theirs

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        self._theirs = self._tracer.forward(self._theirs, frame, event, arg)
        if event == "return":
            self._lines.returned(frame)
        return self


class _Following:
    """Local trace function of a function that is gone through; each line gets a new one.

    Before Python 3.13, each event leaves a copy of the locals with the frame. The trace function of
    the last event is let go right after it, when nothing is read from that copy any more, and
    takes the tensors out of it: else they would live on until the next line.
    """

    __slots__ = ("_depth", "_lines", "_spent", "_theirs", "_tracer")

    def __init__(self, tracer: BySettrace, lines: Lines, theirs: Any) -> None:
        self._tracer, self._lines, self._theirs = tracer, lines, theirs
        self._depth = lines.depth
        self._spent = False

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        lines = self._lines
        if event == "exception":
            hide(arg[2], lines.mode.extra)
            if not issubclass(arg[0], StopIteration):
                lines.raising(arg[0].__name__)
        elif lines.frame is frame and event == "line":
            lines.line(frame)
        elif lines.frame is frame and event == "return":
            lines.leave()
        theirs = self._tracer.forward(self._theirs, frame, event, arg)
        if event == "return":
            return self
        after = _Following(self._tracer, lines, theirs)
        self._spent = frame.f_trace is self
        return after

    def __del__(self) -> None:
        frame = self._lines.frame
        if self._spent and frame is not None and self._lines.depth == self._depth:
            release(frame)


def tracer(lines: Lines, code: types.CodeType | None) -> Tracer:
    """Give the way that this Python offers, and that goes with who traces this thread already."""
    if sys.version_info >= (3, 12) and sys.gettrace() is None:
        from pertdbg.agent.lines.monitor import ByMonitoring

        return ByMonitoring(lines, code)
    return BySettrace(lines, code)
