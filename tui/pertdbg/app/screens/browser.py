"""The screen on which the scenarios that ship are browsed, what each shows beside its name."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input, OptionList

from pertdbg.app.keys import BROWSER_BINDINGS
from pertdbg.app.lines import Line, wrap
from pertdbg.app.screens.dialogs import Dialog, Paper
from pertdbg.app.screens.typed import option
from pertdbg.output.safe import printable
from pertdbg.scenario import library


class Browser(Dialog[str]):
    """A list to search, and the text of the one that is chosen; its result is a name."""

    BINDINGS: ClassVar[list[BindingType]] = BROWSER_BINDINGS

    def __init__(self, current: str) -> None:
        """Prepare the screen; `current` is the name of the scenario that is open, if one is."""
        super().__init__(classes="-whole")
        self._current = current
        self._all = {name: library.introduction(library.find(name)) for name in library.names()}
        self._chosen = current if current in self._all else library.DEFAULT
        self.paper = Paper(self._write)

    def compose(self) -> ComposeResult:
        """Lay the text beside the list."""
        with Vertical(id="dialog") as box:
            box.border_title = "scenarios"
            box.border_subtitle = "type to search  up/down  enter opens  escape closes"
            yield Input(placeholder="search names, titles and texts")
            with Horizontal(id="browser"):
                yield OptionList(markup=False)
                with VerticalScroll():
                    yield self.paper

    def on_mount(self) -> None:
        """Fill the list."""
        self._fill("")
        self.query_one(Input).focus()

    def _fill(self, wanted: str) -> None:
        words = wanted.casefold().split()
        found = [
            name
            for name, text in self._all.items()
            if all(word in " ".join((name, *text)).casefold() for word in words)
        ]
        choices = self.query_one(OptionList)
        choices.clear_options()
        choices.add_options([option(name, (name, "")) for name in found])
        if found:
            choices.highlighted = found.index(self._chosen) if self._chosen in found else 0
        else:
            self._chosen = ""
            self._renew()

    @on(Input.Changed)
    def _searched(self, event: Input.Changed) -> None:
        self._fill(event.value)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._chosen = event.option.id or ""
        self._renew()

    @on(OptionList.OptionSelected)
    @on(Input.Submitted)
    def _open(self) -> None:
        if self._chosen:
            self.dismiss(self._chosen)

    def action_move(self, by: int) -> None:
        """Choose another one, from within the line too."""
        choices = self.query_one(OptionList)
        if choices.option_count:
            place = (choices.highlighted or 0) + by
            choices.highlighted = max(0, min(place, choices.option_count - 1))

    def _renew(self) -> None:
        self.paper.renew()
        self.paper.refresh(layout=True)

    def _write(self, width: int) -> list[Line]:
        if not self._chosen:
            return wrap("no scenario has these words", width, "warn")
        title, about = self._all[self._chosen]
        lines = wrap(printable(title), width, "strong")
        if self._chosen == self._current:
            lines += wrap("this is the one that is open", width, "dim")
        for paragraph in about.split("\n\n"):
            lines += [[], *wrap(printable(" ".join(paragraph.split())), width)]
        return lines
