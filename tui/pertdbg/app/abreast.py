"""The ranks of a session beside each other, step by step."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pertdbg.app.marks import Marks
from pertdbg.compare import Difference, Merged, Step, differences, in_kind
from pertdbg.errors import PertdbgError
from pertdbg.ranks import RankSession
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording

_STEP = ("batch", "step")
"""What says which calls belong together: ranks may make other numbers of calls in a batch."""

_LACKING_SHOWN = 1024
"""Most ranks without a recording that have a row of their own."""

_Parting = tuple[tuple[int, str], ...]
"""The ranks that part from most at a step, each with the first fact or why it has no call."""


@dataclass(frozen=True)
class RankRow:
    """One rank at a step."""

    rank: int
    place: int | None
    """Which member of the session it is; None for one without a sound recording."""
    record: CallRecord | None = None
    problem: str = ""
    """Why there is no record."""
    parts: tuple[Difference, ...] = ()
    """In what it differs from most ranks, by more than ranks differ in anyway."""
    ident: int = 0
    """Id of its call, or of the last one before."""
    head: int = 0
    marks: Marks | None = None
    """Of its calls."""


class Abreast:
    """All ranks at one step, and the way to others."""

    def __init__(self, session: RankSession, ident: int) -> None:
        """Stand at a call of the rank that is looked at.

        Args:
            session: The ranks.
            ident: Id of the call.
        """
        self.session = session
        self._places: list[int] = []
        self._marks: dict[int, Marks] = {}
        self._merged = Merged((), _STEP, "in kind")
        self._take_in(session.at, ident)

    @property
    def step(self) -> Step | None:
        """The step."""
        return self._merged.step

    def renew(self) -> bool:
        """See whether ranks came, went or went on; say whether there is something new."""
        now = _recordings(self.session)
        if [recording for _, recording in now] == list(self._merged.recordings):
            if self._merged.step is None and self._merged.forward():
                return True
            heads = [recording.head for _, recording in now]
            return self._merged.refind() or heads != self._heads
        at = next((k for k, ident in enumerate(self._merged.ids) if ident is not None), None)
        if at is None:
            self._take_in(self.session.at, 1)
        else:
            self._take_in(self._places[at], self._merged.passed(at))
        return True

    def rows(self) -> list[RankRow]:
        """Give a row for each rank, in the order of their numbers."""
        self._heads = [recording.head for recording in self._merged.recordings]
        rows = [self._row(k) for k in range(len(self._places))]
        rows = [*_with_parts(rows, self._usual(self._merged))]
        lacking = self.session.lacking[:_LACKING_SHOWN]
        rows += [RankRow(rank, None, problem="no sound recording") for rank in lacking]
        return sorted(rows, key=lambda row: row.rank)

    def move(self, *, forward: bool) -> bool:
        """Go to the next step that any rank has, or to the one before; say whether there is."""
        return self._merged.forward() if forward else self._merged.backward()

    def to_end(self, *, first: bool) -> None:
        """Go to the first or the last step."""
        self._merged.to_end(first=first)
        self.move(forward=first)

    def search(self, *, forward: bool) -> Iterator[bool]:
        """Go on to the next step at which ranks part, or part otherwise than before; else stay.

        Yields:
            False for each step that is passed; then True, if one is found.
        """
        ahead = copy.copy(self._merged)
        before = self._parting(ahead)
        while ahead.forward() if forward else ahead.backward():
            parting = self._parting(ahead)
            if parting and parting != before:
                self._merged = ahead
                yield True
                return
            before = parting
            yield False

    def _take_in(self, place: int, ident: int) -> None:
        """Take the recordings that there are, and stand at a call of one of them."""
        now = _recordings(self.session)
        self._places = [where for where, _ in now]
        recordings = [recording for _, recording in now]
        self._marks = {k: Marks(recording) for k, recording in enumerate(recordings)}
        self._merged = Merged(recordings, _STEP, "in kind")
        self._heads = [recording.head for recording in recordings]
        lane = self._places.index(place) if place in self._places else None
        near = () if lane is None else (ident, ident + 1, ident - 1)  # one may be damaged
        if not any(self._merged.go_to(lane or 0, call) for call in near):
            self._merged.forward()

    def _row(self, k: int) -> RankRow:
        recording, ident = self._merged.recordings[k], self._merged.ids[k]
        self._marks[k].renew()
        record, problem = None, ""
        if ident is None:
            damaged = self._merged.damaged(k)
            problem = "no such call" if damaged is None else f"record {damaged} is damaged"
        else:
            try:
                record = recording.record(ident)
            except PertdbgError as error:
                problem = str(error)
        return RankRow(
            recording.meta.rank,
            self._places[k],
            record,
            problem,
            ident=self._merged.passed(k),
            head=recording.head,
            marks=self._marks[k],
        )

    def _usual(self, merged: Merged) -> list[bool]:
        """Say which ranks have the call alike in kind, as most have it that have it at all."""
        facts = [None if found is None else found.facts for found in merged.outlines()]
        known = Counter(each for each in facts if each is not None)
        most = known.most_common(1)[0][0] if known else None
        return [each is not None and each == most for each in facts]

    def _parting(self, merged: Merged) -> _Parting:
        if merged.same():
            return ()
        rows = [
            RankRow(recording.meta.rank, k, *_read(recording, ident))
            for k, (recording, ident) in enumerate(zip(merged.recordings, merged.ids, strict=True))
        ]
        found = _with_parts(rows, self._usual(merged))
        return tuple(
            (k, row.parts[0].fact if row.parts else row.problem)
            for k, row in enumerate(found)
            if row.parts or row.record is None
        )


def _read(recording: Recording, ident: int | None) -> tuple[CallRecord | None, str]:
    if ident is None:
        return None, "no such call"
    try:
        return recording.record(ident), ""
    except PertdbgError as error:
        return None, str(error)


def _with_parts(rows: Sequence[RankRow], usual: Sequence[bool]) -> Iterator[RankRow]:
    """Add in what the ranks that are not as most are differ from them."""
    alike = (row.record for row, is_usual in zip(rows, usual, strict=True) if is_usual)
    like = next((record for record in alike if record is not None), None)
    for row, is_usual in zip(rows, usual, strict=True):
        if is_usual or row.record is None or like is None:
            yield row
            continue
        found = differences(like, row.record)
        parts = tuple(each for each in found if in_kind(each.fact, each.a, each.b))
        yield replace(row, parts=parts)


def _recordings(session: RankSession) -> list[tuple[int, Recording]]:
    return [
        (place, member.recording)
        for place, member in enumerate(session.members)
        if member.recording is not None
    ]
