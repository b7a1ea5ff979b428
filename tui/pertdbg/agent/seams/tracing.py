"""Being told when chosen functions run, line by line, and of nothing else.

Python 3.12 and later have `sys.monitoring`: a function that nobody chose costs nothing after its
first call. Before, `sys.settrace` is asked once at each call of a Python function on the thread
that armed it. Neither puts a frame of ours on the target's stack while its own code runs.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pertdbg.agent import aside

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_generator(code: types.CodeType) -> bool:
    """Say whether a function is left and entered again, which is not followed."""
    return bool(code.co_flags & _GENERATORS)


class Active(Protocol):
    """One running call of a chosen function."""

    by_line: bool
    """Whether it wants to be told of lines."""

    def line(self, frame: types.FrameType, /) -> None:
        """Be told that a line is about to run."""

    def end(self, frame: types.FrameType, value: Any, error: BaseException | None, /) -> None:
        """Be told that the function returns, or that an exception leaves it."""


class Chosen(Protocol):
    """A function that is followed."""

    def begin(self, frame: types.FrameType, /) -> Active | None:
        """Be told of a call; None where this one is not to be followed."""


Choose = Callable[[types.FrameType], "Chosen | None"]
"""Says at a function's first call whether it is followed."""


class Tracing:
    """What both ways share: which calls are followed just now."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.active: dict[int, Active] = {}
        """By the identity of the frame, which lives as long as the entry."""

    def install(self) -> str | None:
        """Begin; gives the reason where that can't be."""
        raise NotImplementedError

    def remove(self) -> None:
        """Stop, and forget the calls under way."""
        raise NotImplementedError

    def join(self, frame: types.FrameType) -> None:
        """Follow a call that is under way already, if it is one to follow."""
        chosen = self._chosen(frame)
        active = None if chosen is None else self._begin(chosen, frame)
        if chosen is not None and active is not None:
            self._join(frame, chosen, active)

    def leave(self, frame: types.FrameType, error: BaseException | None) -> None:
        """Follow a call no further that was joined: for us it ends here."""
        active = self.active.pop(id(frame), None)
        if active is not None:
            active.end(frame, None, error)
            self._leave(frame)
            read_locals(frame, frozenset())

    def _join(self, frame: types.FrameType, chosen: Chosen, active: Active) -> None:
        raise NotImplementedError

    def _leave(self, frame: types.FrameType) -> None:
        """Take what follows a call out of its frame."""

    @aside.entered
    def _begin(self, chosen: Chosen, frame: types.FrameType) -> Active | None:
        before = aside.off()
        try:
            active = chosen.begin(frame)
        finally:
            aside.on(before)
        if active is not None:
            self.active[id(frame)] = active
        return active

    @aside.entered
    def _chosen(self, frame: types.FrameType) -> Chosen | None:
        before = aside.off()
        try:
            return self._choose(frame)
        finally:
            aside.on(before)


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
        self.active.clear()

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
        return _Follower(active, self.active)


class _Follower:
    """Is told by Python of what happens in one running call, and tells on."""

    __slots__ = ("_active", "_by_frame", "_raised")

    def __init__(self, active: Active, by_frame: dict[int, Active]) -> None:
        self._active, self._by_frame = active, by_frame
        self._raised: BaseException | None = None

    @aside.entered
    def __call__(self, frame: types.FrameType, event: str, value: Any) -> Any:
        if event == "line":
            self._raised = None
            _tell_line(self._active, frame)
        elif event == "exception":
            self._raised = None if isinstance(value[1], StopIteration) else value[1]
        elif event == "return":
            self._by_frame.pop(id(frame), None)
            error, self._raised = self._raised if value is None else None, None
            _tell_end(self._active, frame, value, error)
        return self


class ByMonitoring(Tracing):
    """Through `sys.monitoring`, on every thread."""

    def __init__(self, choose: Choose) -> None:
        super().__init__(choose)
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool: int | None = None
        self._known: dict[types.CodeType, Chosen] = {}
        self._lined: set[types.CodeType] = set()
        """Those whose lines are told of."""

    def install(self) -> str | None:
        """Begin, if one of the places for tools is free."""
        on = self._monitoring
        self._tool = next((tool for tool in (4, 3, 5, 1, 0) if on.get_tool(tool) is None), None)
        if self._tool is None:
            return "other tools hold every place of sys.monitoring"
        on.use_tool_id(self._tool, "pertdbg")
        events = on.events
        for event, callback in (
            (events.PY_START, self._started),
            (events.LINE, self._line),
            (events.PY_RETURN, self._returned),
            (events.PY_UNWIND, self._unwound),
        ):
            on.register_callback(self._tool, event, callback)
        on.set_events(self._tool, events.PY_START)
        return None

    def remove(self) -> None:
        """Stop."""
        if self._tool is None:
            return
        on, events = self._monitoring, self._monitoring.events
        on.set_events(self._tool, 0)
        for code in self._known:
            on.set_local_events(self._tool, code, 0)
        for event in (events.PY_START, events.LINE, events.PY_RETURN, events.PY_UNWIND):
            on.register_callback(self._tool, event, None)
        on.free_tool_id(self._tool)
        on.restart_events()
        self._tool = None
        self.active.clear()
        self._known.clear()
        self._lined.clear()

    @aside.entered
    def _started(self, code: types.CodeType, _: int) -> Any:
        frame = sys._getframe(1)
        chosen = self._known.get(code) or self._chosen(frame)
        if chosen is None:
            return self._monitoring.DISABLE
        active = self._begin(chosen, frame)
        self._tell_of(code, chosen, by_line=active is None or active.by_line)
        return None

    def _join(self, frame: types.FrameType, chosen: Chosen, active: Active) -> None:
        self._tell_of(frame.f_code, chosen, by_line=active.by_line)

    def _tell_of(self, code: types.CodeType, chosen: Chosen, *, by_line: bool) -> None:
        if code not in self._known or (by_line and code not in self._lined):
            self._known[code] = chosen
            if by_line:
                self._lined.add(code)
            self._follow(code, by_line=by_line)

    def _follow(self, code: types.CodeType, *, by_line: bool) -> None:
        on, events = self._monitoring, self._monitoring.events
        lines = events.LINE if by_line else 0
        on.set_local_events(self._tool, code, lines | events.PY_RETURN)
        on.set_events(self._tool, events.PY_START | events.PY_UNWIND)

    @aside.entered
    def _line(self, _: types.CodeType, __: int) -> None:
        frame = sys._getframe(1)
        active = self.active.get(id(frame))
        if active is not None and active.by_line:
            _tell_line(active, frame)

    @aside.entered
    def _returned(self, _: types.CodeType, __: int, value: Any) -> None:
        self._ended(sys._getframe(1), value, None)

    def _unwound(self, _: types.CodeType, __: int, error: BaseException) -> None:
        if self.active:
            self._ended(sys._getframe(1), None, error)

    @aside.entered
    def _ended(self, frame: types.FrameType, value: Any, error: BaseException | None) -> None:
        active = self.active.pop(id(frame), None)
        if active is not None:
            _tell_end(active, frame, value, error)


@aside.entered
def _tell_line(active: Active, frame: types.FrameType) -> None:
    before = aside.off()
    try:
        active.line(frame)
    finally:
        aside.on(before)


@aside.entered
def _tell_end(
    active: Active, frame: types.FrameType, value: Any, error: BaseException | None
) -> None:
    before = aside.off()
    try:
        active.end(frame, value, error)
    finally:
        aside.on(before)


class Untraced:
    """Keep what runs inside out of a trace function of ours, which is asked at each call.

    Only what pertdbg itself runs belongs inside: it would be asked about thousands of its own.
    """

    __slots__ = ("_trace",)

    def __enter__(self) -> None:
        trace = sys.gettrace()
        ours = getattr(trace, "__module__", "").startswith("pertdbg.")
        self._trace = trace if ours else None
        if ours:
            sys.settrace(None)

    def __exit__(self, *error: object) -> None:
        if self._trace is not None:
            sys.settrace(self._trace)


def tracing(choose: Choose) -> Tracing:
    """Give the way that this Python offers."""
    return ByMonitoring(choose) if sys.version_info >= (3, 12) else BySettrace(choose)


def read_locals(
    frame: types.FrameType, names: frozenset[str], *, traced: bool = False
) -> dict[str, Any]:
    """Read chosen names of a running function: its locals, else its globals.

    Before Python 3.13, `f_locals` of a function is a copy that stays with the frame and keeps
    what it holds alive. It is emptied here, except inside a trace function (`traced`): what is
    taken out there is taken from the function. There the next line renews it.
    """
    values = frame.f_locals
    found = {name: values[name] for name in names if name in values}
    optimized = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    copied = sys.version_info < (3, 13) and optimized
    if copied and not (traced and sys.version_info < (3, 12)):
        values.clear()
    for name in names - found.keys():
        if name in frame.f_globals:
            found[name] = frame.f_globals[name]
    return found


def is_method_of(frame: types.FrameType, methods: Iterable[str]) -> bool:
    """Say whether a function runs as a method of an object whose class has these methods."""
    first = frame.f_code.co_varnames[:1]
    if not first or not frame.f_code.co_argcount:
        return False
    owner = read_locals(frame, frozenset(first), traced=True).get(first[0])
    held: set[str] = set()
    for cls in type(owner).__mro__:
        held.update(vars(cls))
    return held.issuperset(methods)
