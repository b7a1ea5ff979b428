"""Finds the calls of a recording at which a condition holds, in slices of time."""

from __future__ import annotations

import time
from collections import deque

from pertdbg.conditions.condition import Condition
from pertdbg.conditions.expression import Expression
from pertdbg.conditions.previous import previous_of
from pertdbg.conditions.pushdown import clause_of
from pertdbg.conditions.rows import Rows
from pertdbg.conditions.tree import And, Compare, Constant, Field, Node
from pertdbg.record import CallRecord
from pertdbg.recording.reader import DamagedRecord, Recording

SLICE = 0.02
"""Seconds that one step of a search takes, and a little more."""


class Search:
    """Looks for the nearest call behind (or before) one at which a condition holds.

    What is found was read whole, with its checksum. Hits are not counted, and nothing is skipped:
    those belong to a run. `step` does a little of the work, so that an app can go on in between;
    after a find it goes on to the next one.
    """

    def __init__(
        self,
        recording: Recording,
        condition: Condition | Expression,
        start: int,
        forward: bool = True,
    ) -> None:
        """Prepare to look.

        Args:
            recording: Where.
            condition: What is to hold.
            start: Id of the call to begin behind: 0 for the first call; going backward, one above
                the last for the last.
            forward: Whether to go to later calls.
        """
        self._recording, self._condition, self._forward = recording, condition, forward
        head = recording.head
        self._lo, self._hi = (max(start, 0) + 1, head) if forward else (1, min(start - 1, head))
        expression = condition.expression if isinstance(condition, Condition) else condition
        self._expression = expression
        self._rows = Rows(recording, expression, clause_of(recording, _whole(condition)))
        self._candidates: deque[int] = deque()
        self._size = min(64, self._rows.block)
        self.found: int | None = None
        """Id of the call that was found last."""

    @property
    def done(self) -> bool:
        """Whether all calls were looked at."""
        return not self._candidates and self._lo > self._hi

    @property
    def left(self) -> int:
        """How many calls are not yet looked at."""
        return max(self._hi - self._lo + 1, 0)

    def step(self, seconds: float = SLICE) -> bool:
        """Look for the next call, for a short time.

        Returns:
            Whether there is an answer: `found`, which is None where there are no more.
        """
        until = time.monotonic() + seconds
        self.found = None
        while not self.done:
            while self._candidates:
                ident = self._candidates.popleft()
                if self._holds(ident):
                    self.found = ident
                    return True
                if time.monotonic() > until:
                    return False
            self._look()
            if time.monotonic() > until:
                break
        return self.done

    def _look(self) -> None:
        """Go over one more block; they grow, so that what is near is found at once."""
        if self._lo > self._hi:
            return
        if self._forward:
            lo, hi = self._lo, min(self._lo + self._size - 1, self._hi)
            self._lo = hi + 1
        else:
            lo, hi = max(self._hi - self._size + 1, self._lo), self._hi
            self._hi = lo - 1
        found = [ident for ident, value in self._rows.values(lo, hi) if value is True]
        self._candidates.extend(found if self._forward else reversed(found))
        self._size = min(2 * self._size, self._rows.block)

    def _holds(self, ident: int) -> bool:
        try:
            record = self._recording.record(ident)
        except (DamagedRecord, IndexError):
            return False
        return self._condition.holds(record, self._previous(record))

    def _previous(self, record: CallRecord) -> CallRecord | None:
        needs = self._expression.needs_previous
        return previous_of(self._recording, record) if needs else None


def search(
    recording: Recording, condition: Condition | Expression, start: int, forward: bool = True
) -> int | None:
    """Find the nearest call behind (or before) one at which a condition holds.

    Args:
        recording: Where.
        condition: What is to hold.
        start: Id of the call to begin behind; 0 for the first call.
        forward: Whether to go to later calls.

    Returns:
        Its id, or None where there is none.
    """
    looking = Search(recording, condition, start, forward)
    while not looking.step(1.0):
        pass
    return looking.found


def _whole(condition: Condition | Expression) -> Node:
    """Give the tree of a condition with its layer and rank."""
    if isinstance(condition, Expression):
        return condition.tree
    parts: list[Node] = [condition.expression.tree]
    if condition.layer is not None:
        parts.append(Compare("==", Field("layer"), Constant(condition.layer)))
    if condition.rank is not None:
        parts.append(Compare("==", Field("rank"), Constant(condition.rank)))
    return parts[0] if len(parts) == 1 else And(tuple(parts))
