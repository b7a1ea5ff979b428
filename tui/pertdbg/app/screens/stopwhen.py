"""The dialog with the conditions to stop at, or to search a recording for."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.widgets.option_list import Option

from pertdbg.app.keys import STOPS_BINDINGS
from pertdbg.app.screens.typed import Names, Said, Typed, option
from pertdbg.app.stops import Stops
from pertdbg.app.trying import condition_of, held
from pertdbg.conditions import NAMED, Condition, complete
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord

_LIVE = "Stop when  EXPRESSION; after N hits; skip N; layer NAME; rank N"
_REPLAY = "Go to the next call where  EXPRESSION; layer NAME"
_KEYS = "down list: enter on/off  x remove  f first  . next  , previous"

Found = tuple[str, Condition]
"""What to do (`set`, `first`, `next`, `previous`), and with which condition."""


class StopWhen(Typed[Found]):
    """Conditions of one's own, those that are set, and those with names."""

    BINDINGS: ClassVar[list[BindingType]] = STOPS_BINDINGS

    def __init__(
        self,
        stops: Stops,
        proposed: str,
        record: CallRecord | None,
        previous: CallRecord | None,
        *,
        runs: bool,
    ) -> None:
        """Prepare the dialog.

        Args:
            stops: The conditions that are set; changed here.
            proposed: What stands in the line at first.
            record: The call under the cursor, on which the line is tried.
            previous: The call of the same layer before it.
            runs: Whether there is a target to stop.
        """
        super().__init__(_LIVE if runs else _REPLAY, proposed, _KEYS, Names(complete))
        self._stops, self._record, self._previous = stops, record, previous

    def check(self, text: str) -> Said:
        """Try the line on the call under the cursor."""
        if not text:
            return "or choose one below", True
        try:
            return held(condition_of(text), self._record, self._previous), True
        except PertdbgError as error:
            return str(error), False

    def options(self) -> list[Option | None]:
        """List the conditions that are set, then the named ones."""
        own = [
            option(
                f"set {place}", ("[x] " if stop.on else "[ ] ", ""), (str(stop.condition), "bold")
            )
            for place, stop in enumerate(self._stops.all)
        ]
        named = [
            option(f"named {name}", (f"{name:15} ", "bold"), (found.about, "dim"))
            for name, found in NAMED.items()
        ]
        return [*own, *([None] if own else []), *named]

    def typed(self, text: str) -> None:
        """Set the condition that was typed."""
        try:
            self.dismiss(("set", condition_of(text)))
        except PertdbgError as error:
            self.say((str(error), False))

    def picked(self, ident: str) -> None:
        """Set a named condition, or switch one that is set."""
        kind, _, rest = ident.partition(" ")
        if kind == "set":
            self._stops.toggle(int(rest))
            self.renew()
        else:
            self.dismiss(("set", Condition(rest)))

    def action_remove(self) -> None:
        """Forget the condition that is chosen in the list."""
        ident = self._chosen()
        if ident.startswith("set "):
            self._stops.remove(int(ident.removeprefix("set ")))
            self.renew()

    def action_seek(self, how: str) -> None:
        """Go where the condition holds that is chosen in the list."""
        kind, _, rest = self._chosen().partition(" ")
        if kind:
            found = self._stops.all[int(rest)].condition if kind == "set" else Condition(rest)
            self.dismiss((how, found))

    def _chosen(self) -> str:
        place = self.choices.highlighted
        chosen = None if place is None else self.choices.get_option_at_index(place).id
        return chosen or ""
