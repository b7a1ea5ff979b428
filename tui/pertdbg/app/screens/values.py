"""The values of the stored tensors of a call, full size."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from pertdbg.app.keys import VALUES_BINDINGS
from pertdbg.app.later import later
from pertdbg.app.lines import Line, wrap
from pertdbg.app.numbers import count
from pertdbg.app.panels import values
from pertdbg.app.panels.map import sketched
from pertdbg.app.screens.dialogs import AskLine, Dialog
from pertdbg.app.widgets.painter import Painter
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.tensormap import Sketch
from pertdbg.recording.window import ASKED, Window

_EDGE = 1 << 62

_BREATH = 0.015
"""Seconds for which a map is made before keys and pixels have their turn."""


class Table(Painter, can_focus=True):
    """The part of a tensor that is seen: its values, or its map."""

    DEFAULT_CSS = "Table { height: 1fr; }"

    def __init__(self, tensor: StoredTensor) -> None:
        super().__init__()
        self.window = Window(tensor)
        self.first = self.left = 0
        self.sketch: Sketch | None = None
        """The map, where it is shown instead of the values."""

    def write(self, width: int, height: int) -> list[Line]:
        """Write the rows and columns that there is room for, or the map as far as it is."""
        try:
            if self.sketch is not None:
                return sketched(self.sketch, width, height, colour=not self.app.no_color)
            lines = values.values(self.window, self.first, self.left, width, height)
        except PertdbgError as error:  # a damaged part of the recording
            return wrap(printable(str(error)), width, "warn")
        if values.unread(lines):
            self.renew_soon()
        return lines

    def show(self, window: Window) -> None:
        """Show another tensor or part, from its beginning where it has another shape."""
        if window.shape != self.window.shape:
            self.first = self.left = 0
        self.window = window
        if self.sketch is not None:
            self.draw_map()
        self.renew()

    def draw_map(self) -> None:
        """Show the map, and go on with it while keys and pixels have their turn."""
        self.sketch = Sketch(self.window)
        self.run_worker(later(self._go_on, self.sketch), group="sketch", exclusive=True)

    def drop_map(self) -> None:
        """Show the values again."""
        self.sketch = None
        self.workers.cancel_group(self, "sketch")
        self.renew()

    async def _go_on(self, sketch: Sketch) -> None:
        with contextlib.suppress(PertdbgError):  # damaged: `write` says so of the values
            while sketch.go_on(_BREATH):
                self.renew()
                await asyncio.sleep(0)
        self.renew()

    def move(self, down: int, right: int) -> None:
        """Scroll, as far as there are rows and columns."""
        tall, wide = values.seen(self.window, *self.size)
        self.first = max(min(self.first + down, self.window.rows - tall), 0)
        self.left = max(min(self.left + right, self.window.columns - wide), 0)
        self.renew()

    def on_mouse_scroll_down(self) -> None:
        """Scroll with the wheel."""
        self.move(3, 0)

    def on_mouse_scroll_up(self) -> None:
        """Scroll with the wheel."""
        self.move(-3, 0)


class Values(Dialog[None]):
    """A table over the whole screen, and which part of the tensor it shows."""

    BINDINGS: ClassVar[list[BindingType]] = VALUES_BINDINGS

    def __init__(self, tensors: Sequence[StoredTensor], chosen: int) -> None:
        """Prepare the table.

        Args:
            tensors: The stored tensors of a call.
            chosen: Index of the one that is shown first.
        """
        super().__init__(classes="-whole")
        self._tensors, self._chosen = tensors, chosen
        self.table = Table(tensors[chosen])

    def compose(self) -> ComposeResult:
        """Lay the table into a box as large as the screen."""
        with Vertical(id="dialog"):
            yield self.table

    def on_mount(self) -> None:
        """Say what is shown."""
        self.table.focus()
        self.call_after_refresh(self._say)

    def action_by(self, down: int, right: int) -> None:
        """Scroll by rows and columns."""
        self.table.move(down, right)
        self._say()

    def action_page(self, down: int, right: int) -> None:
        """Scroll by heights and widths of the table."""
        tall, wide = values.seen(self.table.window, *self.table.size)
        self.action_by(down * tall, right * wide)

    def action_edge(self, down: int) -> None:
        """Scroll to the first or the last row."""
        self.action_by(down * _EDGE, 0)

    def action_other(self) -> None:
        """Show the next stored tensor of the call."""
        self._chosen = (self._chosen + 1) % len(self._tensors)
        self.table.show(Window(self._tensors[self._chosen]))
        self._say()

    def action_slice(self) -> None:
        """Ask which part to show."""
        tensor = self._tensors[self._chosen]
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        text = f"{ASKED}  (shape {shape})"
        now = self.table.window.index
        self.app.push_screen(AskLine(text, now, lambda index: Window(tensor, index)), self._slice)

    def action_map(self) -> None:
        """Show the map of what is chosen, or its values again."""
        if self.table.sketch is None:
            self.table.draw_map()
        else:
            self.table.drop_map()
        self._say()

    def _slice(self, window: Window | None) -> None:
        if window is not None:
            self.table.show(window)
            self._say()

    def _say(self) -> None:
        box, table = self.query_one("#dialog"), self.table
        window = table.window
        tall, wide = values.seen(window, *table.size)
        box.border_title = values.title(window.tensor, window.index)
        seen = (
            f"{_part('rows', table.first, tall, window.rows)}  "
            f"{_part('columns', table.left, wide, window.columns)}"
        )
        mapped = "values" if table.sketch is not None else "map"
        keys = f"s slice  m {mapped}  t next"
        box.border_subtitle = f"{'' if table.sketch is not None else seen}  {keys}".strip()


def _part(name: str, first: int, seen: int, all_: int) -> str:
    last = min(first + seen, all_)
    return f"{name} {count(first)} to {count(max(last - 1, 0))} of {count(all_)}"
