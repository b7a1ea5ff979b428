"""The screen on which a run and the same run with a change stand side by side, panel by panel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical

from pertdbg.ablation.classify import first_sentence
from pertdbg.app.keys import SIDES_BINDINGS
from pertdbg.app.lines import Line, clip, wrap
from pertdbg.app.numbers import count
from pertdbg.app.panels.delta import delta
from pertdbg.app.panels.gradient import gradient
from pertdbg.app.panels.leaf import leaf
from pertdbg.app.panels.storage import storage
from pertdbg.app.screens.dialogs import Page
from pertdbg.app.screens.versus import Compare
from pertdbg.app.versus import Pair, Versus
from pertdbg.app.whatif import Change
from pertdbg.app.widgets.painter import Painter
from pertdbg.output.safe import printable
from pertdbg.output.words import several
from pertdbg.record import CallRecord
from pertdbg.recording.parts import LayerSource

_GHOST = Style(strike=True, dim=True)
"""How what was taken out of a line looks."""

_MARK = "≠ "
"""Stands before a line that differs between the two."""

_WHOLE = 40
"""Lines in which the leaf panel leaves nothing out."""

_ADDRESS = re.compile(r"0x[0-9a-f]+")
"""What two processes never have in common, and what means nothing."""

Write = Callable[[CallRecord, int, int], list[Line]]

_WRITERS: dict[str, Write] = {
    "gradient": lambda record, width, height: gradient(record, None, None, width, height),
    "delta": delta,
    "leaf": lambda record, width, height: leaf(record, width, max(height, _WHOLE)),
    "storage": lambda record, width, height: storage(record, width),  # noqa: ARG005 - as the others
}
_TITLES = {name: f"{place} {name}" for place, name in enumerate(_WRITERS, 1)}
_PANEL_OF = {
    **dict.fromkeys(("delta", "effect"), "delta"),
    **dict.fromkeys(("tensors", "backward_reaches", "graph"), "leaf"),
    **dict.fromkeys(("storages", "shared"), "storage"),
}
"""The panel that shows a fact, by the first part of its path; the gradient's for all others."""


class Sides(Compare):
    """Four panels for each of the two runs, which go from call to call together."""

    BINDINGS: ClassVar[list[BindingType]] = SIDES_BINDINGS

    def __init__(self, both: Versus, change: Change, ended: str, layer: LayerSource | None) -> None:
        """Prepare the screen; both recordings are closed with it.

        Args:
            both: The whole run and the one with the change.
            change: The change.
            ended: What ended the run with the change, if anything did.
            layer: Source of the update method.
        """
        super().__init__(both)
        self._names = ("as it is", change.label)
        self._change, self._ended, self._layer = change, ended, layer
        self._sought = False
        """Whether a difference was looked for, whose panel is then the one to see."""
        self.panels = [Side(name, side, lambda: self.pair) for name in _WRITERS for side in (0, 1)]
        self.head = Said(lambda width: self._heading(width))

    def compose(self) -> ComposeResult:
        """Lay the panels in two columns, under the line that is changed and what differs."""
        with Vertical(id="dialog", classes="-sides") as box:
            box.border_title = printable(f"{self._names[0]}  │  {self._names[1]}")
            box.border_subtitle = "n/p call  f/F difference  g first  1-4 panel  d facts  escape"
            yield self.head
            with Container(id="sides"):
                yield from self.panels

    def on_mount(self) -> None:
        """Begin at the first difference."""
        self.choose("gradient")
        self.action_first()

    def on_unmount(self) -> None:
        """Let go of both recordings."""
        self._both.a.close()
        super().on_unmount()

    def on_resize(self, event: events.Resize) -> None:
        """Show one panel of each where there is not room for four."""
        roomy = event.size.width >= 100 and event.size.height >= 32
        self.query_one("#sides").set_class(not roomy, "-one")

    def choose(self, name: str) -> None:
        """Choose the panel that is shown where there is room for one."""
        for panel in self.panels:
            panel.set_class(panel.shows == name, "-chosen")

    def action_panel(self, name: str) -> None:
        """Choose a panel."""
        self.choose(name)

    def action_facts(self) -> None:
        """Show every fact of both records."""
        from pertdbg.app.panels.versus import versus

        pair = self.pair
        self.app.push_screen(Page("facts", lambda width: versus(pair, self._names, "", width)))

    def _search(self, forward: bool, *, first: bool) -> None:
        self._sought = True
        super()._search(forward, first=first)

    def _show(self, said: str) -> None:
        super()._show(said)
        found = self.pair.found
        if self._sought and found:
            part = found[0].fact.partition(".")[0]
            self.choose(_PANEL_OF.get(part, "gradient"))
        self._sought = False

    def _say(self, said: str) -> None:
        self._said = said
        self.head.renew()
        self.head.refresh(layout=True)
        for panel in self.panels:
            panel.renew()

    def _heading(self, width: int) -> list[Line]:
        lines = [clip(line, width) for line in self._changed_line()]
        lines += _verdict(self.pair, width)
        if self._ended:
            text = f"with the change the run ends: {printable(first_sentence(self._ended))}"
            lines += wrap(text, width, "bad")[:2]
        return lines + (wrap(printable(self._said), width, "dim") if self._said else [])

    def _changed_line(self) -> list[Line]:
        """Give the source line, with what is taken out of it ghosted."""
        change, guard = self._change, self._change.guard
        if change.was:
            (number,) = change.variant.lines
            was, now = change.was.strip(), change.variant.lines[number].strip()
            at = f"{number:5} "
            return [
                [(at, "dim"), (printable(was), _GHOST)],
                [(at, "dim"), (printable(now), "strong")],
            ]
        layer = self._layer
        if guard is None or layer is None or layer.source is None or guard.file != layer.file:
            return [[(printable(change.label), "strong")]]
        row = guard.line - (layer.first_line or 1)
        source = layer.source.splitlines()
        if not 0 <= row < len(source):  # the guard stands in a function that the update calls
            return [[(printable(change.label), "strong")]]
        return [[(f"{guard.line:5} ", "dim"), *_ghosted(source[row], guard.removed, guard.line)]]


class Said(Painter):
    """The lines above the panels, as many as there are."""

    def __init__(self, text: Callable[[int], list[Line]]) -> None:
        super().__init__(id="heading")
        self._text = text

    def write(self, width: int, height: int) -> list[Line]:  # noqa: ARG002 - as the others
        """Write them for a width."""
        return self._text(width)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:  # noqa: ARG002 - Textual's names
        """Count them."""
        return max(len(self._text(width)), 1)


class Side(Painter):
    """A panel of one of the two runs; what the other one has otherwise is marked."""

    def __init__(self, name: str, side: int, pair: Callable[[], Pair]) -> None:
        super().__init__(classes=f"side -{name}")
        self.shows, self._side, self._pair = name, side, pair
        self.border_title = _TITLES[name]

    def write(self, width: int, height: int) -> list[Line]:
        """Write the panel, with a mark at each line that differs."""
        pair = self._pair()
        record = (pair.a, pair.b)[self._side]
        if record is None:
            return wrap(
                printable(pair.problem) or "there is no such call in this run", width, "warn"
            )
        room = width - len(_MARK)
        own, other = (
            [] if one is None else _WRITERS[self.shows](one, room, height)
            for one in (record, (pair.b, pair.a)[self._side])
        )
        known = {_text(line) for line in other}
        marks = [_text(line) not in known for line in own]
        lines = [
            [(_MARK if differs else "  ", "changed"), *line]
            for differs, line in zip(marks, own, strict=True)
        ]
        return _in_sight(lines, marks, height)


def _in_sight(lines: list[Line], marks: list[bool], height: int) -> list[Line]:
    """Leave lines out behind the first one where the differing ones would not be seen else."""
    last = max((row for row, differs in enumerate(marks) if differs), default=0)
    hidden = last + 1 - height
    return lines if hidden <= 0 else [lines[0], *lines[1 + hidden :]]


def _text(line: Line) -> str:
    return _ADDRESS.sub("", "".join(text for text, _ in line)).strip()


def _verdict(pair: Pair, width: int) -> list[Line]:
    there = pair.a or pair.b
    if there is None:
        return wrap(printable(pair.problem) or "there is no call", width, "warn")
    call = f"call {count(there.call)} of {printable(there.layer)}"
    if pair.a is None or pair.b is None:
        missing = "as it is" if pair.a is None else "with the change"
        return wrap(f"{call}: there is none {missing}", width, "warn")
    if not pair.found:
        return wrap(f"{call}: nothing differs", width, "ok")
    first, many = printable(pair.found[0].fact), several(len(pair.found), "fact")
    return wrap(f"{call}: {many} differ, {first} first", width, "note")


def _ghosted(text: str, removed: tuple[tuple[int, int, int, int], ...], number: int) -> Line:
    """Cut a line where something is taken out of it."""
    pieces: Line = []
    at = 0
    for line, left, last, right in removed:
        if line != number:
            continue
        end = right - 1 if last == line else len(text)
        pieces += [(printable(text[at : left - 1]), ""), (printable(text[left - 1 : end]), _GHOST)]
        at = end
    return [*pieces, (printable(text[at:]), "")]
