"""Moments inside a call: which lines come before and after one, and what is known at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pertdbg.event import LineEvent, LineTensor

HOW_TO_RECORD = "`record --lines` keeps all, s at the newest call those of the next"
"""How lines come into a recording."""

Events = Sequence[LineEvent]


@dataclass(frozen=True)
class Moment:
    """The inside of a call just after one of its lines; it follows from the lines up to it."""

    events: Events
    """Those of the whole call, as far as they are known."""
    at: int
    """Place of the line among them."""
    tensors: dict[str, LineTensor] = field(repr=False)
    """What the lines of this function have told of its tensors so far, by name."""
    before: dict[str, LineTensor] = field(repr=False)
    """The same before this line."""

    @property
    def event(self) -> LineEvent:
        """The line."""
        return self.events[self.at]

    @property
    def names(self) -> list[str]:
        """The tensors, those of this line first, then the latest."""
        others = [name for name in reversed(self.tensors) if name not in self.event.tensors]
        return [*(name for name in self.event.tensors if name in self.tensors), *others]


@dataclass
class _Frame:
    """A function that is being run."""

    function: str
    tensors: dict[str, LineTensor] = field(default_factory=dict)


def lettered(events: Events) -> tuple[tuple[LineEvent, ...], dict[str, str]]:
    """Give storages small letters in the order in which the lines come upon them.

    The capitals of the record are known at the end of the call only: with them, a line would look
    otherwise once the call has ended.

    Returns:
        The lines, and for each small letter the label that it stands for.
    """
    letters: dict[str, str] = {}

    def renamed(tensor: LineTensor | None) -> LineTensor | None:
        if tensor is None or tensor.storage is None:
            return tensor
        letter = letters.setdefault(tensor.storage, _letter(len(letters)))
        return replace(tensor, storage=letter)

    def named(tensor: LineTensor) -> LineTensor:
        return renamed(tensor) or tensor

    found = []
    for event in events:
        operations = tuple(
            replace(each, input=renamed(each.input), output=renamed(each.output))
            for each in event.operations
        )
        tensors = {name: named(tensor) for name, tensor in event.tensors.items()}
        found.append(replace(event, operations=operations, tensors=tensors))
    return tuple(found), {letter: label for label, letter in letters.items()}


def _letter(place: int) -> str:
    """Give a, b, …, z, aa, ab, …."""
    text = ""
    place += 1
    while place:
        place, last = divmod(place - 1, 26)
        text = chr(ord("a") + last) + text
    return text


def moment(events: Events, at: int) -> Moment:
    """Give what is known just after a line."""
    frames: list[_Frame] = []
    before: dict[str, LineTensor] = {}
    for place, event in enumerate(events[: at + 1]):
        frame = _frame_of(frames, event)
        before = dict(frame.tensors) if place == at else before
        for name in event.gone:
            frame.tensors.pop(name, None)
        for name, tensor in event.tensors.items():
            frame.tensors.pop(name, None)  # what was told last stands last
            frame.tensors[name] = tensor
    return Moment(events, at, frames[-1].tensors, before)


def _frame_of(frames: list[_Frame], event: LineEvent) -> _Frame:
    """Give the frame of a line; those of functions that have returned go."""
    del frames[event.depth + 1 :]
    while len(frames) <= event.depth:
        frames.append(_Frame(""))
    if frames[-1].function != event.function:
        frames[-1] = _Frame(event.function)
    return frames[-1]


def line_after(events: Events, at: int | None, *, into: bool) -> int | None:
    """Give the line that comes after one, or the first; None at the end of what is known.

    Args:
        events: The lines of a call.
        at: The place of one, None before the first.
        into: Whether to go into functions that the line called.
    """
    depth = 0 if at is None else events[at].depth
    start = -1 if at is None else at
    rest = range(start + 1, len(events))
    return next((k for k in rest if into or events[k].depth <= depth), None)


def line_before(events: Events, at: int | None, *, into: bool) -> int | None:
    """Give the line that comes before one, or the last; None at the beginning of the call."""
    depth = 0 if at is None else events[at].depth
    stop = len(events) if at is None else at
    rest = range(stop - 1, -1, -1)
    return next((k for k in rest if into or events[k].depth <= depth), None)


def runs_of(events: Events, line: int, upto: int) -> int:
    """Count how often a line of the update itself was run, up to a place."""
    return sum(1 for event in events[: upto + 1] if event.line == line and not event.depth)
