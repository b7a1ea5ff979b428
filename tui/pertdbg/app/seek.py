"""Searches over the calls of a recording, a little at a time so that keys are heard between.

A search is an iterator: None while it goes on, then what it found; it ends where there is nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pertdbg.record import CallRecord
from pertdbg.recording.parts import DERIVED_MARKS
from pertdbg.recording.reader import Recording
from pertdbg.recording.tiles import INDEX

if TYPE_CHECKING:
    from pertdbg.conditions import Condition

Looking = Iterator[int | None]

_BATCH = INDEX["batch"]

_AT_ONCE = 256
"""Calls that are looked at between two looks at the clock."""

MARKED = (*DERIVED_MARKS, "stopped", "gap")
"""Kinds of marks that are gone to."""


def marked(recording: Recording, cursor: int, *, forward: bool) -> Looking:
    """Find the nearest call with a mark."""
    found = recording.next_mark(cursor, MARKED, forward=forward)
    if found is not None:
        yield found


def next_step(recording: Recording, record: CallRecord) -> Looking:
    """Find the first call of the layer's next training step."""
    found = recording.locate(record.layer, batch=record.batch + 1)
    if found is not None:
        yield found


def step_before(recording: Recording, record: CallRecord) -> Looking:
    """Find the first call of the layer's training step, or of the one before."""
    for batch in (record.batch, record.batch - 1):
        found = recording.locate(record.layer, batch=batch)
        if found is not None and found < record.id:
            yield found
            return


def held(
    recording: Recording, conditions: Sequence[Condition], start: int, *, forward: bool
) -> Looking:
    """Find the nearest call after (or before) one at which one of some conditions holds."""
    from pertdbg.conditions import Search  # much that the first frame need not wait for

    found = []
    for condition in conditions:
        search = Search(recording, condition, start, forward)
        while not search.step():
            yield None
        found += [] if search.found is None else [search.found]
    if found:
        yield min(found) if forward else max(found)


class Only:
    """Some calls of a recording, in order: what is left when others are passed over."""

    def __init__(self, words: str) -> None:
        """Begin without any.

        Args:
            words: What they are, for a person.
        """
        self.words = words
        self.ids = array("q")
        self.upto = 0
        """Id of the last call that was looked at."""

    def after(self, cursor: int) -> int | None:
        """Give the nearest one after a call."""
        place = bisect_right(self.ids, cursor)
        return self.ids[place] if place < len(self.ids) else None

    def before(self, cursor: int) -> int | None:
        """Give the nearest one before a call."""
        place = bisect_left(self.ids, cursor)
        return self.ids[place - 1] if place else None

    def any(self, lo: int, hi: int) -> bool:
        """Say whether one of the calls lo to hi, both included, is among them."""
        place = bisect_left(self.ids, lo)
        return place < len(self.ids) and self.ids[place] <= hi

    def look_on(self, recording: Recording) -> Iterator[None]:
        """Look at the calls that are new, some at a time."""
        raise NotImplementedError


class Steps(Only):
    """The last call of each training step."""

    def __init__(self) -> None:
        """Begin without any."""
        super().__init__("last of a step")
        self._batch: float = 0
        """The greatest batch so far."""

    def look_on(self, recording: Recording) -> Iterator[None]:
        """Look at the calls that are new: the newest stands for its step until the next begins."""
        head = recording.head
        if self.ids and self.ids[-1] == self.upto:
            self.ids.pop()
        for first in range(self.upto + 1, head + 1, _AT_ONCE):
            last = min(first + _AT_ONCE - 1, head)
            for ident, row in enumerate(recording.facts.numbers(first, last), first):
                batch = None if row is None else row.values[_BATCH]
                if batch is not None and batch > self._batch:
                    if self._batch:
                        self.ids.append(ident - 1)
                    self._batch = batch
            self.upto = last
            yield None
        if head:
            self.ids.append(head)


class Held(Only):
    """The calls at which a condition holds."""

    def __init__(self, condition: Condition) -> None:
        """Begin without any."""
        super().__init__(str(condition))
        self._condition = condition

    def look_on(self, recording: Recording) -> Iterator[None]:
        """Search the calls that are new."""
        from pertdbg.conditions import Search

        head = recording.head
        search = Search(recording, self._condition, self.upto)
        while True:
            answered = search.step()
            if search.found is not None:
                self.ids.append(search.found)
            elif answered:
                self.upto = head
                return
            yield None
