"""The dialog in which expressions are watched, or no more."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import Input
from textual.widgets.option_list import Option

from pertdbg.app.keys import WATCHES_BINDINGS
from pertdbg.app.panels.watch import written
from pertdbg.app.screens.typed import Names, Said, Typed, option
from pertdbg.app.watches import Watches
from pertdbg.conditions import complete, parse
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord


class Watching(Typed[str]):
    """An expression to add, and those that are watched."""

    BINDINGS: ClassVar[list[BindingType]] = WATCHES_BINDINGS

    def __init__(
        self, watches: Watches, record: CallRecord | None, previous: CallRecord | None
    ) -> None:
        """Prepare the dialog.

        Args:
            watches: What is watched; changed here.
            record: The call under the cursor.
            previous: The call of the same layer before it.
        """
        super().__init__(
            "Watch an expression over the record's fields",
            "",
            "enter adds  down list: x removes  escape closes",
            Names(complete),
        )
        self._watches, self._record, self._previous = watches, record, previous

    def check(self, text: str) -> Said:
        """Say what the expression is worth at the call under the cursor."""
        if not text:
            return "such as  gradient.norm / delta.norm , delta.beyond > 0 , len(shared)", True
        try:
            return self._worth(text), True
        except PertdbgError as error:
            return str(error), False

    def _worth(self, text: str) -> str:
        expression = parse(text)
        if self._record is None:
            return "there is no record here to try it on"
        value = expression.value(self._record, self._previous)
        if value is None:
            return f"unknown: {expression.why_unknown(self._record, self._previous)}"
        return f"here: {written(value)}"

    def options(self) -> list[Option | None]:
        """List what is watched."""
        return [option(str(place), (text, "")) for place, text in enumerate(self._watches.texts)]

    def typed(self, text: str) -> None:
        """Watch one more; nothing leaves."""
        if not text:
            self.dismiss(None)
            return
        try:
            self._watches.add(text)
            self.dismiss(text)
        except PertdbgError as error:
            self.say((str(error), False))

    def picked(self, ident: str) -> None:
        """Take an expression up again, to be changed."""
        line = self.query_one(Input)
        line.value = self._watches.texts[int(ident)]
        line.focus()

    def action_remove(self) -> None:
        """Watch the one that is chosen no more."""
        place = self.choices.highlighted
        if place is not None:
            self._watches.remove(place)
            self.renew()
