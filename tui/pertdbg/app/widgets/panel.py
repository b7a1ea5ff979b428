"""The panels on the screen: each asks its function for lines and paints them."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from pertdbg.app.inside import Moment
from pertdbg.app.kept import why_not_stored
from pertdbg.app.keys import PANEL_BINDINGS
from pertdbg.app.lines import Line, plain, wrap
from pertdbg.app.panels import inside
from pertdbg.app.panels.about import about
from pertdbg.app.panels.delta import delta
from pertdbg.app.panels.findings import evidence, findings
from pertdbg.app.panels.gradient import SERIES, gradient
from pertdbg.app.panels.leaf import leaf
from pertdbg.app.panels.lines import how_to_get, lines_of
from pertdbg.app.panels.map import heat_map, not_stored, stored
from pertdbg.app.panels.output import output
from pertdbg.app.panels.source import source
from pertdbg.app.panels.storage import storage
from pertdbg.app.panels.watch import Watched, watch
from pertdbg.app.store import View
from pertdbg.app.widgets.painter import Painter, Zoomed
from pertdbg.errors import PertdbgError
from pertdbg.event import LineEvent
from pertdbg.output.safe import printable
from pertdbg.record import CallRecord
from pertdbg.recording.parts import LayerSource
from pertdbg.recording.tensormap import Sketch

_WHEEL = 3
"""Lines that a turn of the wheel scrolls."""

_BREATH = 0.015
"""Seconds for which the map of a stored tensor is made at a time."""

_COPIED_WIDTH = 120
"""Width at which a panel is laid out to be copied as text."""


class Panel(Painter, can_focus=True):
    """A bordered part of the screen that shows one side of a call."""

    BINDINGS: ClassVar[list[BindingType]] = PANEL_BINDINGS
    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    INSIDE: ClassVar[Callable[[Moment, int], list[Line]] | None] = None
    """What the panel says of a moment inside a call, above what it says of the call."""
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
        kind = type(self)
        if view.inside is None or kind.INSIDE is None:
            return self.whole(view, width, height)
        lines = inside.heading(view.inside, width) + kind.INSIDE(view.inside, width)
        if view.under_way:
            return lines + inside.under_way(width)
        if view.record is not None:
            lines += inside.ending(view.record.call, width)
        return lines + self.whole(view, width, height - len(lines))

    def whole(self, view: View, width: int, height: int) -> list[Line]:
        """Write what there is to say of the call as a whole."""
        if view.record is None:
            problem = "the call is under way" if view.under_way else view.problem
            return wrap(printable(problem), width, "warn")
        found = view.store.faults.at(view.cursor)
        lit = evidence(found, self.NAME, width)
        lines = self.lines(view, view.record, width, height - len(lit))
        if len(lit) + len(lines) > height:  # what the panel itself says must be seen
            lit = evidence(found, self.NAME, width, short=True)
        return lit + lines

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
    INSIDE = inside.gradient

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
    INSIDE = inside.delta

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the panel."""
        return delta(record, width, height)


class LeafPanel(Panel):
    """The tensors' place in the autograd graph."""

    NAME, TITLE = "leaf", "3 leaf status"
    INSIDE = inside.leaf

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the panel."""
        return leaf(record, width, height)


class StoragePanel(Panel):
    """Where the tensors live."""

    NAME, TITLE = "storage", "4 storage"
    INSIDE = inside.storage

    def whole(self, view: View, width: int, height: int) -> list[Line]:
        """Write what there is to say of the whole call, after a line also of that line's labels."""
        lines = super().whole(view, width, height)
        if view.inside is None:
            return lines
        return inside.labels(view.inside, view.store.letters(view.cursor), width) + lines

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
            return self._stored(view, width, height)
        picture = store.picture(record.id)
        return heat_map(record, picture, width, height, colour=colour)

    def whole(self, view: View, width: int, height: int) -> list[Line]:
        """Write the panel; tensors are stored of a call under way too."""
        if view.under_way and view.store.role:
            return self._stored(view, width, height)
        return super().whole(view, width, height)

    def _stored(self, view: View, width: int, height: int) -> list[Line]:
        store, id_ = view.store, view.cursor
        tensor = store.tensor(id_)
        if tensor is None:
            others = [other.role for other in store.tensors(id_)]
            why, near = why_not_stored(store.recording, view.record), store.near_tensors(id_)
            return not_stored(store.role, others, why, near, width)
        sketch = store.sketch(tensor)
        if not sketch.done:
            self._draw_on(sketch)
        return stored(tensor, sketch, width, height, colour=not self.app.no_color)

    def _draw_on(self, sketch: Sketch) -> None:
        """Make more of a map before long; a small one is whole at once."""
        if sketch.go_on(_BREATH):
            self.renew_soon()


class SourcePanel(Panel):
    """The update method's source, with what its lines did where that was recorded."""

    NAME, TITLE = "source", "6 source"
    _current = 0
    _found: int | None = None
    """The line of the file that somebody looked for, at this call."""

    def show(self, view: View) -> None:
        """Show another call; what was looked for at this one is marked no more."""
        before = self._view
        if before is None or (before.cursor, _at(before)) != (view.cursor, _at(view)):
            self._found = None
        super().show(view)

    def write(self, width: int, height: int) -> list[Line]:
        """Write the panel, with a mark at the line that somebody looked for."""
        lines = super().write(width, height)
        wanted = "" if self._found is None else str(self._found)
        for row, line in enumerate(lines):
            if wanted and line and line[0][0].strip("> ") == wanted:
                self._current = row
                lines[row] = [("*" + line[0][0][1:], "mark"), *line[1:]]
        return lines

    def body(self, view: View, width: int, height: int) -> list[Line]:
        """Write the panel for a record, or for the lines of a call that is under way."""
        events = view.store.events(view.cursor)
        at = _at(view)
        if events and (view.record is not None or view.under_way):
            layer = self._layer(view, events[0])
            left_out = view.store.inside(view.cursor).left_out
            lines, self._current = lines_of(layer, events, at, left_out, width)
            return lines
        return super().body(view, width, height)

    def _layer(self, view: View, first: LineEvent) -> LayerSource | None:
        if view.record is not None:
            return view.store.layer(view.record.layer)
        return view.store.layer_at(first.line)

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the source alone, and how what its lines do would be had."""
        lines, self._current = source(view.store.layer(record.layer), record.source_line, width)
        return [*lines, *how_to_get(width)]

    def show_line(self, number: int) -> None:
        """Scroll to a line of the file, and mark it."""
        self._found = number
        self.renew()

    def scrolled(self, top: int) -> int:  # noqa: ARG002 - as the others
        """Keep the current line in sight; half a page is turned at a time, whatever came before."""
        half = max(self.size.height // 2, 1)
        return self._current // half * half - half // 2


def _at(view: View) -> int | None:
    """Give the place of the line inside the call; None where the call as a whole is shown."""
    return None if view.inside is None else view.inside.at


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


class WatchPanel(Panel):
    """What is watched, with its course over the calls."""

    NAME, TITLE = "watch", "w watch"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:
        """Write the values at the call, and the courses as far as they are made."""
        store, recording = view.store, view.store.recording
        if recording is None or not store.watches.all:
            return watch([], view.cursor, width, height)
        from pertdbg.conditions import previous_of  # nothing that the first frame needs

        window, items = store.window(view.cursor), []
        previous = previous_of(recording, record)
        for expression in store.watches.all:
            value = expression.value(record, previous)
            unknown = expression.why_unknown(record, previous) if value is None else ""
            course, done = store.watches.course(recording, expression, window, 2 * width)
            if not done:
                self.renew_soon()
            items.append(Watched(expression.text, value, unknown, course))
        return watch(items, view.cursor, width, height)


class FindingsPanel(Panel):
    """What is wrong, named; the findings of the call in full."""

    NAME, TITLE = "findings", "8 findings"

    def lines(self, view: View, record: CallRecord, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write what was found so far."""
        faults = view.store.faults
        looked = faults.problem or ("looking…" if faults.looking else "")
        return findings(faults.all, view.cursor, looked, width)


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
    WatchPanel,
    FindingsPanel,
)
"""In the order of the grid, which places them as they come."""
