"""What the app reads from a session's recording, with the little that is worth remembering."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pertdbg.app.faults import Faults
from pertdbg.app.inside import Events, Moment, lettered, moment
from pertdbg.app.marks import Marks
from pertdbg.app.seek import Only
from pertdbg.app.watches import Watches
from pertdbg.app.zoom import Zoom
from pertdbg.errors import PertdbgError
from pertdbg.ranks import RankSession
from pertdbg.record import CallRecord
from pertdbg.recording.events import Inside
from pertdbg.recording.parts import HeatMap, LayerSource
from pertdbg.recording.raised import ScriptRaised
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import Series, series
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.tensormap import Sketch
from pertdbg.recording.window import Window
from pertdbg.session import Session, State

Stream = Literal["stdout", "stderr"]

_NEAR = 100_000
"""Calls before and after one among which stored tensors are looked for."""

_INSIDES = 4
"""Calls of which the inside is remembered, until something new is written."""

_TAIL = 64 * 1024
"""Bytes of each stream that the output panel looks at."""


class Store:
    """A session's recording as the panels ask for it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.marks = Marks()
        self.zoom = Zoom()
        self.faults = Faults()
        self.watches = Watches(session.watches)
        self.only: Only | None = None
        """The calls that are walked through; None for all."""
        self.role = ""
        """Role of the stored tensor that the map shows; empty for the map that was recorded."""
        self._sketch: Sketch | None = None
        self.opened = False
        """Whether another recording than before is looked at, until somebody takes note."""
        self._of: tuple[str, int] | None = None
        self._read: Recording | None = None
        self.problem = ""
        """Why the recording could not be looked at, the last time it was tried."""
        self._series: dict[tuple[str, int, int, int], Series] = {}
        self._inside: dict[int, tuple[Inside, dict[str, str]]] = {}

    @property
    def recording(self) -> Recording | None:
        """The recording, once there is one."""
        return self.session.recording

    @property
    def head(self) -> int:
        """Id of the last call, 0 before the first."""
        return 0 if self.recording is None else self.recording.head

    def refresh(self) -> None:
        """Look at what is new in the recording."""
        self._inside = {}
        if self.recording is None:
            return
        try:
            self.recording.refresh()
            self._take_up(self.recording)
            self.marks.renew()
            self.problem = ""
        except PertdbgError as error:  # damaged, or gone: what was read so far can still be shown
            self.problem = str(error)

    def _take_up(self, recording: Recording) -> None:
        """Forget what was read of another recording."""
        if recording is self._read:
            return
        self._read, self._series, self.marks = recording, {}, Marks(recording, self.faults)
        self._sketch = None
        of = (recording.meta.uuid, recording.meta.created_ns)
        self.only = None
        self.watches.forget()
        if of != self._of:
            self._of, self.opened, self.zoom = of, True, Zoom()

    def notices(self) -> list[str]:
        """Say what is wrong with the recording as a whole; of one that we write, nothing is."""
        if self.recording is None or self.session.live:
            return []
        lacking = self.session.problems if isinstance(self.session, RankSession) else []
        try:
            return [*lacking, *self.recording.notices()]
        except PertdbgError as error:
            return [*lacking, str(error)]

    def window(self, cursor: int) -> tuple[int, int]:
        """Give the first and the last call that the timeline and the plots show."""
        return self.zoom.window(min(cursor, self.head), self.head)

    def series(self, field: str, window: tuple[int, int], cells: int) -> Series | None:
        """Give a fact over some calls, in at most so many points."""
        if self.recording is None or not self.head:
            return None
        key = (field, *window, cells)
        if key not in self._series:
            self._series = {key: series(self.recording, field, *window, cells)}
        return self._series[key]

    def inside(self, id_: int) -> Inside:
        """Give what was recorded of the inside of a call; of one under way, so far."""
        return self._lettered(id_)[0]

    def letters(self, id_: int) -> dict[str, str]:
        """Give the record's labels of the storages that a call's lines know by small letters."""
        return self._lettered(id_)[1]

    def _lettered(self, id_: int) -> tuple[Inside, dict[str, str]]:
        if self.recording is None or not 0 < id_ <= self.head + 1:
            return Inside(), {}
        if id_ not in self._inside:
            try:
                found = self.recording.inside(id_)
            except PertdbgError as error:
                self.problem, found = str(error), Inside()
            events, letters = lettered(found.events)
            if len(self._inside) >= _INSIDES:
                self._inside.pop(next(iter(self._inside)))
            self._inside[id_] = replace(found, events=events), letters
        return self._inside[id_]

    def events(self, id_: int) -> Events:
        """Give the lines of a call that were recorded; of one under way, so far."""
        return self.inside(id_).events

    @property
    def end(self) -> tuple[int, int | None]:
        """The newest place: the end of the last call, or a line of the one under way."""
        under_way = () if self.session.state is State.RUNNING else self.events(self.head + 1)
        return (self.head + 1, len(under_way) - 1) if under_way else (self.head, None)

    def picture(self, id_: int) -> HeatMap | None:
        """Give the map of |delta| at a call, where one was kept."""
        return None if self.recording is None else self.recording.picture(id_)

    def tensors(self, id_: int) -> tuple[StoredTensor, ...]:
        """Give the tensors that are stored of a call."""
        if self.recording is None:
            return ()
        try:
            return self.recording.tensors(id_)
        except PertdbgError as error:  # damaged
            self.problem = str(error)
            return ()

    def tensor(self, id_: int) -> StoredTensor | None:
        """Give the stored tensor of a call that was chosen to be looked at."""
        return next((found for found in self.tensors(id_) if found.role == self.role), None)

    def near_tensors(self, id_: int) -> int | None:
        """Give the last call up to one, else the first after it, of which a tensor is stored."""
        if self.recording is None:
            return None
        try:
            before = self.recording.calls_with_tensors(max(id_ - _NEAR, 1), id_)
            after = self.recording.calls_with_tensors(id_ + 1, min(id_ + _NEAR, self.head))
        except PertdbgError as error:  # damaged
            self.problem = str(error)
            return None
        return before[-1] if before else after[0] if after else None

    def sketch(self, tensor: StoredTensor) -> Sketch:
        """Give the map of a stored tensor, which may not be whole; the last one is remembered."""
        if self._sketch is None or self._sketch.window.tensor != tensor:
            self._sketch = Sketch(Window(tensor))
        return self._sketch

    @property
    def raised(self) -> ScriptRaised | None:
        """The exception that ended the target, if one did."""
        return None if self.recording is None else self.recording.raised

    def layer(self, name: str) -> LayerSource | None:
        """Give the layer with a name."""
        layers = () if self.recording is None else self.recording.layers
        return next((layer for layer in layers if layer.name == name), None)

    def layer_at(self, line: int) -> LayerSource | None:
        """Give the first layer whose update method has a line: that of a call under way."""
        layers = () if self.recording is None else self.recording.layers
        sources = ((layer, layer.first_line or 0, layer.source or "") for layer in layers)
        return next(
            (layer for layer, first, text in sources if 0 <= line - first < text.count("\n") + 1),
            None,
        )

    def output(self, stream: Stream, id_: int) -> bytes:
        """Give the end of what the target had printed by a call; all of it at the head."""
        path = getattr(self.session, f"{stream}_path")
        if path is not None and id_ >= self.head:
            return _tail(path)
        if self.recording is None:
            return b""
        upto = id_ if 0 < id_ < self.head else None
        return self.recording.output(stream, upto, limit=_TAIL)


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""  # not made yet, or gone with the session's folder


@dataclass(frozen=True)
class View:
    """One look at a session: the cursor, its record, and where to find the rest."""

    store: Store
    cursor: int
    record: CallRecord | None
    problem: str = ""
    """Why there is no record at the cursor."""
    inside: Moment | None = None
    """The line that the cursor is at, inside the call."""

    @property
    def under_way(self) -> bool:
        """Whether the call under the cursor has not come to its end."""
        return self.cursor > self.store.head


def look(store: Store, cursor: int, line: int | None = None) -> View:
    """Read what is at the cursor; a record that can't be read becomes the view's problem."""
    events = store.events(cursor) if line is not None else ()
    inside = None if line is None or line >= len(events) else moment(events, line)
    if store.recording is None or not 0 < cursor <= store.head:
        return View(store, cursor, None, inside=inside)
    try:
        return View(store, cursor, store.recording.record(cursor), inside=inside)
    except PertdbgError as error:
        return View(store, cursor, None, str(error), inside)
