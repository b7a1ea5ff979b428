"""The dialog in which a stopped target, or a record, is asked for values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.suggester import Suggester
from textual.widgets import Input, Static

from pertdbg.answer import Answer
from pertdbg.app.keys import ASK_BINDINGS
from pertdbg.app.later import later
from pertdbg.app.lines import Line, wrap
from pertdbg.app.screens.dialogs import Ask, Dialog, Paper
from pertdbg.app.screens.typed import completed
from pertdbg.output.safe import printable

_ASKING = "asking… it is ended after a while, but not within one long call into C"

_KEPT = 200
"""Most answers that are kept in sight."""


@dataclass(frozen=True)
class Asked:
    """Who is asked, and how."""

    who: str
    """For a person."""
    ask: Callable[[str, bool], Awaitable[Answer]]
    complete: Callable[[str], Awaitable[list[str]]]
    open: Callable[[], Awaitable[str]] | None = None
    """Shows the values of the last answer; gives why they can't be seen, or nothing."""


class _Names(Suggester):
    """Completes the last name of a question."""

    def __init__(self, complete: Callable[[str], Awaitable[list[str]]]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._complete = complete

    async def get_suggestion(self, value: str) -> str | None:
        return completed(value, await self._complete(value)) if value.strip() else None


class AskTarget(Dialog[None]):
    """Questions and answers, the newest last, and a line to ask on."""

    BINDINGS: ClassVar[list[BindingType]] = ASK_BINDINGS

    def __init__(self, asked: Asked, answers: list[Answer], history: list[str]) -> None:
        """Prepare the dialog.

        Args:
            asked: Who is asked.
            answers: Those so far; added to here.
            history: Questions so far, the newest last; added to here.
        """
        super().__init__()
        self._asked, self._answers, self._history = asked, answers, history
        self._at = len(history)

    def compose(self) -> ComposeResult:
        """Lay the line under the answers."""
        with Vertical(id="dialog") as box:
            box.border_title = printable(f"ask {self._asked.who}")
            opens = "" if self._asked.open is None else "ctrl+o values  "
            box.border_subtitle = f"up/down history  right completes  {opens}escape closes"
            with VerticalScroll(id="answers", can_focus=False):
                yield Paper(self._write)
            yield Input(suggester=_Names(self._asked.complete))
            yield Static("", id="said", markup=False)

    def on_mount(self) -> None:
        """Begin with the line."""
        self.query_one(Input).focus()
        self.call_after_refresh(self._show)

    def action_earlier(self) -> None:
        """Take up the question before."""
        self._recall(-1)

    def action_later(self) -> None:
        """Take up the question after, or an empty line."""
        self._recall(1)

    def action_open(self) -> None:
        """Show the values of the tensor that was the last answer."""
        if self._asked.open is not None:
            self.run_worker(later(self._open, self._asked.open), group="ask", exclusive=True)
        else:
            self._say("only a stopped target's answers can be opened")

    async def _open(self, show: Callable[[], Awaitable[str]]) -> None:
        self._say("the target is storing it…")
        self._say(printable(await show()))

    def _say(self, text: str) -> None:
        self.query_one("#said", Static).update(text)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if text:
            if self._history[-1:] != [text]:
                self._history.append(text)
            self._at = len(self._history)
            event.input.clear()
            self._put(text, confirmed=False)

    def _put(self, text: str, *, confirmed: bool) -> None:
        self._say(_ASKING)
        self.run_worker(later(self._hear, text, confirmed), group="ask", exclusive=True)

    async def _hear(self, text: str, confirmed: bool) -> None:
        answer = await self._asked.ask(text, confirmed)
        self._say("")
        if answer.confirm:
            doubt = f"{text}\n\nIt may change the target: {'; '.join(answer.confirm)}. Run it?"
            answers = [("run", "Run it", "r"), ("no", "Don't", "d")]

            def confirmed_by(result: str | None) -> None:
                if result == "run":
                    self._put(text, confirmed=True)

            self.app.push_screen(Ask(doubt, answers), confirmed_by)
        self._answers.append(answer)
        del self._answers[:-_KEPT]
        self._show()

    def _show(self) -> None:
        paper = self.query_one(Paper)
        paper.renew()
        paper.refresh(layout=True)
        self.query_one("#answers", VerticalScroll).scroll_end(animate=False)

    def _recall(self, by: int) -> None:
        self._at = min(max(self._at + by, 0), len(self._history))
        line = self.query_one(Input)
        line.value = self._history[self._at] if self._at < len(self._history) else ""
        line.cursor_position = len(line.value)

    def _write(self, width: int) -> list[Line]:
        if not self._answers:
            return wrap("nothing was asked yet", width, "dim")
        return [line for answer in self._answers for line in _written(answer, width)]


def _written(answer: Answer, width: int) -> list[Line]:
    """Write a question and its answer, which is a summary: never all of a large tensor."""
    lines = wrap(printable(f"> {answer.text}"), width, "strong")
    lines += wrap(printable(answer.line), width, "bad" if answer.error else "")
    for change in answer.changed:
        lines += wrap(printable(f"changed: {change}"), width, "warn")
    if answer.bound:
        lines += wrap(printable(f"known from now on: {', '.join(answer.bound)}"), width, "dim")
    return lines
