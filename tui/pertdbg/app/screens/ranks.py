"""The list of ranks over the panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll

from pertdbg.app.keys import RANKS_BINDINGS
from pertdbg.app.lines import Line
from pertdbg.app.panels.ranks import ranks
from pertdbg.app.screens.dialogs import Dialog, Paper
from pertdbg.liveranks import LiveRanks, Others
from pertdbg.ranks import RankSession

_EVERY = 0.25
"""Seconds between two looks at what the ranks do."""


class Ranks(Dialog[None]):
    """What each rank does; here one is chosen, and what the others do while it is stepped."""

    BINDINGS: ClassVar[list[BindingType]] = RANKS_BINDINGS

    def __init__(self, session: RankSession, turn: Callable[[int], None]) -> None:
        """Prepare the list.

        Args:
            session: The ranks.
            turn: Shows the rank in a place of the list, behind it.
        """
        super().__init__()
        self._session, self._turn = session, turn

    def compose(self) -> ComposeResult:
        """Lay the list into a box."""
        with VerticalScroll(id="dialog") as box:
            box.border_title = "ranks"
            box.border_subtitle = "up/down choose  o others  escape closes"
            yield Paper(self._write)

    def on_mount(self) -> None:
        """Look again while something runs."""
        self.set_interval(_EVERY, self._renew)

    def action_choose(self, by: int) -> None:
        """Look at another rank."""
        self._turn(self._session.at + by)
        self._renew()

    def action_others(self) -> None:
        """Choose what the other ranks do while one is stepped."""
        if isinstance(self._session, LiveRanks):
            choices = list(Others)
            at = choices.index(self._session.others)
            self._session.choose_others(choices[(at + 1) % len(choices)])
            self._renew()

    def _renew(self) -> None:
        paper = self.query_one(Paper)
        paper.renew()
        paper.refresh(layout=True)

    def _write(self, width: int) -> list[Line]:
        session = self._session
        others = session.others.value if isinstance(session, LiveRanks) else ""
        return ranks(session.states(), session.at, others, width)
