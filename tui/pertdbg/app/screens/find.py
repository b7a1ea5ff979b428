"""The dialog that searches source, output, layers, findings and values."""

from __future__ import annotations

import time
from asyncio import sleep
from collections.abc import Callable, Iterator

from textual.widgets.option_list import Option

from pertdbg.app.hits import MOST, Hit
from pertdbg.app.later import later
from pertdbg.app.numbers import count
from pertdbg.app.screens.typed import Said, Typed, option
from pertdbg.errors import PertdbgError
from pertdbg.output.words import several

_WAIT = 0.2
"""Seconds without a key after which a search begins."""

_BREATH = 0.015
"""Seconds of a search after which keys and pixels have their turn."""

_SHOWN = 0.2
"""Seconds between two looks at what was found so far."""


class Find(Typed[Hit]):
    """A text, and the places where it stands, found while one types on."""

    def __init__(self, text: str, search: Callable[[str], Iterator[Hit | None]]) -> None:
        """Prepare the dialog; `search` gives None while it goes on."""
        super().__init__(
            "Find in source, output, layers, findings and values",
            text,
            "enter or down list, enter goes there  escape closes",
        )
        self._search = search
        self._hits: list[Hit] = []

    def check(self, text: str) -> Said:
        """Begin another search."""
        self._hits = []
        self.renew()
        self.run_worker(later(self._find, text), group="find", exclusive=True)
        return ("searching…" if text else "such as  clamp , nan , gradient.norm , is_leaf"), True

    def options(self) -> list[Option | None]:
        """List what was found so far."""
        return [
            option(str(place), (f"{hit.kind:8}", "bold"), (_where(hit), "dim"), (hit.text, ""))
            for place, hit in enumerate(self._hits)
        ]

    def typed(self, text: str) -> None:
        """Go to the first place."""
        if self._hits:
            self.dismiss(self._hits[0])
        elif not text:
            self.dismiss(None)

    def picked(self, ident: str) -> None:
        """Go to a place."""
        self.dismiss(self._hits[int(ident)])

    async def _find(self, text: str) -> None:
        if not text:
            return
        await sleep(_WAIT)
        due = shown = time.monotonic()
        try:
            for hit in self._search(text):
                self._hits += [] if hit is None else [hit]
                if len(self._hits) >= MOST:
                    break
                if time.monotonic() - due > _BREATH:
                    if time.monotonic() - shown > _SHOWN:
                        self._show(f"searching… {self._said()}")
                        shown = time.monotonic()
                    await sleep(0)
                    due = time.monotonic()
        except PertdbgError as error:
            self._show(str(error))
            return
        self._show(self._said())

    def _show(self, said: str) -> None:
        if len(self._hits) != self.choices.option_count:
            self.renew()
        self.say((said, True))

    def _said(self) -> str:
        if len(self._hits) >= MOST:
            return f"the first {count(MOST)} places; type more to have fewer"
        return several(len(self._hits), "place") if self._hits else "nothing found"


def _where(hit: Hit) -> str:
    return "" if hit.id is None else f"#{count(hit.id)}  "
