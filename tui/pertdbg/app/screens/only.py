"""The dialog in which it is chosen which calls are walked through and shown on the timeline."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widgets.option_list import Option

from pertdbg.app.screens.typed import Names, Said, Typed, option
from pertdbg.app.seek import Held, Only, Steps
from pertdbg.app.trying import condition_of
from pertdbg.conditions import Condition, complete
from pertdbg.errors import PertdbgError

_ASKED = "Pass over all calls but those where  EXPRESSION; layer NAME"


Chosen = tuple[Only | None]
"""What is left of all calls; None for all of them."""


class OnlySome(Typed[Chosen]):
    """A condition, a layer, or the last call of each training step."""

    def __init__(self, layers: Sequence[str]) -> None:
        """Prepare the dialog for the layers that there are."""
        super().__init__(_ASKED, "", "down list  escape closes", Names(complete))
        self._layers = layers

    def check(self, text: str) -> Said:
        """Say what is wrong with the condition."""
        try:
            if text:
                condition_of(text)
        except PertdbgError as error:
            return str(error), False
        return ("enter searches all calls" if text else "or choose below"), True

    def options(self) -> list[Option | None]:
        """List what can be chosen without typing."""
        return [
            option("all", ("all calls", "")),
            option("steps", ("the last call of each training step", "")),
            *(option(f"layer {name}", ("layer ", "dim"), (name, "")) for name in self._layers),
        ]

    def typed(self, text: str) -> None:
        """Take a condition."""
        try:
            self.dismiss((Held(condition_of(text)),))
        except PertdbgError as error:
            self.say((str(error), False))

    def picked(self, ident: str) -> None:
        """Take what was chosen."""
        kind, _, layer = ident.partition(" ")
        if kind == "layer":
            self.dismiss((Held(Condition("call > 0", layer=layer)),))
        else:
            self.dismiss((Steps() if kind == "steps" else None,))
