"""The insides of calls on their way into the file, within a budget: the newest ones stay."""

from __future__ import annotations

from collections.abc import Mapping

from pertdbg.recording import schema
from pertdbg.recording.events import Inside, to_text
from pertdbg.recording.statements import Pending, meta, sealed

BUDGET = 256 << 20
"""Bytes that the insides of all calls may take."""

DROPPED = "events_dropped"
"""Key of meta: so many calls' events made room for newer ones."""


class EventRows:
    """Turns the insides of calls into rows. Each list of statements that it gives is one commit."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._sizes: dict[int, int] = {}
        """By the call, the oldest first."""
        self._total = 0
        self._dropped = 0

    def add(
        self, call_id: int, inside: Inside, renamed: Mapping[str, str] | None = None
    ) -> Pending:
        """Give the row of a call; one that is there already is replaced."""
        text = to_text(inside, renamed)
        self._total += len(text) - self._sizes.pop(call_id, 0)
        self._sizes[call_id] = len(text)
        pending = [sealed(schema.EVENTS, (call_id, text))]
        dropped = self._dropped
        while self._total > self._budget and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self._total -= self._sizes.pop(oldest)
            self._dropped += 1
            pending.append(("DELETE FROM event WHERE call = ?", (oldest,)))
        if self._dropped > dropped:
            pending.append(meta(DROPPED, self._dropped))
        return pending
