"""The events of one call under way: told of lines and operations, it keeps what each one did."""

from __future__ import annotations

import itertools
import linecache
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from pertdbg.agent.lines.frames import hide, qualified
from pertdbg.agent.lines.mode import OperationMode
from pertdbg.agent.lines.operations import Given, Operations
from pertdbg.agent.lines.reading import Reader
from pertdbg.agent.lines.scope import Names, Tensors, changes, look, release, tensors_of
from pertdbg.agent.lines.storages import Storages
from pertdbg.agent.quiet import Notes, Quiet
from pertdbg.agent.seams.guard import Guard
from pertdbg.event import GradMode, LineEvent
from pertdbg.record import Unknown

if TYPE_CHECKING:
    from pertdbg.agent.run import Run

EVENTS_LIMIT = 2000
"""Lines of one call that are kept."""

OPERATIONS_LIMIT = 500
"""Operations of one line that are kept."""

_TEXT_LIMIT = 300
_OVER_LIMIT = 20


@dataclass(slots=True)
class Level:
    """A function that is gone through line by line."""

    frame: types.FrameType | None
    depth: int
    names: Names
    operations: Operations
    line: int | None = None
    gradients: GradMode = "on"
    raised: str | None = None
    """The exception that is on its way out."""
    over: int | None = None
    """Identity of the frame of a function that is being stepped over."""
    stepped: list[str] = field(default_factory=list)
    """Names of those that the line stepped over."""


class Lines:
    """The lines of one call, or of all passes of a loop within one run of its function.

    It keeps no tensor: what it wants to know of one it reads at once. A failure of ours ends the
    recording and never reaches the target.
    """

    def __init__(self, run: Run, *, core: bool = False) -> None:
        """Prepare; nothing is watched before `enter`."""
        self._run = run
        self.storages = Storages()
        self._reader = Reader(self.storages, core=core)
        self._levels: list[Level] = []
        self._events: list[LineEvent] = []
        self._lost = 0
        self._taken: tuple[list[LineEvent], int] | None = None
        self._shown = 0
        """So many events there were at the last stop."""
        self.mode = OperationMode(self)
        self.copied = False
        """Another trace function leaves copies of the locals with the innermost function."""
        self.untraced = False
        """Locals are read outside of trace functions, and their copy can go at once."""
        self.into = False
        """The next function that is called is gone through as well."""
        self.stop: Callable[[Lines], None] | None = None
        """Is called at each line that is about to run, once what was run is kept."""

    @property
    def watching(self) -> bool:
        """Whether a function is gone through."""
        return bool(self._levels)

    @property
    def depth(self) -> int:
        """How deep the innermost function lies that is gone through."""
        return len(self._levels) - 1

    @property
    def frame(self) -> types.FrameType | None:
        """The innermost function that is gone through."""
        return self._levels[-1].frame if self._levels else None

    def tensors(self) -> Tensors:
        """Give the tensors that names stand for in the innermost function."""
        with Quiet():
            return {} if self.frame is None else self._tensors(self.frame)

    def enter(self, frame: types.FrameType) -> None:
        """Go through a function from here on."""
        with self._guard():
            with Quiet():
                names = look(self._tensors(frame))
            level = Level(frame, len(self._levels), names, Operations(self._reader))
            self._levels.append(level)
            self._see_operations()

    def leave(self, value_raised: str | None = None) -> None:
        """The innermost function ends: keep what its last line did."""
        if not self._levels:
            return
        level = self._levels[-1]
        with self._guard():
            level.raised = value_raised or level.raised
            self._finish(level)
        if level.depth:
            self.pause()
        level.frame = None
        self._levels.pop()
        self._see_operations()

    def line(self, frame: types.FrameType) -> None:
        """A line of the innermost function is about to run."""
        level = self._levels[-1]
        with self._guard():
            self._finish(level)
            level.raised = None
        self.pause()
        with self._guard():
            self._begin(level, frame.f_lineno)

    def resume(self, frame: types.FrameType) -> None:
        """Go on with a line, where `finish_line` and `pause` were asked for one by one."""
        with self._guard():
            self._begin(self._levels[-1], frame.f_lineno)

    def finish_line(self) -> None:
        """Keep what the line did that has just run."""
        if self._levels:
            with self._guard():
                caught = sys.exc_info()[1] if self.mode.extra else None
                if caught is not None:
                    hide(caught.__traceback__, self.mode.extra)
                self._finish(self._levels[-1])
                self._levels[-1].raised = None

    def pause(self) -> None:
        """Stop, if asked to, where something was kept since the last record and the last stop."""
        if self.stop is not None and len(self._events) > self._shown:
            self._shown = len(self._events)
            self.into = False
            self.stop(self)

    def raising(self, name: str) -> None:
        """An exception comes up in the innermost function."""
        if self._levels:
            self._levels[-1].raised = name

    def called(self, frame: types.FrameType, name: Callable[[types.FrameType], str]) -> bool:
        """A function is called by the innermost one: it is stepped over until `returned`."""
        level = self._levels[-1]
        level.over = id(frame)
        if len(level.stepped) < _OVER_LIMIT:
            shown = name(frame)
            if shown:
                level.stepped.append(shown)
        self._see_operations()
        return True

    def returned(self, frame: types.FrameType) -> None:
        """A function that was stepped over has ended."""
        for level in self._levels:
            if level.over == id(frame):
                level.over = None
        self._reader.forget()
        self._see_operations()

    def before(self, func: Any, args: Any, kwargs: Any) -> Given | None:
        """See `mode.Watcher`."""
        if not self._levels or len(self._levels[-1].operations.found) >= OPERATIONS_LIMIT:
            return None
        level = self._levels[-1]
        with self._guard():
            if self.copied and level.frame is not None:
                release(level.frame)
            return level.operations.before(func, args, kwargs, level.names)
        return None

    def after(self, seen: Given, result: Any, error: BaseException | None) -> None:
        """See `mode.Watcher`."""
        if self._levels:
            level = self._levels[-1]
            with self._guard():
                level.operations.after(seen, result, error, level.names)

    def so_far(self) -> tuple[list[LineEvent], int]:
        """Give what was kept since the last `take`, and how many lines were not."""
        return self._events, self._lost

    def take(self) -> tuple[list[LineEvent], int]:
        """Give what was kept since the last record; two records after one line get the same."""
        if self._events:
            self._taken = self._events, self._lost
            self._events, self._lost, self._shown = [], 0, 0
        return self._taken or ([], 0)

    def still(self) -> None:
        """Look at nothing any more; what was kept stays."""
        self.mode.remove()
        for level in self._levels:
            level.frame = None
        self._levels = []

    def close(self) -> None:
        """Let go of everything."""
        self.still()
        self.stop = None
        self.storages.close()

    def _begin(self, level: Level, line: int) -> None:
        if self._taken is not None:
            self._taken = None
            self.storages.close()  # each record has labels of its own
            self._reader.forget()
        level.line = line
        level.operations = Operations(self._reader)
        level.stepped = []
        with Quiet():
            level.gradients = _grad_mode()

    def _finish(self, level: Level) -> None:
        """Keep the event of the line that has run."""
        line, level.line = level.line, None
        frame = level.frame
        if line is None or frame is None:
            return
        with Quiet():
            tensors = self._tensors(frame)
            now = look(tensors)
            if len(self._events) < EVENTS_LIMIT:
                self._events.append(self._event(level, frame, line, tensors, now))
            else:
                self._lost += 1
        level.names = now

    def _event(
        self, level: Level, frame: types.FrameType, line: int, tensors: Tensors, now: Names
    ) -> LineEvent:
        operations = level.operations
        made, changed, gone = changes(level.names, now, tensors, operations.written)
        notes, facts = Notes(), {}
        for name in tensors:
            if name in made or name in changed:
                tensor = tensors[name]
                about = now.of(tensor, now.held[name].key, name)
                facts[name] = self._reader.read(tensor, f"tensors.{name}", notes, about)
        return LineEvent(
            line=line,
            source=_source(frame, line),
            function=qualified(frame.f_code),
            depth=level.depth,
            tensors=facts,
            made=tuple(made),
            gone=tuple(gone),
            shared=_shared(facts, now),
            operations=tuple(operations.found),
            over=tuple(level.stepped),
            gradients=_grad_mode(),
            gradients_before=level.gradients,
            raised=level.raised,
            unknown=_few(notes.all() + operations.notes.all()),
        )

    def _tensors(self, frame: types.FrameType) -> Tensors:
        found = tensors_of(frame)
        if self.untraced:
            release(frame)
        return found

    def _see_operations(self) -> None:
        """Let the mode stand where the innermost function itself runs, and only there."""
        with self._guard():
            self.mode.remove()
            if self._levels and self._levels[-1].over is None:
                self.mode.insert()

    def _guard(self) -> Guard:
        return Guard(self._run, "going through a call line by line")


def _grad_mode() -> GradMode:
    if torch.is_inference_mode_enabled():
        return "inference"
    return "on" if torch.is_grad_enabled() else "off"


def _source(frame: types.FrameType, line: int) -> str:
    text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).strip()
    return text[:_TEXT_LIMIT]


def _shared(facts: dict[str, Any], now: Names) -> tuple[tuple[str, str], ...]:
    """Give the pairs of names in one storage, where at least one was made or changed."""
    pairs = (
        (name, other)
        for together in now.in_storage.values()
        for name, other in itertools.combinations(together, 2)
        if name in facts or other in facts
    )
    return tuple(itertools.islice(pairs, _PAIRS_LIMIT))


_PAIRS_LIMIT = 200
_UNKNOWN_LIMIT = 100


def _few(unknown: tuple[Unknown, ...]) -> tuple[Unknown, ...]:
    return tuple(replace(each, field=each.field[:200]) for each in unknown[:_UNKNOWN_LIMIT])
