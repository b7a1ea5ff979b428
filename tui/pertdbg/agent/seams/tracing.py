"""Being told when chosen functions run, line by line, and of nothing else.

Python 3.12 and later have `sys.monitoring`: a function that nobody chose costs nothing after its
first call. Before, `sys.settrace` is asked once at each call of a Python function on the thread
that armed it. Neither puts a frame of ours on the target's stack while its own code runs.

A generator or a coroutine may be suspended, and then resumed, closed or dropped, the last without
a word from Python 3.13 on. What follows it waits in the frame itself meanwhile, in the place that
Python keeps there for tracers, and so goes when the frame goes.
"""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from pertdbg.agent import aside
from pertdbg.agent.seams.locals import read_locals

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_generator(code: types.CodeType) -> bool:
    """Say whether a function is left and entered again."""
    return bool(code.co_flags & _GENERATORS)


class Active(Protocol):
    """One running call of a chosen function."""

    by_line: bool
    """Whether it wants to be told of lines."""

    def line(self, frame: types.FrameType, /) -> None:
        """Be told that a line is about to run."""

    def end(self, frame: types.FrameType, value: Any, error: BaseException | None, /) -> None:
        """Be told that the function returns, or that an exception leaves it."""


@runtime_checkable
class Waiting(Active, Protocol):
    """One running call of a function that may be suspended."""

    def suspend(self, frame: types.FrameType, /) -> None:
        """Be told that the function is suspended."""

    def resume(self, frame: types.FrameType, /) -> None:
        """Be told that it goes on, or that an exception is about to be raised in it."""

    def forget(self) -> None:
        """Let go of everything: the function goes on unseen, if at all."""


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
        self.waiting: weakref.WeakSet[Waiting] = weakref.WeakSet()
        """Those whose function is suspended; the frame holds them."""

    def install(self) -> str | None:
        """Begin; gives the reason where that can't be."""
        raise NotImplementedError

    def remove(self) -> None:
        """Stop, and forget the calls under way."""
        self.active.clear()
        for active in list(self.waiting):
            active.forget()
        self.waiting.clear()

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

    @aside.entered
    def suspended(self, frame: types.FrameType, active: Waiting) -> None:
        """A followed call is suspended: its entry goes, since its frame may go unheard."""
        self.active.pop(id(frame), None)
        self.waiting.add(active)
        before = aside.off()
        try:
            active.suspend(frame)
        finally:
            aside.on(before)

    @aside.entered
    def resumed(self, frame: types.FrameType, active: Waiting) -> None:
        """It goes on."""
        self.waiting.discard(active)
        self.active[id(frame)] = active
        before = aside.off()
        try:
            active.resume(frame)
        finally:
            aside.on(before)

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


@aside.entered
def tell_line(active: Active, frame: types.FrameType) -> None:
    """Tell of a line that is about to run."""
    before = aside.off()
    try:
        active.line(frame)
    finally:
        aside.on(before)


@aside.entered
def tell_end(
    active: Active, frame: types.FrameType, value: Any, error: BaseException | None
) -> None:
    """Tell that a function returns, or that an exception leaves it."""
    before = aside.off()
    try:
        active.end(frame, value, error)
    finally:
        aside.on(before)


class Untraced:
    """Keep what runs inside out of a trace function of ours, which is asked at each call.

    Only what calls nothing that is followed belongs inside, and many functions: what pertdbg itself
    runs, and torch's own import.
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
    if sys.version_info >= (3, 12):
        from pertdbg.agent.seams.bymonitoring import ByMonitoring

        return ByMonitoring(choose)
    from pertdbg.agent.seams.bysettrace import BySettrace

    return BySettrace(choose)
