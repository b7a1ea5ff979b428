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
from pertdbg.output.words import several

_BREATH = 0.02
"""Seconds of a search after which keys and pixels have their turn."""


class Compare(Dialog[int]):
    """Both records of a call, whole screen; its result is the call that was looked at last."""

    BINDINGS: ClassVar[list[BindingType]] = COMPARE_BINDINGS

    def __init__(self, both: Versus) -> None:
        """Prepare the screen; the second recording is closed with it."""
        super().__init__(classes="-whole")
        self._both = both
        names = (both.a.path.name, both.b.path.name)
        same = names[0] == names[1]
        self._names = (str(both.a.path), str(both.b.path)) if same else names
        self._said = ""
        self._pair = both.pair()

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
        """Show the next or the previous call that either recording has."""
        self.workers.cancel_group(self, "search")
        moved = self._both.move(forward=by > 0)
        where = "last" if by > 0 else "first"
        self._show("" if moved else f"this is the {where} call of both")

    def action_difference(self, forward: bool) -> None:
        """Look for the next or the previous call that differs."""
        self._search(forward, first=False)

    def action_first(self) -> None:
        """Look for the first call that differs."""
        self._search(True, first=True)

    def action_leave(self) -> None:
        """Go back to the panels, to this call."""
        self.dismiss(self._both.ident)

    def _search(self, forward: bool, *, first: bool) -> None:
        self.run_worker(self._find(forward, first), group="search", exclusive=True)

    async def _find(self, forward: bool, first: bool) -> None:
        due = time.monotonic() + _BREATH
        try:
            for done, found in enumerate(self._both.search(forward=forward, first=first), 1):
                if found:
                    self._show("")
                    return
                if time.monotonic() > due:
                    self._say(f"{count(done)} calls without a difference so far…")
                    await sleep(0)
                    due = time.monotonic() + _BREATH
        except PertdbgError as error:  # it cannot be read on
            self._say(str(error))
            return
        where = "after" if forward else "before"
        said = "no call differs" if first else f"no call differs {where} this one"
        lost = self._both.passed_over
        self._say(f"{said}; {several(lost, 'damaged record')} not compared" if lost else said)

    def _show(self, said: str) -> None:
        self._pair = self._both.pair()
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
