"""Dialogs, each with a typed result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from pertdbg.app.lines import Line
from pertdbg.app.widgets.painter import Painter
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """A box over the panels; escape leaves it without a result."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "Close")]


class Paper(Painter):
    """Lines as long as they are, laid out for the width that there is."""

    DEFAULT_CSS = "Paper { height: auto; }"

    def __init__(self, text: Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._text = text

    def write(self, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write the text for a width."""
        return self._text(width)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:  # noqa: ARG002 - Textual's names
        """Count the lines for a width."""
        return max(len(self._text(width)), 1)


class Page(Dialog[None]):
    """A text to read and scroll; any of the keys that opened it closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [("q,question_mark,i,enter", "dismiss", "Close")]

    def __init__(self, title: str, write: Callable[[int], list[Line]]) -> None:
        """Prepare a page; `write` gives its lines for a width."""
        super().__init__()
        self._title, self._write = title, write

    def compose(self) -> ComposeResult:
        """Lay the text into a box that scrolls."""
        with VerticalScroll(id="dialog") as box:
            box.border_title = self._title
            box.border_subtitle = "escape closes"
            yield Paper(self._write)


class Ask(Dialog[str]):
    """A question with a button, and a key, for each answer."""

    def __init__(self, text: str, answers: Sequence[tuple[str, str, str]]) -> None:
        """Prepare a question.

        Args:
            text: The question.
            answers: Result, label and key of each answer.
        """
        super().__init__()
        self._text, self._answers = text, answers

    def compose(self) -> ComposeResult:
        """Lay the buttons under the question."""
        text = "\n".join(map(printable, self._text.split("\n")))
        with Vertical(id="dialog"):
            yield Static(text, markup=False)
            with Horizontal(id="buttons"):
                for result, label, key in self._answers:
                    yield Button(f"{label} ({key})", id=result, compact=True)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id)

    def on_key(self, event: events.Key) -> None:
        """Take an answer by its key, and move between the buttons."""
        if event.key in ("left", "right"):
            self.focus_previous() if event.key == "left" else self.focus_next()
        for result, _, key in self._answers:
            if event.key == key:
                event.stop()
                self.dismiss(result)


class AskLine(Dialog[T]):
    """A line to type; what `accept` refuses stays, with the reason under it."""

    def __init__(self, text: str, value: str, accept: Callable[[str], T]) -> None:
        """Prepare a question.

        Args:
            text: The question.
            value: What stands in the line at first.
            accept: Makes the result; raises `PertdbgError` for a line that it can't take.
        """
        super().__init__()
        self._text, self._value, self._accept = text, value, accept

    def compose(self) -> ComposeResult:
        """Lay the line under the question."""
        with Vertical(id="dialog"):
            yield Static(printable(self._text), markup=False)
            yield Input(self._value)
            yield Static("", id="problem", markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        try:
            self.dismiss(self._accept(event.value.strip()))
        except PertdbgError as error:
            self.query_one("#problem", Static).update(printable(str(error)))
