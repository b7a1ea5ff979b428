"""The screen with the panels: which are there at which size, and which is enlarged."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static

from pertdbg.app.panels.status import Progress
from pertdbg.app.store import View
from pertdbg.app.widgets.bars import StatusBar, Timeline
from pertdbg.app.widgets.painter import STYLES
from pertdbg.app.widgets.panel import PANELS, Panel, SourcePanel, Welcome
from pertdbg.session import State

_ALWAYS = frozenset({"gradient", "delta", "leaf", "storage"})
_OVER = (State.ENDED, State.REPLAY)
_SHARED = ("source", "output", "watch", "findings")
"""Panels that take turns in one place where there is not room for both."""

_BESIDE = (
    *(("source", "output"), ("output", "source"), ("watch", "output")),
    ("findings", "output"),
)
"""Each of them with the one that is named beside it."""

_PICTURED = 10
"""Lines from which the delta panel draws a histogram worth a look."""

_TOO_SMALL = "pertdbg needs a larger terminal:\nat least 40x10, better 80x24"
_ONE = " one panel (keys 1-8); four from 60x16"


class MainScreen(Screen[None]):
    """Status bar, panels, timeline and footer."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLES
    AUTO_FOCUS = "#gradient"

    class Ready(Message):
        """The panels are there to be filled."""

    class Rearranged(Message):
        """Other panels are seen, or in another size."""

    def __init__(self, *, empty: bool) -> None:
        """Make the panels.

        Args:
            empty: Whether there is no call yet to fill them with.
        """
        super().__init__(classes="-empty" if empty else None)
        self.status, self.timeline = StatusBar(id="status"), Timeline()
        self.welcome = Welcome()
        self.panels = {kind.NAME: kind() for kind in PANELS}
        self.chosen = "gradient"
        self._borrowed = False
        """Whether a panel is alone because the size leaves it no place among the others."""

    def compose(self) -> ComposeResult:
        """Make every panel once; the style sheet places and hides them."""
        yield self.status
        yield Static(_ONE, id="small-note", markup=False)
        yield Static(_TOO_SMALL, id="too-small", markup=False)
        with Container(id="panels"):
            yield self.welcome
            yield from self.panels.values()
        yield self.timeline
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin with the first panel chosen, and the output in the shared place."""
        self.panels["gradient"].add_class("-chosen")
        self.panels["output"].add_class("-slot")
        self.post_message(self.Ready())

    def show(self, view: View, progress: Progress, hint: str, loading: str) -> None:
        """Show a call everywhere; before the first one, what to look for and how far it is."""
        empty = view.cursor == 0
        if empty != self.has_class("-empty"):
            self.set_class(empty, "-empty")
            self.call_after_refresh(self.panels[self.chosen].focus)
        self.welcome.progress = loading
        for panel in (self.welcome,) if empty else self.panels.values():
            panel.show(view)
        self.show_bars(view, progress, hint)

    def show_bars(self, view: View, progress: Progress, hint: str) -> None:
        """Show the call and the progress in the bars alone."""
        store = view.store
        self.status.show(view, progress, hint, source=not self._in_grid("source"))
        self.timeline.show(view, open_end=store.session.state not in _OVER)

    def choose(self, name: str) -> None:
        """Give a panel the focus; alone where the size leaves it no place among the others."""
        alone = self.has_class("-one")
        if alone and self._borrowed and name == self.chosen:
            self.restore()
            return
        if name in _SHARED:
            self._share(name)
        if not self._in_grid(name):
            self._borrowed = self._borrowed or not alone
            self.add_class("-one")
        elif self._borrowed:
            self.remove_class("-one")
            self._borrowed = False
        self._mark_chosen(name)
        self.panels[name].focus()
        self._rearranged()

    def enlarge(self) -> None:
        """Show the chosen panel alone, or all again."""
        if self.has_class("-one"):
            self.restore()
        else:
            self.add_class("-one")
            self._rearranged()

    def restore(self) -> None:
        """Show all panels."""
        self.remove_class("-one")
        self._borrowed = False
        if not self._in_grid(self.chosen):
            self._mark_chosen("gradient")
        self.panels[self.chosen].focus()
        self._rearranged()

    def looks(self) -> frozenset[str]:
        """Say which pictures can be seen."""
        if self.panels["map"].display:
            return frozenset({"histogram", "map"})
        delta = self.panels["delta"]
        tall = delta.display and delta.size.height >= _PICTURED
        return frozenset({"histogram"} if tall else ())

    @on(events.DescendantFocus)
    def _focused(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, Panel) and event.widget.NAME in self.panels:
            self._mark_chosen(event.widget.NAME)

    @on(Panel.Enlarged)
    def _enlarged(self) -> None:
        self.enlarge()

    def on_resize(self) -> None:
        """See what the new size shows."""
        self._rearranged()

    def _rearranged(self) -> None:
        self._name_shared()
        self.call_after_refresh(self.post_message, self.Rearranged())

    def _in_grid(self, name: str) -> bool:
        roomy = self.has_class("-tall") or self.has_class("-grand")
        return name in _ALWAYS or (roomy and not self.has_class("-small", "-low"))

    def _mark_chosen(self, name: str) -> None:
        self.panels[self.chosen].remove_class("-chosen")
        self.chosen = name
        self.panels[name].add_class("-chosen")

    def is_seen(self, name: str) -> bool:
        """Say whether a panel has a place on the screen."""
        return bool(self.panels[name].display and self.panels[name].region.area)

    def offer(self, name: str) -> None:
        """Let a panel have the shared place, where there is one, and leave the focus."""
        if self._in_grid(name) and not self.is_seen(name) and not self.has_class("-one"):
            self._share(name)
            self._rearranged()

    def show_line(self, number: int) -> None:
        """Show the source at a line of its file."""
        if not self.is_seen("source"):
            self.choose("source")
        panel = self.panels["source"]
        assert isinstance(panel, SourcePanel)  # noqa: S101 - as it was made
        self.call_after_refresh(panel.show_line, number)

    def _share(self, name: str) -> None:
        self.set_class(name in ("watch", "findings"), "-watching")
        for other in _SHARED:
            self.panels[other].set_class(other == name, "-slot")

    def _name_shared(self) -> None:
        """Say in the title of the shared place which other panel can come there."""
        for name, other in _BESIDE:
            title = self.panels[name].TITLE
            shared = name in ("watch", "findings") or not self.has_class("-wide")
            hint = f"  ({self.panels[other].TITLE})" if shared else ""
            self.panels[name].border_title = title + hint
