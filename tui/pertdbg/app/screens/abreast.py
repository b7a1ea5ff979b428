"""The screen on which all ranks stand side by side."""

from __future__ import annotations

import time
from asyncio import sleep
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message

from pertdbg.app.abreast import Abreast, RankRow
from pertdbg.app.keys import ABREAST_BINDINGS
from pertdbg.app.lines import Line
from pertdbg.app.numbers import count
from pertdbg.app.panels.abreast import facts, sentences, timelines
from pertdbg.app.screens.dialogs import Dialog
from pertdbg.app.widgets.painter import Painter
from pertdbg.errors import PertdbgError

_BREATH = 0.02
"""Seconds of a search after which keys and pixels have their turn."""

_LOOK = 0.25
"""Seconds between two looks at what the ranks have recorded since."""

_LEAST_ROWS = 3
"""Rows that keep their place, whatever there is to say above them."""


class Lanes(Painter, can_focus=True):
    """What is said of the step, over as many rows as there is room for."""

    DEFAULT_CSS = "Lanes { height: 1fr; }"

    class Chosen(Message):
        """A row was clicked."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self, abreast: Abreast, chosen: int) -> None:
        super().__init__()
        self._abreast = abreast
        self.rows: list[RankRow] = []
        self.chosen = chosen
        self.said = ""
        self.strips = False
        self._first = 0
        self._above = 0
        self.take()

    @property
    def room(self) -> int:
        """How many rows are seen."""
        return max(self.size.height - self._above, 1)

    def take(self) -> None:
        """Read the ranks at the step."""
        self.rows = self._abreast.rows()
        self.chosen = min(max(self.chosen, 0), max(len(self.rows) - 1, 0))

    def write(self, width: int, height: int) -> list[Line]:
        """Write the sentences, the header and the rows around the one that is chosen."""
        abreast = self._abreast
        said = sentences(self.rows, abreast.step, abreast.session.problems, self.said, width)
        said = said[: max(height - 1 - _LEAST_ROWS, 1)]
        if not self.rows:
            return said
        self._above = len(said) + 1
        room = max(height - self._above, 1)
        self._first = min(max(self._first, self.chosen - room + 1), self.chosen)
        self._first = max(min(self._first, len(self.rows) - room), 0)
        draw, seen = timelines if self.strips else facts, slice(self._first, self._first + room)
        return [*said, *draw(self.rows, self.chosen, seen, width)]

    def on_click(self, event: events.Click) -> None:
        """Choose a row."""
        row = event.y - self._above + self._first
        if event.y >= self._above and row < len(self.rows):
            self.post_message(self.Chosen(row))


class RanksAbreast(Dialog[tuple[int, int]]):
    """All ranks, whole screen; its result is a member of the session and a call of it."""

    BINDINGS: ClassVar[list[BindingType]] = ABREAST_BINDINGS

    def __init__(self, abreast: Abreast) -> None:
        """Prepare the screen at the step where the ranks stand."""
        super().__init__(classes="-whole")
        self._abreast = abreast
        self.lanes = Lanes(abreast, 0)
        here = [k for k, row in enumerate(self.lanes.rows) if row.place == abreast.session.at]
        self.lanes.chosen = here[0] if here else 0

    def compose(self) -> ComposeResult:
        """Lay the ranks into a box as large as the screen."""
        with Vertical(id="dialog") as box:
            box.border_title = "ranks side by side"
            box.border_subtitle = "n/p step  f/F parting  t timelines  enter opens  escape closes"
            yield self.lanes

    def on_mount(self) -> None:
        """Keep up with ranks that are still recorded."""
        self.lanes.focus()
        self.set_interval(_LOOK, self._renew)

    def action_move(self, by: int) -> None:
        """Show the next or the previous step."""
        self.workers.cancel_group(self, "search")
        where = "last" if by > 0 else "first"
        self._show("" if self._abreast.move(forward=by > 0) else f"this is the {where} step")

    def action_edge(self, first: bool) -> None:
        """Show the first or the last step."""
        self.workers.cancel_group(self, "search")
        self._abreast.to_end(first=first)
        self._show("")

    def action_choose(self, by: int) -> None:
        """Choose another rank."""
        self._choose(self.lanes.chosen + by)

    def action_page(self, by: int) -> None:
        """Choose a rank a page further on."""
        self._choose(self.lanes.chosen + by * self.lanes.room)

    def on_lanes_chosen(self, event: Lanes.Chosen) -> None:
        """Choose the rank that was clicked; a second time, open it."""
        if event.row == self.lanes.chosen:
            self.action_open()
        else:
            self._choose(event.row)

    def action_strips(self) -> None:
        """Show the timelines of all ranks, or the facts again."""
        self.lanes.strips = not self.lanes.strips
        self.lanes.renew()

    def action_difference(self, forward: bool) -> None:
        """Look for the next or the previous step at which ranks part."""
        self.run_worker(self._find(forward), group="search", exclusive=True)

    def action_open(self) -> None:
        """Open the rank that is chosen, at its call of this step or the last one before."""
        rows = self.lanes.rows
        row = rows[self.lanes.chosen] if rows else None
        if row is None or row.place is None or not row.head:
            self._say("there is no call of this rank to open")
        else:
            self.dismiss((row.place, max(row.ident, 1)))

    async def _find(self, forward: bool) -> None:
        due = time.monotonic() + _BREATH
        try:
            for done, found in enumerate(self._abreast.search(forward=forward), 1):
                if found:
                    self._show("")
                    return
                if time.monotonic() > due:
                    self._say(f"{count(done)} steps at which nothing changes so far…")
                    await sleep(0)
                    due = time.monotonic() + _BREATH
        except PertdbgError as error:  # one of them cannot be read on
            self._say(str(error))
            return
        self._say(f"the ranks do not part {'after' if forward else 'before'} this step")

    def _choose(self, row: int) -> None:
        self.lanes.chosen = min(max(row, 0), max(len(self.lanes.rows) - 1, 0))
        self.lanes.renew()

    def _renew(self) -> None:
        if self._abreast.renew():
            self.lanes.take()
            self.lanes.renew()

    def _show(self, said: str) -> None:
        self.lanes.take()
        self._say(said)

    def _say(self, said: str) -> None:
        self.lanes.said = said
        self.lanes.renew()
