"""Keys that ask: where to stop, what to watch, what a value is, where a text stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from textual import on

from pertdbg.answer import Answer
from pertdbg.app.inside import HOW_TO_RECORD
from pertdbg.app.numbers import count
from pertdbg.app.screens.main import MainScreen
from pertdbg.app.seek import Only, held
from pertdbg.app.stops import proposed
from pertdbg.app.walker import Walker
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.record import CallRecord
from pertdbg.recording.events import GRAPH_ROLES
from pertdbg.session import Session, State

if TYPE_CHECKING:
    from pertdbg.app.hits import Hit
    from pertdbg.conditions import Condition, Kept


class Asker(Walker):
    """Questions about calls, and conditions on them."""

    def __init__(self, session: Session) -> None:
        """Take note of what the target's own side asks for."""
        super().__init__(session)
        self._given = ([str(one) for one in session.conditions], list(session.watches))
        """Conditions and watches that come from the target's own side and are not kept."""
        self._kept: Kept | None = None
        self._answers: list[Answer] = []
        self._history: list[str] = []

    @on(MainScreen.Ready)
    def _take_up(self) -> None:
        """Find again what was watched, and where the target was to stop, the last time."""
        if not self.session.kept_as:
            return
        from pertdbg.conditions import Kept  # the first frame is there already

        kept = self._kept = Kept.load(self.session.kept_as)
        for problem in kept.problems:
            self.notify(printable(problem), severity="warning", timeout=10, markup=False)
        for condition in kept.conditions():
            self.stops.set(condition)
        for expression in kept.expressions():
            self.store.watches.add(expression.text)
        if kept.conditions():
            self.send_stops()
        self.main.panels["watch"].renew()

    def action_stop_when(self) -> None:
        """Ask for conditions to stop at, or to go to in a recording."""
        from pertdbg.app.screens.stopwhen import StopWhen

        record = self.view.record
        text = proposed(self.main.chosen, record)
        runs = self.session.live
        screen = StopWhen(self.stops, text, record, self._previous(record), runs=runs)
        self.push_screen(screen, self._stop_when)

    def _stop_when(self, found: tuple[str, Condition] | None) -> None:
        how, condition = found or ("", None)
        if how == "set" and condition is not None:
            self.stops.set(condition)
        self.send_stops()
        self.keep_questions()
        if condition is None:
            return
        if how == "set" and self.session.live:
            self.hint(f"stops when {condition}; c continues")
        else:
            start = 0 if how == "first" else self.cursor
            self._go_where([condition], start, forward=how != "previous")

    def action_holds(self, forward: bool) -> None:
        """Move to the nearest call at which one of the conditions holds."""
        if self.stops.on:
            self._go_where(self.stops.on, self.cursor, forward=forward)
        else:
            self.hint("no condition is set: b sets one")

    def _go_where(self, conditions: Sequence[Condition], start: int, *, forward: bool) -> None:
        if self.store.recording is not None:
            where = "after" if forward else "before"
            what = conditions[0].text if len(conditions) == 1 else "one of the conditions"
            place = f"{where} this one " if start else ""
            search = held(self.store.recording, conditions, start, forward=forward)
            self.seek(search, f"no call {place}where {what}")

    def action_watch(self) -> None:
        """Show what is watched; a second time, ask for one more expression."""
        from pertdbg.app.screens.watching import Watching

        if self.store.watches.all and not self.main.is_seen("watch"):
            self.main.choose("watch")
            return
        record = self.view.record
        screen = Watching(self.store.watches, record, self._previous(record))
        self.push_screen(screen, self._watch)

    def _watch(self, added: str | None) -> None:
        self.keep_questions()
        if added is not None and not self.main.is_seen("watch"):
            self.main.choose("watch")
        self.show()

    def action_ask(self) -> None:
        """Ask the stopped target, or the record under the cursor."""
        from pertdbg.app.screens.ask import Asked, AskTarget

        session, head = self.session, self.store.end
        if session.state is State.STOPPED and (self.cursor, self.line) == head:
            who = f"the target, stopped at call #{count(self.cursor)}"
            asked = Asked(who, session.ask, session.complete, self._open_answer)
        elif self.view.record is None:
            self.hint("there is no record here to ask")
            return
        else:
            who = f"the record of call #{count(self.cursor)}, in its fields' names"
            asked = Asked(who, self._ask_record, _complete)
        self.push_screen(AskTarget(asked, self._answers, self._history))

    async def _open_answer(self) -> str:
        """Show the values of the tensor that the last question gave; say why not, if that is so."""
        from pertdbg.app.screens.values import Values

        found = await self.session.store(answer=True)
        tensors = [each for each in self.store.tensors(self.cursor) if each.role in found.roles]
        if tensors:
            self.push_screen(Values(tensors, 0))
        return found.why

    async def _ask_record(self, text: str, confirmed: bool) -> Answer:
        """Evaluate in the safe language over the record: nothing runs."""
        from pertdbg.conditions import parse

        del confirmed  # nothing can change here
        record = self.view.record
        try:
            expression = parse(text)
        except PertdbgError as error:
            stopped = self.session.state is State.STOPPED
            there = "; end goes to where the target can be asked" if stopped else ""
            return Answer(text, error=f"a record knows its fields only{there}. {error}")
        if record is None:
            return Answer(text, error="there is no record here")
        previous = self._previous(record)
        value = expression.value(record, previous)
        if value is None:
            return Answer(text, error=f"unknown: {expression.why_unknown(record, previous)}")
        return Answer(text, {"type": type(value).__name__, "text": str(value)})

    def action_graph(self) -> None:
        """Show the autograd graphs of the call."""
        from pertdbg.app.screens.graph import GraphOf

        graphs = self.store.inside(self.cursor).graphs
        if self.cursor > self.store.head:
            self.hint("the call is under way; its graphs come at its end")
            return
        if not graphs:
            self.hint(f"no graph was recorded of this call: {HOW_TO_RECORD}")
            return
        known = {name: graphs[name] for name in GRAPH_ROLES if name in graphs}
        self.push_screen(GraphOf(f"autograd graphs at call #{count(self.cursor)}", known))

    def action_find(self) -> None:
        """Search everything for a text."""
        from pertdbg.app.hits import hits
        from pertdbg.app.screens.find import Find

        record = self.view.record
        self.push_screen(Find("", lambda text: hits(self.store, record, text)), self._go_to_hit)

    def _go_to_hit(self, hit: Hit | None) -> None:
        from pertdbg.conditions import Condition

        if hit is None:
            return
        if hit.kind == "value":
            start = 0 if hit.first else self.cursor
            self._go_where([Condition(f"changed({hit.field})")], start, forward=True)
        elif hit.kind == "source" and hit.line is not None:
            if hit.id is not None:
                self.walk(hit.id)
            self._show_line(hit.line)
        elif hit.id is not None:
            self.walk(hit.id)
            if hit.kind == "output":
                self.main.choose("output")

    def _show_line(self, number: int) -> None:
        """Go to where the line was run in this call, or show it in the source."""
        events = self.store.events(self.cursor)
        place = next((k for k, event in enumerate(events) if event.line == number), None)
        if place is not None:
            self.walk(self.cursor, place)
        elif events:
            self.hint(f"line {number} is shown; this call did not run it")
        else:
            self.hint(f"line {number} is shown; it was not recorded whether this call ran it")
        self.main.show_line(number)

    def action_only(self) -> None:
        """Ask which calls to walk through."""
        from pertdbg.app.screens.only import OnlySome

        recording = self.store.recording
        layers = [] if recording is None else [layer.name for layer in recording.layers]
        self.push_screen(OnlySome(layers), self._only)

    def _only(self, chosen: tuple[Only | None] | None) -> None:
        if chosen is not None:
            (self.store.only,) = chosen
            self.look_on()
            self.show()

    def keep_questions(self) -> None:
        """Keep watches and conditions for the next time that this target is looked at.

        What can't be read in the file stays there.
        """
        if self._kept is None:
            return
        from pertdbg.conditions import Condition, parse

        kept, (conditions, watches) = self._kept, self._given
        stops = [str(stop.condition) for stop in self.stops.all]
        seen = self.store.watches.texts
        kept.stop_when = [*_unread(kept.stop_when, Condition.of), *_without(stops, conditions)]
        kept.watches = [*_unread(kept.watches, parse), *_without(seen, watches)]
        try:
            kept.save()
        except PertdbgError as error:
            self.hint(str(error))

    def _previous(self, record: CallRecord | None) -> CallRecord | None:
        from pertdbg.conditions import previous_of

        recording = self.store.recording
        return None if record is None or recording is None else previous_of(recording, record)


async def _complete(text: str) -> list[str]:
    from pertdbg.conditions import complete

    return complete(text)


def _unread(texts: Iterable[str], read: Callable[[str], object]) -> list[str]:
    """Give the texts that can't be read."""
    found = []
    for text in texts:
        try:
            read(text)
        except PertdbgError:
            found.append(text)
    return found


def _without(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    left_out = set(others)
    return [text for text in texts if text not in left_out]
