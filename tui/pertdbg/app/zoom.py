"""Which calls the timeline and the plots show: all of them, or some around the cursor."""

from __future__ import annotations

_LEAST = 2
"""Fewest calls that are shown."""


class Zoom:
    """A window on the calls; it goes along where the cursor leaves it."""

    def __init__(self) -> None:
        self._span: int | None = None
        """Number of calls in the window; None for all, also those to come."""
        self._first = 1

    def window(self, cursor: int, head: int) -> tuple[int, int]:
        """Give the first and the last call that are shown."""
        span = self._span
        if span is None or span >= head:
            return 1, head
        if not self._first <= cursor < self._first + span:
            self._first = cursor - span // 2
        self._first = min(max(self._first, 1), head - span + 1)
        return self._first, self._first + span - 1

    def closer(self, at: int, cursor: int, head: int) -> None:
        """Show half as many calls; the one at the pointer stays where it is."""
        lo, hi = self.window(cursor, head)
        self._show(at, max((hi - lo + 1) // 2, _LEAST), lo, hi)

    def wider(self, at: int, cursor: int, head: int) -> None:
        """Show twice as many calls."""
        lo, hi = self.window(cursor, head)
        self._show(at, 2 * (hi - lo + 1), lo, hi)
        if self._span is not None and self._span >= head:
            self._span = None

    def everything(self) -> None:
        """Show all calls."""
        self._span = None

    def _show(self, at: int, span: int, lo: int, hi: int) -> None:
        share = (at - lo) / max(hi - lo, 1)
        self._span, self._first = span, at - round(share * (span - 1))
