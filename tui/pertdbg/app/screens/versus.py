"""The screen on which a recording is compared with another one."""

from __future__ import annotations

import time
from asyncio import sleep
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from pertdbg.app.keys import COMPARE_BINDINGS
from pertdbg.app.lines import Line
from pertdbg.app.numbers import count
from pertdbg.app.panels.versus import versus
from pertdbg.app.screens.dialogs import Dialog, Paper
from pertdbg.app.versus import Pair, Versus
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable

_BREATH = 0.02
"""Seconds of a search after which keys and pixels have their turn."""


class Compare(Dialog[int]):
    """Both records of a call, whole screen; its result is the call that was looked at last."""

    BINDINGS: ClassVar[list[BindingType]] = COMPARE_BINDINGS

    def __init__(self, both: Versus, ident: int) -> None:
        """Prepare the screen.

        Args:
            both: The recordings. The second is closed with the screen.
            ident: Call of the first that is shown first.
        """
        super().__init__(classes="-whole")
        self._both, self.ident = both, ident
        names = (both.a.path.name, both.b.path.name)
        same = names[0] == names[1]
        self._names = (str(both.a.path), str(both.b.path)) if same else names
        self._said = ""
        self._pair = both.at(ident)

    def compose(self) -> ComposeResult:
        """Lay the page into a box as large as the screen."""
        with VerticalScroll(id="dialog") as box:
            box.border_title = printable(f"{self._names[0]} and {self._names[1]}")
            box.border_subtitle = "n/p call  f/F difference  g first  escape closes"
            yield Paper(self._write)

    def on_unmount(self) -> None:
        """Let go of the other recording."""
        self._both.b.close()

    def action_move(self, by: int) -> None:
        """Show the next or the previous call."""
        self._show(min(max(self.ident + by, 1), self._both.a.head), "")

    def action_difference(self, forward: bool) -> None:
        """Look for the next or the previous call that differs."""
        self._search(self.ident, forward)

    def action_first(self) -> None:
        """Look for the first call that differs."""
        self._search(0, True)

    def action_leave(self) -> None:
        """Go back to the panels, to this call."""
        self.dismiss(self.ident)

    def _search(self, ident: int, forward: bool) -> None:
        self.run_worker(self._find(ident, forward), group="search", exclusive=True)

    async def _find(self, ident: int, forward: bool) -> None:
        due = time.monotonic() + _BREATH
        try:
            for done, found in enumerate(self._both.search(ident, forward=forward), 1):
                if found is not None:
                    self._show(found, "")
                    return
                if time.monotonic() > due:
                    self._say(f"{count(done)} calls without a difference so far…")
                    await sleep(0)
                    due = time.monotonic() + _BREATH
        except PertdbgError as error:  # it cannot be read on
            self._say(str(error))
            return
        where = "after" if forward else "before"
        self._say(f"no call differs {where} this one" if ident else "no call differs")

    def _show(self, ident: int, said: str) -> None:
        self.ident, self._pair = ident, self._both.at(ident)
        self._say(said)

    def _say(self, said: str) -> None:
        self._said = said
        self.query_one(Paper).renew()
        self.query_one(Paper).refresh(layout=True)

    @property
    def pair(self) -> Pair:
        """What is shown."""
        return self._pair

    def _write(self, width: int) -> list[Line]:
        return versus(self._pair, self._names, self._said, width)
