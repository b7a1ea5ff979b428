"""Two recordings beside each other, call by call."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

from pertdbg.compare import Difference, Merged, Step, differences
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording


@dataclass(frozen=True)
class Pair:
    """A call in both recordings."""

    a: CallRecord | None
    b: CallRecord | None
    found: list[Difference] = field(default_factory=list)
    """What differs, in the order of a record's fields."""
    problem: str = ""
    """Why one of them can't be shown."""

    @property
    def differs(self) -> bool:
        """Whether there is something to see."""
        return bool(self.found or self.problem or self.a is None or self.b is None)


class Versus:
    """A recording and another one that it is compared with, at a call of either of them."""

    def __init__(self, a: Recording, b: Recording, ident: int) -> None:
        """Stand at a call of the first."""
        self.a, self.b = a, b
        self._merged = Merged((a, b), ("call",), "exactly")
        self._problem = ""
        if not self._merged.go_to(0, ident):
            self._problem = f"record {ident} of {a.path} is damaged"

    @property
    def ident(self) -> int:
        """Id of the call in the first, or of the last one before it that the first has."""
        return self._merged.passed(0)

    @property
    def step(self) -> Step | None:
        """The call."""
        return self._merged.step

    @property
    def passed_over(self) -> int:
        """Number of damaged records that were met so far."""
        return self._merged.passed_over

    def pair(self) -> Pair:
        """Compare the call in both."""
        return Pair(None, None, problem=self._problem) if self._problem else _pair(self._merged)

    def move(self, *, forward: bool) -> bool:
        """Go to the next call of either recording, or to the one before; say whether there is."""
        moved = self._merged.forward() if forward else self._merged.backward()
        self._problem = "" if moved else self._problem
        return moved

    def search(self, *, forward: bool, first: bool = False) -> Iterator[bool]:
        """Go on to the next call that differs, and stand there; where none does, stay.

        Args:
            forward: Which way.
            first: Begin before the first call.

        Yields:
            False for each call that does not differ; then True, if one does.
        """
        ahead = copy.copy(self._merged)
        if first:
            ahead.to_end(first=True)
        for found in ahead.search(lambda merged: _pair(merged).differs, forward=forward):
            if found:
                self._merged, self._problem = ahead, ""
            yield found


def _pair(merged: Merged) -> Pair:
    try:
        one, other = (
            None if ident is None else recording.record(ident)
            for recording, ident in zip(merged.recordings, merged.ids, strict=True)
        )
    except PertdbgError as error:
        return Pair(None, None, problem=str(error))
    damaged = [k for k in (0, 1) if merged.damaged(k) is not None]
    problem = "".join(
        f"record {merged.damaged(k)} of {merged.recordings[k].path} is damaged" for k in damaged
    )
    found = [] if one is None or other is None else differences(one, other)
    return Pair(one, other, found, problem)
