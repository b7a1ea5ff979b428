"""The conditions at which the target stops, looked at after each call; no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pertdbg.agent.notice import say
from pertdbg.record import CallRecord

if TYPE_CHECKING:
    from pertdbg.conditions import Counter

MOST = 64
"""Most conditions at a time."""

MARKS = 10_000
"""Most marks that conditions leave in a recording."""


class Stops:
    """Says of each call whether one of the conditions stops the target there.

    A failure of ours drops the conditions and says so; it never reaches the target.
    """

    def __init__(self, conditions: Sequence[Any] = ()) -> None:
        """Begin with some conditions, as JSON."""
        self._counters: list[Counter] = []
        self._before: dict[str, CallRecord] = {}
        """The last call of each layer."""
        self._marks_left = MARKS
        why_not = self.replace(conditions) if conditions else ""
        if why_not:
            say(f"no condition is set: {why_not}")

    def replace(self, conditions: Any) -> str:
        """Set other conditions; those that stay go on counting.

        Args:
            conditions: As JSON.

        Returns:
            Why they can't be set; then the old ones stay. Else nothing.
        """
        from pertdbg.conditions import Condition, ConditionError, Counter  # most runs have none

        if not isinstance(conditions, (list, tuple)) or len(conditions) > MOST:
            return f"conditions are a list of at most {MOST}"
        try:
            wanted = [Condition.from_json(one) for one in conditions]
        except ConditionError as error:
            return str(error)
        known = {counter.condition: counter for counter in self._counters}
        self._counters = [known.get(one) or Counter(one) for one in dict.fromkeys(wanted)]
        return ""

    def at(self, record: CallRecord) -> list[str]:
        """Give the conditions that stop the target at the end of this call; once for each call."""
        before = self._before.get(record.layer)
        self._before[record.layer] = record
        try:
            return [str(c.condition) for c in self._counters if c.stops(record, before)]
        except Exception as error:  # noqa: BLE001 - whatever fails in us must not fail the target
            self._counters = []
            say(f"looking at conditions failed ({type(error).__name__}: {error}); there are none")
            return []

    def may_mark(self) -> bool:
        """Say whether another call may be marked; a condition may hold at each of a million."""
        self._marks_left -= 1
        return self._marks_left >= 0
