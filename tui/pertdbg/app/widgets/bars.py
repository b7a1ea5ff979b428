"""The status bar above the panels and the timeline below them."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.message import Message

from pertdbg.app.lines import Line
from pertdbg.app.marks import Marks
from pertdbg.app.panels.status import Progress, status
from pertdbg.app.panels.timeline import id_at, timeline, track
from pertdbg.app.store import View
from pertdbg.app.widgets.painter import Painter


class _Bar(Painter):
    """A painter that is told what to draw."""

    _draw: Callable[[int, int], list[Line]] | None = None

    def write(self, width: int, height: int) -> list[Line]:
        """Draw for a width."""
        return [] if self._draw is None else self._draw(width, height)


class StatusBar(_Bar):
    """One line: the call, and what the target does."""

    def show(self, view: View, progress: Progress, hint: str) -> None:
        """Show a call, how far a free run has come, and a hint in place of the call."""
        session, record = view.store.session, view.record
        self._draw = lambda width, _: [status(session, record, progress, hint, width)]
        self.renew()


class Timeline(_Bar):
    """All calls in a line; a click goes to one."""

    class Chosen(Message):
        """A call was clicked."""

        def __init__(self, id_: int) -> None:
            super().__init__()
            self.id = id_

    def __init__(self) -> None:
        super().__init__(id="timeline")
        self._head = 0

    def show(self, marks: Marks, cursor: int, head: int, *, open_end: bool) -> None:
        """Show the calls, their marks and the cursor."""
        self._head = head
        self._draw = lambda width, height: timeline(
            marks, cursor, head, width, height, open_end=open_end
        )
        self.renew()

    def on_click(self, event: events.Click) -> None:
        """Go to the call that was clicked."""
        cells = track(self._head, self.size.width)
        cell = event.x - 1
        if self._head and event.y == 0 and 0 <= cell < cells:
            self.post_message(self.Chosen(id_at(cell, self._head, cells)))
