"""Goes through a whole recording and says what of it does not hold what was written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pertdbg.recording import schema
from pertdbg.recording.notices import log_damage
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.safeopen import DamagedRecording, Source

LISTED = 20
"""Most damages of one kind that are named one by one."""

_SECONDS = 3600.0
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Verified:
    """What was looked at and what was found."""

    damages: tuple[str, ...]
    calls: int = 0
    tensors: int = 0
    finished: bool = True
    """The recorder closed the file."""

    @property
    def sound(self) -> bool:
        """Whether everything holds what was written."""
        return not self.damages


def verify(path: Path) -> Verified:
    """Check every row, every checksum and the structure of a recording.

    Raises:
        PertdbgError: It is not a recording, a newer pertdbg made it, or it cannot be read.
    """
    try:
        source = Source(path)
    except DamagedRecording as error:
        return Verified((str(error),))
    try:
        damages = [*_structure(source), *log_damage(source), *_rows(source)]
        with Recording.open(path) as recording:
            damages += [*_shorten(_calls(recording)), *_tensors(source)]
            damages += _shorten(_insides(recording))
            (tensors,) = source.query("SELECT count(*) FROM tensor")[0]
            finished = recording.meta.clean_close
            return Verified(tuple(damages), recording.head, tensors, finished)
    except DamagedRecording as error:
        return Verified((*_structure(source), str(error)))
    finally:
        source.close()


def _structure(source: Source) -> Iterator[str]:
    for complaint in source.check(_SECONDS):
        yield f"structure of the file: {complaint}"


def _rows(source: Source) -> Iterator[str]:
    """Check the checksums of all tables but `call`, whose records are read one by one."""
    for table in schema.TABLES:
        if table is not schema.CALLS:
            yield from _shorten(_table(source, table))
    for key, value, crc in source.query("SELECT key, value, crc FROM meta LIMIT 1000"):
        if schema.seal_meta(str(key), value) != crc:
            yield f"meta {str(key)[:100]!r}: its checksum does not hold"


def _table(source: Source, table: schema.Table) -> Iterator[str]:
    seal, key, last = schema.Seal(table), table.ints[0], -1 << 62
    while True:
        batch = 8 if table is schema.TENSOR_PARTS else _BATCH
        try:
            rows = source.query(
                f"{table.select} WHERE {key} > ? ORDER BY {key} LIMIT {batch}", (last,)
            )
        except DamagedRecording as error:
            yield f"table {table.name} after row {last}: {error}"
            return
        if not rows:
            return
        for row in rows:
            if not seal.holds(row):
                yield f"{table.name} {row[0]}: its checksum does not hold"
        if rows[-1][0] is None or rows[-1][0] <= last:
            yield f"table {table.name} after row {last}: its rows are not in order"
            return
        last = rows[-1][0]


def _calls(recording: Recording) -> Iterator[str]:
    """Name the damaged records, and the missing ones unless a mark says that they are."""
    gaps = {mark.id for mark in recording.marks(1, recording.head) if mark.kind == "gap"}
    damaged = (found for found in recording.scan() if isinstance(found, DamagedRecord))
    missing: list[DamagedRecord] = []
    for found in itertools.chain(damaged, [None]):
        if found is not None and found.missing and (not missing or missing[-1].id == found.id - 1):
            missing.append(found)
            continue
        if missing and missing[0].id not in gaps and missing[-1].id + 1 not in gaps:
            yield from map(str, missing)
        missing = [found] if found is not None and found.missing else []
        if found is not None and not found.missing:
            yield str(found)


def _insides(recording: Recording) -> Iterator[str]:
    """Name the calls whose lines make no sense, though their checksum holds."""
    for ident in recording.calls_with_events(0, recording.head + 1):
        try:
            recording.inside(ident)
        except DamagedRecord as error:
            yield str(error)


def _tensors(source: Source) -> Iterator[str]:
    """Check that the parts of each tensor are there; their checksums were."""
    rows = source.query(
        "SELECT tensor.id, parts, count(there.id) FROM tensor LEFT JOIN tensor_part AS there"
        " ON there.id BETWEEN tensor.id << 16 AND tensor.id << 16 | 65535"
        " GROUP BY tensor.id HAVING count(there.id) <> parts"
    )
    for ident, parts, there in rows[:LISTED]:
        yield f"tensor {ident}: {there} of {parts} parts are there"


def _shorten(damages: Iterator[str]) -> Iterator[str]:
    """Name the first ones and count the others."""
    yield from itertools.islice(damages, LISTED)
    more = sum(1 for _ in damages)
    if more:
        yield f"... and {more} more of this kind"
