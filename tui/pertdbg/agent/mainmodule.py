"""How the script's main module ended, which Python tells nobody that runs inside of it.

At exit `sys.last_value` shows an exception that was printed, but not a `SystemExit`: that one is
known only while it leaves the module's frame. Until Python 3.11 a trace function on that frame
alone hears of it, from 3.12 on `sys.monitoring` does.
"""

from __future__ import annotations

import dis
import signal
import sys
import types
from collections.abc import Callable
from typing import Any

Status = tuple[int | None, str]
"""An exit status, None where it is not known, and the last words."""

_RETURN = dis.opmap["RETURN_VALUE"]
_TOOL = 3
"""Place among the tools of `sys.monitoring`; 0, 1, 2 and 5 are meant for other kinds of tools."""

Trace = Callable[[types.FrameType, Any, Any], Any]
Raises = Callable[[BaseException | None, types.TracebackType | None], None]


def status_of(error: BaseException) -> tuple[int, str]:
    """Give the exit status that Python gives to an exception, and its last words."""
    if isinstance(error, SystemExit):
        return _status_of_exit(error)
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT, "KeyboardInterrupt"
    try:
        return 1, f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a `__str__` of the target's may do anything
        return 1, f"{type(error).__name__}: <exception str() failed>"


def _status_of_exit(stop: SystemExit) -> tuple[int, str]:
    code: object = stop.code
    if code is None:
        return 0, ""
    if isinstance(code, int):
        return code & 0xFF, ""
    return 1, code if isinstance(code, str) else type(code).__name__


class MainModule:
    """Hears of the beginning and the end of the main module; holds no frame and no exception."""

    def __init__(self, raised: Raises = lambda *_: None) -> None:
        """Prepare; nothing is changed before `install`.

        Args:
            raised: Is told of the exception that leaves the module, or is about to, with its
                traceback, and of None when the module ends well after all. It must not raise.
        """
        self.started = False
        self._raised = raised
        self._told = False
        self._exit: Status | None = None
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._code: types.CodeType | None = None

    def install(self) -> None:
        """Begin to listen, before the module runs."""
        if self._monitoring is not None:
            self._monitor()
            return
        inner: Trace | None = sys.gettrace()
        owner = getattr(inner, "__module__", None) or type(inner).__module__
        if inner is None or owner.startswith("pertdbg."):
            sys.settrace(lambda frame, event, value: self._called(inner, frame, event, value))

    def outcome(self) -> Status:
        """Say how the module ended, when it has."""
        if self._exit is not None:
            return self._exit
        # Where a `RecursionError` has put an end to tracing, this alone tells.
        error: BaseException | None = getattr(sys, "last_value", None)
        if error is not None:
            self._tell(error, error.__traceback__)
            return status_of(error)
        if not self.started:
            return 1, ""  # Python could not load it, and has said why
        return None, ""

    def _tell(self, error: BaseException, trace: types.TracebackType | None) -> None:
        """Tell of an exception that ends the module, before Python waits for its threads.

        A rank whose collectives hang at its end is killed there, and would tell no more.
        """
        if not self._told and not isinstance(error, SystemExit):
            self._told = True
            self._raised(error, trace)

    def _is_main(self, frame: types.FrameType) -> bool:
        if frame.f_code.co_name != "<module>":
            return False
        main = sys.modules.get("__main__")
        return main is not None and frame.f_globals is main.__dict__

    def _left_by(self, error: BaseException) -> None:
        self._exit = status_of(error) if isinstance(error, SystemExit) else None

    def _returned(self) -> None:
        self._exit = 0, ""
        if self._told:
            self._told = False
            self._raised(None, None)

    def _called(self, inner: Trace | None, frame: types.FrameType, event: str, value: Any) -> Any:
        if not self._is_main(frame):
            return None if inner is None else inner(frame, event, value)
        self.started = True
        sys.settrace(inner)
        return self._following(None if inner is None else inner(frame, event, value), frame)

    def _following(self, inner: Trace | None, frame: types.FrameType) -> Trace:
        if inner is None:
            frame.f_trace_lines = False

        def follow(frame: types.FrameType, event: str, value: Any) -> Any:
            nonlocal inner
            if event == "exception":
                self._left_by(value[1])
                if not _is_handled(frame, value[1]):
                    self._tell(value[1], value[2])
            elif event == "return" and frame.f_code.co_code[frame.f_lasti] == _RETURN:
                self._returned()
            if inner is not None:
                inner = inner(frame, event, value)
            return follow

        return follow

    def _monitor(self) -> None:
        on = self._monitoring
        if on.get_tool(_TOOL) is not None:
            return
        on.use_tool_id(_TOOL, "pertdbg: exit status")
        on.register_callback(_TOOL, on.events.PY_START, self._start)
        on.register_callback(_TOOL, on.events.PY_RETURN, lambda *_: self._returned())
        on.register_callback(_TOOL, on.events.PY_UNWIND, self._unwound)
        on.set_events(_TOOL, on.events.PY_START)

    def _start(self, code: types.CodeType, _: int) -> Any:
        on = self._monitoring
        if not self._is_main(sys._getframe(1)):
            return on.DISABLE
        self.started, self._code = True, code
        on.set_events(_TOOL, on.events.PY_UNWIND)
        on.set_local_events(_TOOL, code, on.events.PY_RETURN)
        return None

    def _unwound(self, code: types.CodeType, _: int, error: BaseException) -> None:
        if code is self._code:
            self._left_by(error)
            self._tell(error, error.__traceback__)


def _is_handled(frame: types.FrameType, error: BaseException) -> bool:
    """Say whether a frame may go on after an exception; where that can't be told, it may."""
    table: Any = getattr(dis, "_parse_exception_table", None)  # Python 3.11 and later
    if table is None or isinstance(error, StopIteration):  # the end of a `for`
        return True
    return any(entry.start <= frame.f_lasti < entry.end for entry in table(frame.f_code))
