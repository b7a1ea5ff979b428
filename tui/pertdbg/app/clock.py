"""How fast a target runs."""

from __future__ import annotations

import time
from collections import deque

from pertdbg.app.panels.status import Progress

_SPAN = 2.0
"""Seconds that a rate is taken over."""


class Clock:
    """Counts the calls of a free run, with their rate over the last moments."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def restart(self) -> None:
        """Forget the rate: the target stood still."""
        self._seen.clear()

    def see(self, head: int) -> Progress:
        """Take note of the head, and say how far the run is."""
        now = time.monotonic()
        self._seen.append((now, head))
        while now - self._seen[0][0] > _SPAN:
            self._seen.popleft()
        then, before = self._seen[0]
        rate = (head - before) / (now - then) if now - then > 0.2 else None
        return Progress(head, rate)
