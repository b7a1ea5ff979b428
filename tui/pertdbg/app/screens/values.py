"""The values of the stored tensors of a call, full size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from pertdbg.app.keys import VALUES_BINDINGS
from pertdbg.app.lines import Line, wrap
from pertdbg.app.numbers import count
from pertdbg.app.panels import values
from pertdbg.app.screens.dialogs import Dialog
from pertdbg.app.widgets.painter import Painter
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.recording.stored import StoredTensor

_EDGE = 1 << 62


class Table(Painter, can_focus=True):
    """The part of a tensor that is seen."""

    DEFAULT_CSS = "Table { height: 1fr; }"

    def __init__(self, tensor: StoredTensor) -> None:
        super().__init__()
        self.tensor = tensor
        self.first = self.left = 0

    def write(self, width: int, height: int) -> list[Line]:
        """Write the rows and columns that there is room for."""
        try:
            return values.values(self.tensor, self.first, self.left, width, height)
        except PertdbgError as error:  # a damaged part of the recording
            return wrap(printable(str(error)), width, "warn")

    def show(self, tensor: StoredTensor) -> None:
        """Show another tensor, from its beginning where it has another shape."""
        if tensor.shape != self.tensor.shape:
            self.first = self.left = 0
        self.tensor = tensor
        self.renew()

    def move(self, down: int, right: int) -> None:
        """Scroll, as far as there are rows and columns."""
        rows, columns = values.matrix(self.tensor)
        tall, wide = values.seen(self.tensor, *self.size)
        self.first = max(min(self.first + down, rows - tall), 0)
        self.left = max(min(self.left + right, columns - wide), 0)
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
        tall, wide = values.seen(self.table.tensor, *self.table.size)
        self.action_by(down * tall, right * wide)

    def action_edge(self, down: int) -> None:
        """Scroll to the first or the last row."""
        self.action_by(down * _EDGE, 0)

    def action_other(self) -> None:
        """Show the next stored tensor of the call."""
        self._chosen = (self._chosen + 1) % len(self._tensors)
        self.table.show(self._tensors[self._chosen])
        self._say()

    def _say(self) -> None:
        box, table = self.query_one("#dialog"), self.table
        rows, columns = values.matrix(table.tensor)
        tall, wide = values.seen(table.tensor, *table.size)
        box.border_title = values.title(table.tensor)
        box.border_subtitle = (
            f"{_part('rows', table.first, tall, rows)}  "
            f"{_part('columns', table.left, wide, columns)}  t next  escape closes"
        )


def _part(name: str, first: int, seen: int, all_: int) -> str:
    last = min(first + seen, all_)
    return f"{name} {count(first)} to {count(max(last - 1, 0))} of {count(all_)}"
