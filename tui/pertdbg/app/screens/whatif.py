"""The screen on which a change of the target is chosen, run, looked at and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from pertdbg.ablation.variant import Target
from pertdbg.app.files import free_name
from pertdbg.app.keys import WHATIF_BINDINGS
from pertdbg.app.lines import wrap
from pertdbg.app.numbers import count
from pertdbg.app.screens.dialogs import AskLine, Dialog, Page
from pertdbg.app.screens.sides import Sides
from pertdbg.app.screens.typed import option
from pertdbg.app.versus import Versus
from pertdbg.app.whatif import Change, WhatIf, kept
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.recording.parts import LayerSource
from pertdbg.recording.reader import Recording
from pertdbg.scenario import library

_ABOUT = "What if?  Each change is run in a process of its own up to this call; no file is changed."


class WhatIfScreen(Dialog[None]):
    """Guards to take out, values and lines to change; enter runs one and shows both runs."""

    BINDINGS: ClassVar[list[BindingType]] = WHATIF_BINDINGS

    def __init__(self, target: Target, call: int, layer: LayerSource | None, line: int) -> None:
        """Prepare the screen.

        Args:
            target: What is run.
            call: Id of the call that is looked at; the runs are made up to it.
            layer: Source of the update method.
            line: Line of its file that is looked at.
        """
        super().__init__(classes="-whole")
        self._target, self._call, self._layer, self._line = target, call, layer, line
        self._whatif: WhatIf | None = None
        self._tried: dict[str, Change] = {}
        """Changes that were run, by the option that stands for each."""

    def compose(self) -> ComposeResult:
        """Lay the list under what is said."""
        with Vertical(id="dialog") as box:
            box.border_title = "what if"
            box.border_subtitle = "enter runs  k keeps as a scenario  x explains all  escape closes"
            yield Static(_ABOUT, markup=False)
            yield Static("running the target whole…", id="said", markup=False)
            yield OptionList(markup=False)

    def on_mount(self) -> None:
        """Run the target whole, which shows what there is to change."""
        self.run_worker(self._begin, thread=True, group="whatif")

    def on_unmount(self) -> None:
        """End the process of the runs."""
        if self._whatif is not None:
            self._whatif.close()

    def _begin(self) -> None:
        try:
            found = WhatIf(self._target, self._call)
        except PertdbgError as error:
            self.app.call_from_thread(self.say, str(error), wrong=True)
            return
        self.app.call_from_thread(self._ready, found)

    def _ready(self, found: WhatIf) -> None:
        if not self.is_attached:  # left meanwhile
            found.close()
            return
        self._whatif = found
        self.say(f"{count(self._call)} calls are run each time")
        self._fill()

    def _fill(self) -> None:
        if self._whatif is None:
            return
        choices = self.query_one(OptionList)
        place = choices.highlighted
        choices.clear_options()
        choices.add_options(self._options(self._whatif))
        choices.highlighted = place or 0
        choices.focus()

    def _options(self, whatif: WhatIf) -> list[Option | None]:
        tried = [
            option(ident, ("again     ", "dim"), (change.label, "bold"))
            for ident, change in self._tried.items()
        ]
        guards = [
            option(
                f"guard {place}",
                ("take out  ", "dim"),
                (f"line {guard.line:<5}", "dim"),
                (guard.text, "bold"),
                (f"  {guard.kind}", "dim"),
            )
            for place, guard in enumerate(whatif.guards)
        ]
        lines = [option("line", ("edit      ", "dim"), ("a line of the update…", "bold"))]
        numbers = [
            option(
                f"number {place}",
                ("change    ", "dim"),
                (number.key, "bold"),
                (f" = {number.value}", ""),
            )
            for place, number in enumerate(whatif.numbers)
        ]
        return [*tried, *([None] if tried else []), *guards, *lines, *numbers]

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        whatif, ident = self._whatif, event.option.id or ""
        kind, _, place = ident.partition(" ")
        if whatif is None:
            return
        if ident in self._tried:
            self._run(self._tried[ident])
        elif kind == "guard":
            self._run(whatif.without(whatif.guards[int(place)]))
        elif kind == "number":
            number = whatif.numbers[int(place)]

            def accept(text: str) -> Change:
                return whatif.value(number, number.other(text))

            self.app.push_screen(AskLine(number.key, str(number.value), accept), self._run)
        elif self._layer is None or self._layer.source is None:
            self.say("there is no source whose lines could be edited", wrong=True)
        else:
            text = f"Which line of {Path(self._layer.file or '').name}?"
            self.app.push_screen(AskLine(text, str(self._line), self._line_of), self._edit)

    def _line_of(self, text: str) -> int:
        first, lines = self._lines()
        if not text.isdecimal() or not first <= int(text) < first + len(lines):
            raise PertdbgError(f"a number from {first} to {first + len(lines) - 1}")
        return int(text)

    def _edit(self, number: int | None) -> None:
        whatif = self._whatif
        if number is None or whatif is None:
            return
        first, lines = self._lines()
        was = lines[number - first]
        indent = was[: len(was) - len(was.lstrip())]

        def accept(text: str) -> Change:
            return whatif.line(number, was, indent + text.strip())

        self.app.push_screen(AskLine(f"Line {number}", was.strip(), accept), self._run)

    def _lines(self) -> tuple[int, list[str]]:
        layer = self._layer
        source = "" if layer is None or layer.source is None else layer.source
        return (1 if layer is None else layer.first_line or 1), source.splitlines()

    def _run(self, change: Change | None) -> None:
        if change is not None and self._whatif is not None:
            self.say(f"running {change.label}…")
            run = self._whatif.run
            self._work(lambda: run(change), lambda both: self._show(change, both))

    def _work(self, work: Callable[[], object], then: Callable[..., None]) -> None:
        """Do in a thread what blocks; one thing at a time."""
        if any(w.group == "whatif" and w.is_running for w in self.workers):
            self.say("one run is under way; wait for it", wrong=True)
            return

        def perform() -> None:
            try:
                done = work()
            except PertdbgError as error:
                self.app.call_from_thread(self.say, str(error), wrong=True)
            else:
                self.app.call_from_thread(then, done)

        self.run_worker(perform, thread=True, group="whatif")

    def _show(self, change: Change, both: tuple[Recording, Recording]) -> None:
        if not self.is_attached or self._whatif is None:
            for recording in both:
                recording.close()
            return
        known = {tried.label: ident for ident, tried in self._tried.items()}
        ident = known.get(change.label, f"tried {len(self._tried)}")
        self._tried[ident] = change
        self.say(f"{change.label}: was run")
        self._fill()
        at = min(self._call, both[0].head)
        ended = self._whatif.ended(change)
        self.app.push_screen(Sides(Versus(*both, at), change, ended, self._layer))

    def action_keep(self) -> None:
        """Keep the change that is chosen in the list as a scenario."""
        choices = self.query_one(OptionList)
        place = choices.highlighted
        ident = None if place is None else choices.get_option_at_index(place).id
        change = self._tried.get(ident or "")
        if not self._target.scenario:
            self.say("a change of a script is no scenario; edit the script itself", wrong=True)
        elif change is None:
            self.say("choose a change that was run (again …) to keep it", wrong=True)
        else:
            name = free_name(f"{Path(self._target.scenario).stem}-variant", ".toml")
            ask = AskLine("Keep the change as the scenario", str(name), self._writer(change))
            self.app.push_screen(ask, self._say_kept)

    def _writer(self, change: Change) -> Callable[[str], Path]:
        def write(text: str) -> Path:
            path = Path(text).expanduser().with_suffix(".toml")
            base = Path(self._target.scenario)
            named = base.stem if library.ships(base) else str(base.resolve())
            try:
                with path.open("x", encoding="utf-8") as out:
                    out.write(kept(self._target, change, named))
            except FileExistsError:
                raise PertdbgError(f"{path} exists already: choose another name") from None
            except OSError as error:
                raise PertdbgError(f"{path}: {error.strerror}") from None
            return path

        return write

    def _say_kept(self, path: Path | None) -> None:
        if path is not None:
            self.say(f"kept as {path}; open it with: pertdbg {path}")

    def action_explain(self) -> None:
        """Take out every guard, alone and in pairs, and show the answer in words."""
        if self._whatif is None:
            return
        target, whatif = self._target, self._whatif

        def explain() -> object:
            from pertdbg.ablation.ablate import ablate, ablate_script
            from pertdbg.output.ablation import explain as explained

            def progress(done: int, total: int) -> None:
                self.app.call_from_thread(self.say, f"{done} of {total} runs…")

            if target.scenario:
                path = Path(target.scenario)
                report = ablate(path, steps=whatif.calls, pairs=True, jobs=1, progress=progress)
            else:
                report = ablate_script(
                    *(target.given, target.adapters),
                    steps=whatif.calls,
                    pairs=True,
                    jobs=1,
                    progress=progress,
                )
            return list(explained(report))

        self._work(explain, self._explained)

    def _explained(self, lines: list[str]) -> None:
        if self.is_attached:
            self.say("every guard was taken out, alone and in pairs")
            text = "\n".join(printable(line) for line in lines)
            self.app.push_screen(Page("what each guard is for", lambda width: wrap(text, width)))

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Say how it stands."""
        if self.is_attached:
            words = self.query_one("#said", Static)
            words.update(printable(text))
            words.set_class(wrong, "-wrong")
