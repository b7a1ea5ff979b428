"""Keys that walk: line by line inside a call, by steps, marks and layers; none runs old code."""

from __future__ import annotations

import time
from asyncio import sleep
from itertools import chain

from pertdbg.app.inside import HOW_TO_RECORD, line_after, line_before
from pertdbg.app.later import later
from pertdbg.app.numbers import count
from pertdbg.app.runner import Runner
from pertdbg.app.seek import Looking, Only, marked, next_step, step_before
from pertdbg.errors import PertdbgError
from pertdbg.recording.reader import Recording
from pertdbg.session import State

_BREATH = 0.02
"""Seconds of a search after which keys and pixels have their turn."""

_AT_ONCE = 0.05
"""Seconds within which a search that finds something is not announced."""


class Walker(Runner):
    """Moves beside those from call to call, each with its way back."""

    def action_line(self, forward: bool, into: bool = False) -> None:
        """Move to the next or the previous line; at the head the target runs the next one."""
        self.main.offer("source")
        if forward:
            self._line_on(into)
        else:
            self._line_back(into)

    def _line_on(self, into: bool) -> None:
        store, call = self.store, self.cursor if self.line is not None else self.cursor + 1
        found = line_after(store.events(call), self.line, into=into)
        if found is not None:
            self.walk(call, found)
        elif self.line is not None and call <= store.head:
            self.walk(call)
        elif self.line is None and self.cursor < store.head:
            self.hint(f"no lines of call #{count(call)}: {HOW_TO_RECORD}")
            self.walk(call)
        else:
            self.run_line(into)

    def _line_back(self, into: bool) -> None:
        store, call = self.store, self.cursor
        found = line_before(store.events(call), self.line, into=into)
        if found is not None:
            self.walk(call, found)
        elif call <= 1:
            self.hint("this is the first line" if call else "there is no call yet")
        else:
            if self.line is None:
                self.hint(f"no lines of call #{count(call)}: {HOW_TO_RECORD}")
            self.walk(call - 1)

    def action_line_edge(self, last: bool) -> None:
        """Move to the first line of the call, or to its end."""
        found = line_after(self.store.events(self.cursor), None, into=False)
        if found is None and self.cursor:
            self.hint(f"no lines of this call: {HOW_TO_RECORD}")
        if not last and found is not None:
            self.walk(self.cursor, found)
        elif last and self.cursor <= self.store.head:
            self.walk(self.cursor)

    def action_step(self, forward: bool) -> None:
        """Move to the first call of the next training step, or back to that of this one."""
        record = self.view.record
        recording = self.store.recording
        if recording is None or record is None:
            self.hint("there is no record here to go on from")
        elif forward and self.session.state is State.STOPPED and self.cursor >= self.store.head:
            self.run_step(record)
        elif forward:
            self.seek(next_step(recording, record), "there is no later training step so far")
        else:
            self.seek(step_before(recording, record), "this is the first training step")

    def action_mark(self, forward: bool) -> None:
        """Move to the nearest call with a mark."""
        if self.store.recording is not None:
            where = "after" if forward else "before"
            search = marked(self.store.recording, self.cursor, forward=forward)
            self.seek(search, f"no call {where} this one has a mark")

    def action_layer(self) -> None:
        """Move to the same call of the next layer."""
        record, recording = self.view.record, self.store.recording
        layers = [] if recording is None else [layer.name for layer in recording.layers]
        if recording is None or record is None or len(layers) < 2:
            self.hint("there is no other layer")
            return
        at = layers.index(record.layer) if record.layer in layers else -1
        self.seek(
            _of_layer(recording, [*layers[at + 1 :], *layers[:at]], record.call, record.id),
            "there is no other layer with a call",
        )

    def look_on(self) -> None:
        """Look which of the new calls are among those that are walked through."""
        only, recording = self.store.only, self.store.recording
        if only is not None and recording is not None and only.upto < recording.head:
            self.run_worker(later(self._look_on, only, recording), group="only", exclusive=True)

    async def _look_on(self, only: Only, recording: Recording) -> None:
        due = time.monotonic() + _BREATH
        try:
            for _ in only.look_on(recording):
                if time.monotonic() > due:
                    self.main.timeline.renew()
                    await sleep(0)
                    due = time.monotonic() + _BREATH
        except PertdbgError as error:  # damaged
            self.hint(str(error))
        self.show()

    def walk(self, id_: int, line: int | None = None) -> None:
        """Move to a call, or to a line in it, and stay there unless it is the newest."""
        self.follow = (id_, line) == self.store.end
        self.move(id_, line)

    def seek(self, search: Looking, nothing: str) -> None:
        """Go to what a search finds; one that takes long goes on while keys are heard.

        Args:
            search: What is searched; escape ends it.
            nothing: What to say where nothing is found.
        """
        self.stop_seeking()
        self.run_worker(later(self._seek, search, nothing), group="seek", exclusive=True)

    def stop_seeking(self) -> bool:
        """End a search that goes on; say whether there was one."""
        going = any(w.group == "seek" and w.is_running for w in self.workers)
        self.workers.cancel_group(self, "seek")
        return going

    async def _seek(self, search: Looking, nothing: str) -> None:
        began = due = time.monotonic()
        due += _BREATH
        try:
            for done, found in enumerate(search, 1):
                if found is not None:
                    self.walk(found)
                    return
                if time.monotonic() > due:
                    if time.monotonic() - began > _AT_ONCE:
                        self.hint(f"searching… {count(done)} looks so far, escape ends it")
                    await sleep(0)
                    due = time.monotonic() + _BREATH
        except PertdbgError as error:  # damaged
            self.hint(str(error))
            return
        self.hint(nothing)


def _of_layer(recording: Recording, layers: list[str], call: int, here: int) -> Looking:
    """Find the same call of the first of some layers that has calls, or its nearest one."""
    for layer in layers:
        found = recording.locate(layer, call=call)
        if found is not None:
            yield found
            return
    wanted = set(layers)
    for ident in chain(range(here - 1, 0, -1), range(here + 1, recording.head + 1)):
        found = ident if recording.record(ident).layer in wanted else None
        yield found
        if found is not None:
            return
