"""The panels on the screen: each asks its function for lines and paints them."""

from __future__ import annotations

import bisect
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from pertdbg.app.keys import PANEL_BINDINGS
from pertdbg.app.lines import Line, plain, wrap
from pertdbg.app.panels.about import about
from pertdbg.app.panels.delta import delta
from pertdbg.app.panels.gradient import SERIES, gradient
from pertdbg.app.panels.leaf import leaf
from pertdbg.app.panels.map import LARGEST, heat_map, not_stored, stored
from pertdbg.app.panels.output import output
from pertdbg.app.panels.source import source
from pertdbg.app.panels.storage import storage
from pertdbg.app.store import View
from pertdbg.app.widgets.painter import Painter, Zoomed
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.record import CallRecord

_WHEEL = 3
"""Lines that a turn of the wheel scrolls."""

_COPIED_WIDTH = 120
"""Width at which a panel is laid out to be copied as text."""


class Panel(Painter, can_focus=True):
    """A bordered part of the screen that shows one side of a call."""

    BINDINGS: ClassVar[list[BindingType]] = PANEL_BINDINGS
    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    _more = ""

    class Enlarged(Message):
        """The panel was clicked twice."""

    def __init__(self) -> None:
        super().__init__(id=self.NAME, classes="panel")
        self.border_title = self.TITLE
        self._view: View | None = None

    def show(self, view: View) -> None:
        """Show another call."""
        self._view = view
        self.renew()

    def copied(self) -> str:
        """Give the panel as text."""
        return plain(self.write(_COPIED_WIDTH, max(self.size.height, 12)))

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:
        """Write the panel for a record."""
        raise NotImplementedError

    def scrolled(self, top: int) -> int:
        """Say which line comes first when other lines are shown."""
        return top

    def write(self, width: int, height: int) -> list[Line]:
        """Write the panel, or what keeps it from being written."""
        if self._view is None:
            return []
        try:
            return self.body(self._view, width, height)
        except PertdbgError as error:  # a damaged part of the recording
            return wrap(printable(str(error)), width, "warn")

    def body(self, view: View, width: int, height: int) -> list[Line]:
        """Write the panel, or why there is no record to write it for."""
        if view.record is None:
            return wrap(printable(view.problem), width, "warn")
        return self.lines(view, view.record, width, height)

    def _fill(self) -> None:
        super()._fill()
        self._begin_at(self.scrolled(self._top))

    def _begin_at(self, top: int) -> None:
        """Put a line at the top, as far as there are lines, and say how many are below."""
        height = self.size.height
        self._top = max(0, min(top, len(self._lines) - height))
        below = len(self._lines) - height - self._top
        more = f"{below} more: up/down" if below > 0 else ""
        if more != self._more:
            self._more = more
            self.call_later(self._say_more)  # not here, where Textual is painting

    def _say_more(self) -> None:
        self.border_subtitle = self._more

    def _scroll(self, lines: int) -> None:
        self._begin_at(self._top + lines)
        self._repaint()

    def on_click(self, event: events.Click) -> None:
        """Enlarge on a double click."""
        if event.chain == 2:
            self.post_message(self.Enlarged())

    def on_mouse_scroll_down(self) -> None:
        """Scroll with the wheel."""
        self._scroll(_WHEEL)

    def on_mouse_scroll_up(self) -> None:
        """Scroll with the wheel."""
        self._scroll(-_WHEEL)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll by lines."""
        self._scroll(lines)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by heights of the panel."""
        self._scroll(pages * max(self.size.height - 1, 1))


class GradientPanel(Panel):
    """The gradient of the delta found at entry."""

    NAME, TITLE = "gradient", "1 gradient norm"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:
        """Write the panel, with the norm's course over the calls."""
        found = view.store.series(SERIES, view.store.window(view.cursor), 2 * width)
        at = None if found is None else bisect.bisect_right(found.first, view.cursor) - 1
        return gradient(record, found, at, width, height)

    def on_mouse_scroll_up(self) -> None:
        """Zoom in with the wheel, where there is nothing to scroll."""
        self._wheel(closer=True)

    def on_mouse_scroll_down(self) -> None:
        """Zoom out with the wheel, where there is nothing to scroll."""
        self._wheel(closer=False)

    def _wheel(self, *, closer: bool) -> None:
        if len(self._lines) > self.size.height:
            self._scroll(-_WHEEL if closer else _WHEEL)
        else:
            self.post_message(Zoomed(closer=closer))


class DeltaPanel(Panel):
    """The delta that is left at exit."""

    NAME, TITLE = "delta", "2 clamped delta"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the panel."""
        return delta(record, width, height)


class LeafPanel(Panel):
    """The tensors' place in the autograd graph."""

    NAME, TITLE = "leaf", "3 leaf status"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the panel."""
        return leaf(record, width, height)


class StoragePanel(Panel):
    """Where the tensors live."""

    NAME, TITLE = "storage", "4 storage"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the panel."""
        return storage(record, width)


class MapPanel(Panel):
    """The map of |delta|, and its histogram."""

    NAME, TITLE = "map", "5 map of |delta|"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:
        """Write the panel."""
        store, colour = view.store, not self.app.no_color
        if store.role:
            return self._stored(view, record, width, height)
        picture = store.picture(record.id)
        return heat_map(record, picture, width, height, colour=colour)

    def _stored(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:
        store = view.store
        tensor = store.tensor(record.id)
        if tensor is None:
            others = [other.role for other in store.tensors(record.id)]
            return not_stored(store.role, others, store.near_tensors(record.id), width)
        picture = store.picture_of(tensor) if tensor.count <= LARGEST else None
        return stored(tensor, picture, width, height, colour=not self.app.no_color)


class SourcePanel(Panel):
    """The update method's source."""

    NAME, TITLE = "source", "6 source"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the panel."""
        lines, self._current = source(view.store.layer(record.layer), record.source_line, width)
        return lines

    def scrolled(self, top: int) -> int:
        """Keep the current line in sight."""
        height = self.size.height
        seen = top <= self._current < top + height
        return top if seen else self._current - height // 2

    _current = 0


class OutputPanel(Panel):
    """What the target printed up to the call."""

    NAME, TITLE = "output", "7 output"

    def body(self, view: View, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the end of both streams, whether or not there is a call."""
        store, cursor = view.store, view.cursor
        return output(store.output("stdout", cursor), store.output("stderr", cursor), width)

    def scrolled(self, top: int) -> int:  # noqa: ARG002 - as the others
        """Keep the end in sight."""
        return len(self._lines)


class Welcome(Panel):
    """What the scenario shows, how far it has loaded, and what it printed, before a first call."""

    NAME, TITLE = "welcome", "what to look for"
    progress = ""

    def body(self, view: View, width: int, height: int) -> list[Line]:
        """Write title, text, progress and output."""
        store = view.store
        session = store.session
        lines = about(session.title or session.target_name, session.about, self.progress, width)
        stdout, stderr = store.output("stdout", 0), store.output("stderr", 0)
        if stdout or stderr:
            room = max(height - len(lines) - 2, 3)
            lines += [[], [("output", "head")], *output(stdout, stderr, width)[-room:]]
        return lines


PANELS: tuple[type[Panel], ...] = (
    GradientPanel,
    DeltaPanel,
    LeafPanel,
    StoragePanel,
    MapPanel,
    SourcePanel,
    OutputPanel,
)
"""In the order of the grid, which places them as they come."""
