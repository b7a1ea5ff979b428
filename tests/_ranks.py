"""Recordings of the ranks of one run, made by the real recorder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from _records import healthy
from pertdbg.record import CallRecord
from pertdbg.recording.writer import Recorder

PER_BATCH = 4
"""Calls of a batch, creation included."""

Change = Callable[[int, CallRecord], CallRecord | None]
"""Gives what a rank records of a call instead; None where it makes none."""


def as_it_is(rank: int, record: CallRecord) -> CallRecord | None:
    return record


def calls_of(rank: int, calls: int) -> list[CallRecord]:
    """Calls as a rank makes them: batch by batch, with numbers of its own."""
    records = []
    for k in range(calls):
        step = k % PER_BATCH
        # What creates delta has other facts than what moves it; numbers differ from rank to rank.
        record = healthy(1 if step == 0 else k + 2, Random(1000 * rank + k))
        batch = k // PER_BATCH + 1
        record = replace(record, time=k * 0.01, rank=rank)
        records.append(replace(record, batch=batch, step=step, call=k + 1))
    return records


def write_rank(
    folder: Path, rank: int, calls: int, size: int, change: Change = as_it_is, **meta: str | int
) -> Path:
    """Write the finished recording of a rank."""
    path = folder / f"run.r{rank:04}.pertdbg"
    recorder = Recorder(path, {"uuid": "one run", "rank": rank, "world_size": size, **meta})
    kept = [change(rank, record) for record in calls_of(rank, calls)]
    write(recorder, [record for record in kept if record is not None])
    recorder.close()
    return path


def write(recorder: Recorder, records: Sequence[CallRecord]) -> None:
    """Write records under ids that follow each other."""
    for ident, record in enumerate(records, 1):
        recorder.write(replace(record, id=ident))
