"""What the app reads from a session's recording, with the little that is worth remembering."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pertdbg.app.marks import Marks
from pertdbg.app.zoom import Zoom
from pertdbg.errors import PertdbgError
from pertdbg.ranks import RankSession
from pertdbg.record import CallRecord
from pertdbg.recording.parts import HeatMap, LayerSource
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import Series, series
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.tensormap import picture_of
from pertdbg.session import Session

Stream = Literal["stdout", "stderr"]

_NEAR = 100_000
"""Calls before and after one among which stored tensors are looked for."""

_TAIL = 64 * 1024
"""Bytes of each stream that the output panel looks at."""


class Store:
    """A session's recording as the panels ask for it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.marks = Marks()
        self.zoom = Zoom()
        self.role = ""
        """Role of the stored tensor that the map shows; empty for the map that was recorded."""
        self._picture: tuple[tuple[int, str], HeatMap | None] = ((0, ""), None)
        self.opened = False
        """Whether another recording than before is looked at, until somebody takes note."""
        self._of: tuple[str, int] | None = None
        self._read: Recording | None = None
        self.problem = ""
        """Why the recording could not be looked at, the last time it was tried."""
        self._series: dict[tuple[str, int, int, int], Series] = {}

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
        self._read, self._series, self.marks = recording, {}, Marks(recording)
        self._picture = ((0, ""), None)
        of = (recording.meta.uuid, recording.meta.created_ns)
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
            after = self.recording.calls_with_tensors(id_ + 1, id_ + _NEAR)
        except PertdbgError as error:  # damaged
            self.problem = str(error)
            return None
        return before[-1] if before else after[0] if after else None

    def picture_of(self, tensor: StoredTensor) -> HeatMap | None:
        """Shrink a stored tensor to a map; the last one is remembered."""
        if self._picture[0] != (tensor.call, tensor.role):
            self._picture = ((tensor.call, tensor.role), picture_of(tensor))
        return self._picture[1]

    def layer(self, name: str) -> LayerSource | None:
        """Give the layer with a name."""
        layers = () if self.recording is None else self.recording.layers
        return next((layer for layer in layers if layer.name == name), None)

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


def look(store: Store, cursor: int) -> View:
    """Read the record at the cursor; one that can't be read becomes the view's problem."""
    if store.recording is None or not 0 < cursor <= store.head:
        return View(store, cursor, None)
    try:
        return View(store, cursor, store.recording.record(cursor))
    except PertdbgError as error:
        return View(store, cursor, None, str(error))
