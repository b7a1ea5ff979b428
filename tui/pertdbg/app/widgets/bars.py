"""The status bar above the panels and the timeline below them."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.message import Message

from pertdbg.app.lines import Line, wrap
from pertdbg.app.panels.status import Progress, place, status
from pertdbg.app.panels.timeline import id_at, timeline, track
from pertdbg.app.store import View
from pertdbg.app.widgets.painter import Painter, Zoomed
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable


class _Bar(Painter):
    """A painter that is told what to draw."""

    _draw: Callable[[int, int], list[Line]] | None = None

    def write(self, width: int, height: int) -> list[Line]:
        """Draw for a width."""
        return [] if self._draw is None else self._draw(width, height)


class StatusBar(_Bar):
    """One line: the call, and what the target does."""

    def show(self, view: View, progress: Progress, hint: str, *, source: bool) -> None:
        """Show a call, how far a free run has come, and a hint in place of the call.

        Args:
            view: The call, and the line inside it.
            progress: How far the run has come.
            hint: What stands in place of the call; empty for none.
            source: Whether to show what the line is.
        """
        session, record, inside = view.store.session, view.record, place(view, source=source)
        self._draw = lambda width, _: [
            status(session, record, progress, hint, width, inside=inside)
        ]
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
        self._head, self._window = 0, (1, 0)

    def show(self, view: View, *, open_end: bool) -> None:
        """Show the calls, their marks and the cursor."""
        marks, head = view.store.marks, view.store.head
        window, cursor = view.store.window(view.cursor), min(view.cursor, head)
        self._head, self._window = head, window
        only = view.store.only

        def draw(width: int, height: int) -> list[Line]:
            try:
                return timeline(
                    marks, cursor, head, window, width, height, open_end=open_end, only=only
                )
            except PertdbgError as error:  # a damaged part of the recording
                return wrap(printable(str(error)), width, "warn")[:height]

        self._draw = draw
        self.renew()

    def on_click(self, event: events.Click) -> None:
        """Go to the call that was clicked."""
        id_ = self._id_at(event)
        if id_ is not None:
            self.post_message(self.Chosen(id_))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in with the wheel."""
        self.post_message(Zoomed(closer=True, at=self._id_at(event)))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out with the wheel."""
        self.post_message(Zoomed(closer=False, at=self._id_at(event)))

    def _id_at(self, event: events.MouseEvent) -> int | None:
        cells = track(self._head, self.size.width)
        cell = event.x - 1
        if not self._head or event.y or not 0 <= cell < cells:
            return None
        return id_at(cell, self._window, cells)
