"""Several recordings as one sequence of steps: the calls that belong together are one step.

Nothing is read ahead: from where one stands, the next step is found in what each recording has
next, so that recordings of a million calls, and such that grow, cost no more than short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pertdbg.compare.outline import Alike, Outline, Step, outlines
from pertdbg.errors import PertdbgError
from pertdbg.recording.chunks import Chunks
from pertdbg.recording.reader import Recording

_NEAR = 24
"""Calls on either side of a place among which one is looked for before all are."""


_SKIPPED = 10_000
"""Most calls in a row that are passed over since their step was seen before."""


class _Next(NamedTuple):
    """What a recording has next: the id, and which step it is."""

    ident: int
    step: Step


class Merged:
    """A place in several recordings, moved from step to step."""

    def __init__(
        self, recordings: Sequence[Recording], numbers: Sequence[str], alike: Alike
    ) -> None:
        """Stand before the first step.

        Args:
            recordings: Any number of them.
            numbers: Which numbers of a record say, with its layer, which step it is of.
            alike: What `same` compares the calls of a step for.
        """
        self.recordings = tuple(recordings)
        self._lanes = [_Lane(recording, numbers, alike) for recording in recordings]
        self.step: Step | None = None
        """The step at which it stands; None before the first one and behind the last."""
        self.ids: list[int | None] = [None] * len(self._lanes)
        """Of its calls, recording by recording; None in one that lacks the step."""
        self._passed = [0] * len(self._lanes)
        """Id of the last call of each recording up to here."""

    def go_to(self, which: int, ident: int) -> bool:
        """Stand at the step of a call; say whether that can be known of it."""
        step = self._lanes[which].step(ident)
        if step is None:
            return False
        self._passed = [
            ident if k == which else lane.place(step, ident) for k, lane in enumerate(self._lanes)
        ]
        self._stand(step)
        self._passed = [
            passed if found is None else found
            for passed, found in zip(self._passed, self.ids, strict=True)
        ]
        return True

    def to_end(self, *, first: bool) -> None:
        """Stand before the first step, or behind the last."""
        self.step, self.ids = None, [None] * len(self._lanes)
        self._passed = [0 if first else lane.head for lane in self._lanes]

    def passed(self, which: int) -> int:
        """Give the id of the last call of a recording up to here, 0 before the first."""
        return self._passed[which]

    def forward(self) -> bool:
        """Go on to the next step; say whether there is one."""
        passed = list(self._passed)
        for _ in range(_SKIPPED):
            ahead = [lane.next(at, 1) for lane, at in zip(self._lanes, passed, strict=True)]
            if self._all_at(ahead):
                return True
            step = self._choose(ahead, 1)
            if step is None:
                return False
            seen = self._is_beyond(step, passed, -1)
            passed = [
                found.ident if found is not None and found.step == step else at
                for found, at in zip(ahead, passed, strict=True)
            ]
            if not seen:
                self._passed = passed
                self._stand(step)
                return True
        return False

    def backward(self) -> bool:
        """Go back to the step before; say whether there is one."""
        passed = [
            at - 1 if at == here else at for at, here in zip(self._passed, self.ids, strict=True)
        ]
        for _ in range(_SKIPPED):
            behind = [lane.next(at + 1, -1) for lane, at in zip(self._lanes, passed, strict=True)]
            if self._all_at(behind):
                return True
            step = self._choose(behind, -1)
            if step is None:
                return False
            passed = [
                at if found is None else found.ident
                for found, at in zip(behind, passed, strict=True)
            ]
            if not self._is_beyond(step, passed, 1):
                self._passed = passed
                self._stand(step)
                return True
            passed = [
                at - 1 if found is not None and found.step == step else at
                for found, at in zip(behind, passed, strict=True)
            ]
        return False

    def refind(self) -> bool:
        """Look again for the step in recordings that lack it: they may have grown.

        Say whether something was found.
        """
        before = self.ids
        if self.step is not None and None in before:
            self._stand(self.step)
            found = zip(self._passed, self.ids, strict=True)
            self._passed = [max(at, ident or 0) for at, ident in found]
        return self.ids != before

    def same(self) -> bool:
        """Say whether it is plain that all recordings have the step, and have it alike."""
        found = self.outlines()
        first = found[0] if found else None
        return first is not None and all(
            other is not None and other.facts == first.facts for other in found
        )

    def outlines(self) -> list[Outline | None]:
        """Give the calls of the step, None for one that is lacking or cannot be read."""
        return [lane.outline(at) for lane, at in zip(self._lanes, self.ids, strict=True)]

    def damaged(self, which: int) -> int | None:
        """Give the id of a damaged call of a recording that may be the one that it lacks here."""
        lane, at = self._lanes[which], self._passed[which]
        near = [k for k in (at, at + 1) if 1 <= k <= lane.head and lane.step(k) is None]
        return near[0] if near and self.ids[which] is None else None

    @property
    def passed_over(self) -> int:
        """Number of damaged calls that were met so far; one in all recordings is no step."""
        return sum(len(lane.damaged) for lane in self._lanes)

    def search(self, differs: Callable[[Merged], bool], *, forward: bool) -> Iterator[bool]:
        """Go from step to step until one differs.

        Args:
            differs: Whether it does, where that is not plain.
            forward: Which way.

        Yields:
            False for each step that does not differ; then True, if one does.
        """
        while self.forward() if forward else self.backward():
            if not self.same() and differs(self):
                yield True
                return
            yield False

    def _all_at(self, found: Sequence[_Next | None]) -> bool:
        """Stand where all recordings have the same step next, which is most often so."""
        first = found[0] if found else None
        if first is None or any(there is None or there.step != first.step for there in found):
            return False
        self._passed = [there.ident for there in found if there is not None]
        self.step, self.ids = first.step, list(self._passed)
        return True

    def _stand(self, step: Step) -> None:
        self.step = step
        self.ids = [lane.find(step, at) for lane, at in zip(self._lanes, self._passed, strict=True)]

    def _choose(self, found: Sequence[_Next | None], way: int) -> Step | None:
        """Say which of the steps that the recordings have next comes first.

        That is the least one (going back the greatest), but none that another recording has
        behind what it has next: where layers do not take turns, numbers do not tell the order.
        """
        steps = [there.step for there in found if there is not None]
        if not steps:
            return None
        chosen = (min if way > 0 else max)(steps)
        tried = set()
        while chosen not in tried:
            tried.add(chosen)
            for lane, there in zip(self._lanes, found, strict=True):
                if there is None or there.step == chosen:
                    continue
                place = lane.find(chosen, there.ident)
                if place is not None and way * (place - there.ident) > 0:
                    chosen = there.step
                    break
        return chosen

    def _is_beyond(self, step: Step, passed: Sequence[int], way: int) -> bool:
        """Say whether a recording has a step on the side that one comes from: it was seen there."""
        for lane, at in zip(self._lanes, passed, strict=True):
            found = lane.find(step, at)
            if found is not None and (found > at if way > 0 else found <= at):
                return True
        return False


class _Lane:
    """One of the recordings."""

    def __init__(self, recording: Recording, numbers: Sequence[str], alike: Alike) -> None:
        self._recording = recording
        self._names = numbers
        self._outlines: Chunks[Outline | None] = outlines(recording, numbers, alike)
        self._found: dict[Step, int | None] = {}
        self._searched = 0
        self.damaged: set[int] = set()
        """Ids that were passed over."""

    @property
    def head(self) -> int:
        return self._recording.head

    def outline(self, ident: int | None) -> Outline | None:
        return None if ident is None else self._outlines.one(ident)

    def step(self, ident: int) -> Step | None:
        """Say of which step a call is; None for one that is damaged, or not there."""
        if not 1 <= ident <= self.head:
            return None
        found = self._outlines.one(ident)
        return None if found is None else found.step

    def next(self, at: int, way: int) -> _Next | None:
        """Give the first sound call behind one, or before it."""
        ident = at + way
        while 1 <= ident <= self.head:
            step = self.step(ident)
            if step is not None:
                return _Next(ident, step)
            self.damaged.add(ident)
            ident += way
        return None

    def place(self, step: Step, hint: int) -> int:
        """Give the id of a step's call, or of the last one before it."""
        if self.step(hint) == step:
            return hint
        lo, hi = 0, self.head
        while lo < hi:
            middle = (lo + hi + 1) // 2
            found = self.next(middle - 1, 1)
            if found is not None and found.step.numbers <= step.numbers:
                lo = middle
            else:
                hi = middle - 1
        found_at = self.find(step, lo)
        if found_at is not None:
            return found_at
        while lo and (there := self.step(lo)) is not None and there > step:
            lo -= 1
        return lo

    def find(self, step: Step, near: int) -> int | None:
        """Give the id of a step's call, or None; `near` is where it is likely to be."""
        if self.step(near) == step:
            return near
        if self.step(near + 1) == step:
            return near + 1
        lo, hi = max(near - _NEAR, 1), min(near + _NEAR, self.head)
        before, after = lo == 1, hi == self.head
        for ident in range(lo, hi + 1):
            there = self.step(ident)
            if there == step:
                return ident
            if there is not None and there.layer == step.layer:
                before = before or there.numbers < step.numbers
                after = after or there.numbers > step.numbers
        # Where calls of the layer stand on both sides, it is not elsewhere.
        return None if before and after else self._search(step)

    def _search(self, step: Step) -> int | None:
        if self._searched != self.head:
            self._searched = self.head
            self._found.clear()
        if step not in self._found:
            named: dict[str, Any] = dict(zip(self._names, step.numbers, strict=True))
            try:
                self._found[step] = self._recording.locate(step.layer, **named)
            except PertdbgError:  # it is damaged
                self._found[step] = None
        return self._found[step]
