"""Keys that go from finding to finding, while the recording is looked through beside all else."""

from __future__ import annotations

from pertdbg.app.asker import Asker
from pertdbg.app.faults import Faults

_SLICE = 0.01
"""Seconds that are looked on at a time; keys and pixels come between."""

_PAUSE = 0.05


class Inspector(Asker):
    """Names faults as the calls come."""

    _inspects = False

    @property
    def faults(self) -> Faults:
        """What has been found."""
        return self.store.faults

    async def on_mount(self) -> None:  # Textual calls those of the base classes too
        """Begin with what is recorded already, once the first frame is painted."""
        self.call_after_refresh(self._inspect_soon)

    def look_on(self) -> None:
        """Look at the new calls too, before long."""
        super().look_on()
        self._inspect_soon()

    def _inspect_soon(self) -> None:
        if not self._inspects and self.is_running:
            self._inspects = True
            self.set_timer(_PAUSE, self._inspect)

    def _inspect(self) -> None:
        self._inspects = False
        before = self._found()
        more = self.faults.go_on(self.store.recording, _SLICE)
        if self._found() != before:
            self.store.marks.recount()
            self.show()
        else:  # more calls may show what was found before
            self.main.panels["findings"].renew()
        if more:
            self._inspect_soon()

    def _found(self) -> tuple[list[int], int, bool]:
        """Give what of the findings is seen outside of their own panel."""
        return self.faults.marked, len(self.faults.all), self.faults.looking

    def action_finding(self, forward: bool) -> None:
        """Move to the next or the previous call at which something is first found wrong."""
        found = self.faults.next(self.cursor, forward=forward)
        if found is not None:
            self.follow = found == self.store.head
            self.move(found)
        elif self.faults.looking:
            self.hint("none so far; the recording is still being looked at")
        else:
            self.hint("no later finding" if forward else "no earlier finding")
