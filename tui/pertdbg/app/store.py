"""What the app reads from a session's recording, with the little that is worth remembering."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pertdbg.app.marks import Marks
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording.parts import HeatMap, LayerSource
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import Series, series
from pertdbg.session import Session

Stream = Literal["stdout", "stderr"]

_TAIL = 64 * 1024
"""Bytes of each stream that the output panel looks at."""


class Store:
    """A session's recording as the panels ask for it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.marks = Marks()
        self.filling = True
        """Whether marks are left to be gathered."""
        self.problem = ""
        """Why the recording could not be looked at, the last time it was tried."""
        self._series: dict[tuple[str, int], tuple[int, Series]] = {}

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
            self.filling = self.marks.fill(self.recording)
            self.problem = ""
        except PertdbgError as error:  # damaged, or gone: what was read so far can still be shown
            self.filling, self.problem = False, str(error)

    def series(self, field: str, cells: int) -> Series | None:
        """Give a fact over all calls, in at most so many points."""
        if self.recording is None or not self.head:
            return None
        head, kept = self._series.get((field, cells), (0, None))
        if kept is None or head != self.head:
            kept = series(self.recording, field, 1, self.head, cells)
            self._series = {(field, cells): (self.head, kept)}
        return kept

    def picture(self, id_: int) -> HeatMap | None:
        """Give the map of |delta| at a call, where one was kept."""
        return None if self.recording is None else self.recording.picture(id_)

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
