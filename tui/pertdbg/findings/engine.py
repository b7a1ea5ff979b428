"""Checks recordings: from a file, or the files of all ranks of a run, to findings."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pertdbg.findings.checker import Checker, Key
from pertdbg.findings.details import with_details
from pertdbg.findings.model import Finding, Layer
from pertdbg.findings.rule import Closing
from pertdbg.findings.screen import Left, screened
from pertdbg.record import CallRecord
from pertdbg.recording.meta import Meta
from pertdbg.recording.parts import LayerSource
from pertdbg.recording.reader import DamagedRecord, Recording

_LOOKS = 6
"""How often the rules look at records of one signature, behind one of another, before they are
taken to say the same of all further ones."""

_SIGNATURES = 200_000
"""Most pairs of signatures that are kept; with more, further records are looked at one by one."""

_SLICE = 64
"""Records that are looked at between two looks at the clock."""

_BUILT = 64

_DAMAGED = 1000
"""Damaged records that are met before those that are like one are left alone."""


@dataclass(frozen=True)
class Checked:
    """What a check came to."""

    findings: list[Finding]
    calls: int
    """Records that there are, of all ranks."""
    metas: list[Meta] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Recordings of the run that are missing or cannot be read."""


def check(path: str | Path) -> list[Finding]:
    """Name what is wrong in a recording, or in the recordings of a folder of ranks.

    Raises:
        PertdbgError: There is no recording that can be read.
    """
    return check_paths([Path(path)]).findings


def check_paths(paths: Iterable[Path]) -> Checked:
    """Check recordings, files or folders of them.

    Raises:
        PertdbgError: None can be read.
    """
    paths = list(paths)
    if len(paths) == 1 and not paths[0].is_dir():
        with Recording.open(paths[0]) as recording:
            return check_recording(recording)
    from pertdbg.ranks import open_ranks  # brings asyncio, which one recording does without
    from pertdbg.session import Session

    session: Session = open_ranks(paths)
    members = getattr(session, "members", [session])
    recordings = [member.recording for member in members if member.recording is not None]
    try:
        parts = [check_recording(recording) for recording in recordings]
    finally:
        for recording in recordings:
            recording.close()
    return Checked(
        [finding for part in parts for finding in part.findings],
        sum(part.calls for part in parts),
        [meta for part in parts for meta in part.metas],
        list(getattr(session, "problems", [])),
    )


def check_recording(recording: Recording) -> Checked:
    """Check one recording, as far as it has been written."""
    sources = {layer.name: layer for layer in recording.layers}
    reader = _Reader(recording, sources)
    for seen in screened(recording, 1, recording.head):
        reader.take(*seen)
    findings = reader.end()
    return Checked(
        [with_details(finding, recording) for finding in findings],
        recording.head,
        [recording.meta],
    )


class Following:
    """The check of a recording that may be growing, a little at a time."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._reader = _Reader(recording, {layer.name: layer for layer in recording.layers})
        self._left: Left = {}
        self._done = 0
        self._ended = False
        self.findings: list[Finding] = []
        """What has been found so far."""

    def go_on(self, seconds: float) -> bool:
        """Look at further records for about so long; say whether more are waiting.

        Raises:
            PertdbgError: The recording can't be read on.
        """
        due = time.monotonic() + seconds
        while self._done < self.recording.head and time.monotonic() < due:
            hi = min(self._done + _SLICE, self.recording.head)
            for seen in screened(self.recording, self._done + 1, hi, self._left):
                self._reader.take(*seen)
            self._done = hi
        waits = self._done < self.recording.head
        meta = self.recording.meta
        over = not waits and not self._ended
        if over and (meta.clean_close or meta.exit_status is not None):
            self._ended = True
            self.findings = self._reader.end()
        elif not self._ended:
            self.findings = self._reader.findings
        return waits


def kinds_by_call(recording: Recording, most: int | None = None) -> dict[int, tuple[str, ...]]:
    """Give the kinds of what is found, by the id of the record where it is first seen.

    Args:
        recording: The recording.
        most: Nothing is looked for in one with more records.
    """
    if most is not None and recording.head > most:
        return {}
    kinds: dict[int, list[str]] = {}
    for finding in check_recording(recording).findings:
        kinds.setdefault(finding.id, []).append(finding.kind)
    return {ident: tuple(dict.fromkeys(found)) for ident, found in kinds.items()}


class _Reader:
    """Leads the rules through a recording, past the records that are like others."""

    def __init__(self, recording: Recording, sources: dict[str, LayerSource]) -> None:
        self._recording = recording
        self._checker = Checker(sources.get)
        self._built: OrderedDict[int, CallRecord | None] = OrderedDict()
        self._layers: dict[int, Layer] = {}
        self._before: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._looks: dict[tuple[int, int, int], int] = {}
        self._said: dict[tuple[int, int, int], tuple[Key, ...]] = {}
        self._last: Layer | None = None
        self._damaged = 0

    def take(self, ident: int, layer: int, created: bool, signature: Any) -> None:
        """Take the next record."""
        number = self._numbers.setdefault(signature, len(self._numbers))
        pair = (layer, self._before.get(layer, -1), number)
        self._before[layer] = number
        looks = self._looks.get(pair, 0)
        name = self._layers.get(layer)
        if looks < _LOOKS or name is None:
            name = self._look(ident, layer, pair, looks)
        else:
            self._checker.state(name).passed_over(self._said[pair])
        if name is None:
            return
        state = self._checker.state(name)
        record = functools.partial(self._record, ident)
        state.past.add(created, record)
        state.last = record
        self._last = name

    @property
    def findings(self) -> list[Finding]:
        """What has been found so far."""
        return self._checker.findings

    def end(self) -> list[Finding]:
        """Let the rules see how the script ended."""
        raised = getattr(self._recording, "raised", None)
        if raised is not None and (raised.interrupted or raised.type == "SystemExit"):
            raised = None
        closing = getattr(self._recording, "closing", None) or {}
        meta = self._recording.meta
        finished = meta.clean_close or meta.exit_status is not None
        self._checker.end(
            lambda layer: Closing(closing.get(layer[0]), raised, layer == self._last, finished)
        )
        return self._checker.findings

    def _look(self, ident: int, layer: int, pair: tuple[int, int, int], looks: int) -> Layer | None:
        record = self._record(ident)
        if record is None:
            self._damaged += 1
            if self._damaged > _DAMAGED and layer in self._layers:
                self._looks[pair], self._said[pair] = _LOOKS, ()
            return self._layers.get(layer)
        name = self._layers.setdefault(layer, (record.layer, record.rank))
        state = self._checker.state(name)
        state.look(record)
        if len(self._looks) < _SIGNATURES:
            self._looks[pair] = looks + 1
            self._said[pair] = state.seen
        return name

    def _record(self, ident: int) -> CallRecord | None:
        if ident in self._built:
            return self._built[ident]
        try:
            record: CallRecord | None = self._recording.record(ident)
        except (DamagedRecord, IndexError):
            record = None
        self._built[ident] = record
        if len(self._built) > _BUILT:
            self._built.popitem(last=False)
        return record
