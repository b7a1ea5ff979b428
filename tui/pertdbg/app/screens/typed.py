"""A line to type that is looked at while one types, with a list to choose from under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.suggester import Suggester
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from pertdbg.app.screens.dialogs import Dialog
from pertdbg.output.safe import printable

T = TypeVar("T")

Said = tuple[str, bool]
"""What is said under the line, and whether the line is right."""


class Names(Suggester):
    """Completes the last name of an expression."""

    def __init__(self, complete: Callable[[str], Sequence[str]]) -> None:
        """Prepare a suggester; `complete` gives the whole names that may stand at the end."""
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        """Give the text with its last name completed."""
        return completed(value, self._complete(value))


def completed(text: str, names: Sequence[str]) -> str | None:
    """Give a text with its last name completed by the first of some names that can."""
    for name in names:
        for size in range(min(len(name) - 1, len(text)), 0, -1):
            if text.endswith(name[:size]):
                return text + name[size:]
    return None


class Typed(Dialog[T]):
    """Enter takes the line, or what is chosen in the list; down goes there and up comes back."""

    LIST_BINDINGS: ClassVar[list[BindingType]] = []
    """Keys that the list has of its own."""

    def __init__(
        self, text: str, value: str = "", keys: str = "", suggester: Suggester | None = None
    ) -> None:
        """Prepare a question.

        Args:
            text: What is to be typed.
            value: What stands in the line at first.
            keys: Keys that are worth a word at the lower border.
            suggester: Completes the line.
        """
        super().__init__()
        self._text, self._value, self._keys, self._suggester = text, value, keys, suggester

    def compose(self) -> ComposeResult:
        """Lay the list under the line."""
        with Vertical(id="dialog") as box:
            box.border_subtitle = self._keys
            yield Static(printable(self._text), markup=False)
            yield Input(self._value, suggester=self._suggester)
            yield Static("", id="said", markup=False)
            yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Fill the list, and say what there is to say of the first value."""
        self.renew()
        self.say(self.check(self._value))

    @property
    def line(self) -> str:
        """What is typed."""
        return self.query_one(Input).value.strip()

    @property
    def choices(self) -> OptionList:
        """The list under the line."""
        return self.query_one(OptionList)

    def check(self, text: str) -> Said:
        """Say what there is to say of a line that may not be whole yet."""
        raise NotImplementedError

    def options(self) -> list[Option | None]:
        """Give what can be chosen; None draws a line."""
        raise NotImplementedError

    def typed(self, text: str) -> None:
        """Take a line."""
        raise NotImplementedError

    def picked(self, ident: str) -> None:
        """Take what was chosen."""
        raise NotImplementedError

    def renew(self) -> None:
        """Fill the list again, and stay at the same place."""
        place = self.choices.highlighted
        self.choices.clear_options()
        self.choices.add_options(self.options())
        if place is not None and self.choices.option_count:
            self.choices.highlighted = min(place, self.choices.option_count - 1)

    def say(self, said: Said) -> None:
        """Say something under the line."""
        text, right = said
        words = self.query_one("#said", Static)
        words.update(printable(text))
        words.set_class(not right, "-wrong")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self.say(self.check(event.value.strip()))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.typed(event.value.strip())

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        if event.option.id is not None:
            self.picked(event.option.id)

    def on_key(self, event: events.Key) -> None:
        """Go from the line to the list, and back from its first place."""
        if event.key == "down" and self.query_one(Input).has_focus and self.choices.option_count:
            event.stop()
            self.choices.focus()
            self.choices.action_first()
        elif event.key == "up" and self.choices.has_focus and self.choices.highlighted in (0, None):
            event.stop()
            event.prevent_default()
            self.query_one(Input).focus()


def option(ident: str, *parts: tuple[str, str]) -> Option:
    """Give a line of a list, of texts and their styles."""
    text = Text()
    for part, style in parts:
        text.append(printable(part), style)
    return Option(text, id=ident)
