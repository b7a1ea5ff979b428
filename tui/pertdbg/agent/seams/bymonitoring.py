"""Being told of functions through `sys.monitoring`, from Python 3.12 on."""

from __future__ import annotations

import sys
import types
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


class _Kept:
    """Lies in the frame of a suspended function, in a tracer's place, and is none."""

    __slots__ = ("active",)

    def __init__(self, active: Waiting) -> None:
        self.active = active

    def __call__(self, *_: object) -> None:
        """Be told nothing: another tracer may look here when the function is resumed."""


class ByMonitoring(Tracing):
    """Through `sys.monitoring`, on every thread."""

    def __init__(self, choose: Choose) -> None:
        super().__init__(choose)
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool: int | None = None
        self._known: dict[types.CodeType, Chosen] = {}
        self._lined: set[types.CodeType] = set()
        """Those whose lines are told of."""
        self._told: list[int] = []
        """The events that have a callback."""

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
            (events.PY_YIELD, self._yielded),
            (events.PY_RESUME, self._resumed),
            (events.PY_THROW, self._thrown),
        ):
            self._told.append(event)
            on.register_callback(self._tool, event, callback)
        on.set_events(self._tool, events.PY_START)
        return None

    def remove(self) -> None:
        """Stop."""
        if self._tool is None:
            return
        on = self._monitoring
        on.set_events(self._tool, 0)
        for code in self._known:
            on.set_local_events(self._tool, code, 0)
        for event in self._told:
            on.register_callback(self._tool, event, None)
        on.free_tool_id(self._tool)
        on.restart_events()
        self._tool = None
        super().remove()
        self._told.clear()
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
        told = events.PY_RETURN | (events.LINE if by_line else 0)
        everywhere = events.PY_START | events.PY_UNWIND
        if is_generator(code):
            told |= events.PY_YIELD | events.PY_RESUME
            everywhere |= events.PY_THROW
        on.set_local_events(self._tool, code, told)
        on.set_events(self._tool, on.get_events(self._tool) | everywhere)

    @aside.entered
    def _line(self, _: types.CodeType, __: int) -> None:
        frame = sys._getframe(1)
        active = self.active.get(id(frame))
        if active is not None and active.by_line:
            tell_line(active, frame)

    @aside.entered
    def _returned(self, _: types.CodeType, __: int, value: Any) -> None:
        self._ended(sys._getframe(1), value, None)

    def _unwound(self, _: types.CodeType, __: int, error: BaseException) -> None:
        if self.active:
            self._ended(sys._getframe(1), None, error)

    @aside.entered
    def _yielded(self, _: types.CodeType, __: int, ___: Any) -> None:
        frame = sys._getframe(1)
        active = self.active.get(id(frame))
        if not isinstance(active, Waiting):
            return
        self.suspended(frame, active)
        if frame.f_trace is None:
            kept: Any = _Kept(active)
            frame.f_trace = kept
        else:  # that place is another tracer's
            active.forget()

    @aside.entered
    def _resumed(self, _: types.CodeType, __: int) -> None:
        self._take_up(sys._getframe(1))

    @aside.entered
    def _thrown(self, _: types.CodeType, __: int, ___: BaseException) -> None:
        self._take_up(sys._getframe(1))

    @aside.entered
    def _take_up(self, frame: types.FrameType) -> None:
        kept: Any = frame.f_trace
        if type(kept) is _Kept:
            del frame.f_trace
            if kept.active in self.waiting:
                self.resumed(frame, kept.active)

    @aside.entered
    def _ended(self, frame: types.FrameType, value: Any, error: BaseException | None) -> None:
        active = self.active.pop(id(frame), None)
        if active is not None:
            tell_end(active, frame, value, error)
