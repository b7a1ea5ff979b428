"""Keys that try something on the target: a change of it, or another scenario in its place."""

from __future__ import annotations

from pathlib import Path

from pertdbg.app.looker import Looker

_NOT_RUN = (
    "a change needs the target itself: open its scenario or script, not a recording or an "
    "attached run"
)


class Trier(Looker):
    """What is tried runs in processes of its own; the session stays as it is."""

    def action_whatif(self) -> None:
        """Choose a change, run the target with it up to this call, and see both."""
        from pertdbg.app.screens.whatif import WhatIfScreen

        target, record = self.session.target, self.view.record
        if target is None:
            self.hint(_NOT_RUN)
        elif record is None:
            self.hint("there is no call yet up to which a change could be run")
        else:
            layer = self.store.layer(record.layer)
            moment = self.view.inside
            line = record.source_line if moment is None else moment.event.line
            self.push_screen(WhatIfScreen(target, record.id, layer, line or 1))

    def action_browse(self) -> None:
        """Browse the scenarios that ship, and open one in the place of this session."""
        from pertdbg.app.screens.browser import Browser

        target = self.session.target
        current = "" if target is None else Path(target.scenario).stem
        self.push_screen(Browser(current), self._open_scenario)

    def _open_scenario(self, name: str | None) -> None:
        if name is not None:
            self.ask_to_quit(name)

    def ask_to_quit(self, wanted: str = "") -> None:
        """Quit, after asking where something would be lost; then open another scenario, if any."""
        raise NotImplementedError
