"""A plot shows what the records hold, at any zoom, with no spike lost."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import _records
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import Series, series
from pertdbg.recording.timeline import timeline
from pertdbg.recording.writer import Recorder

N = 4500
"""Spans tiles of three levels (16, 256, 4096), with an unfinished one of each at the end."""

FIELDS: dict[str, Callable[[CallRecord], Any]] = {
    "gradient.norm": lambda record: record.gradient.norm,
    "delta.histogram_range.low": lambda record: (record.delta.histogram_range or (None,))[0],
    "delta.beyond": lambda record: record.delta.beyond,
    "update.created": lambda record: record.update.created,
    "graph.delta.nodes": lambda record: record.graph.delta and record.graph.delta.nodes,
    "tensors.after.delta.version": lambda record: (
        record.tensors.after.delta and record.tensors.after.delta.version
    ),
}


@pytest.fixture(scope="module")
def records() -> list[CallRecord]:
    return _records.records(seed=5, n=N)


@pytest.fixture(scope="module")
def recording(
    records: list[CallRecord], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    path = tmp_path_factory.mktemp("series") / "a.pertdbg"
    recorder = Recorder(path, {})
    for record in records:
        recorder.write(record)
    recorder.close()
    with Recording.open(path) as recording:
        yield recording


def expected_cell(
    records: list[CallRecord], field: str, lo: int, hi: int
) -> tuple[float, float, int, int]:
    """Least and greatest finite value, count of values that are not finite, count of values."""
    values = [FIELDS[field](record) for record in records[lo - 1 : hi]]
    known = [float(value) + 0.0 for value in values if value is not None]  # -0.0 is kept as 0.0
    finite = [value for value in known if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (math.nan, math.nan)
    return low, high, len(known) - len(finite), len(known)


def check(
    found: Series, records: list[CallRecord], field: str, lo: int, hi: int, cells: int
) -> None:
    edges = [*found.first, found.last + 1]
    assert (edges[0], found.last) == (lo, hi)
    assert len(found) == min(cells, hi - lo + 1)
    width = (hi - lo + 1) / len(found)
    for k, (start, stop) in enumerate(pairwise(edges)):
        assert start < stop
        assert abs(start - lo - k * width) <= max(width / 2, 1)
        cell = found.low[k], found.high[k], found.bad[k], found.n[k]
        wanted = expected_cell(records, field, start, stop - 1)
        assert repr(tuple(map(float, cell))) == repr(tuple(map(float, wanted)))


class Case(NamedTuple):
    """Records and their recording, with a representation that hypothesis can print."""

    records: list[CallRecord]
    recording: Recording

    def __repr__(self) -> str:
        return "Case()"


@pytest.fixture(scope="module")
def case(records: list[CallRecord], recording: Recording) -> Case:
    return Case(records, recording)


@settings(max_examples=60, deadline=None)
@given(
    field=st.sampled_from(sorted(FIELDS)),
    one=st.integers(1, N),
    other=st.integers(1, N),
    cells=st.integers(1, 250),
)
def test_each_cell_holds_the_extremes_and_counts_of_its_records(
    case: Case, field: str, one: int, other: int, cells: int
) -> None:
    lo, hi = min(one, other), max(one, other)
    check(series(case.recording, field, lo, hi, cells), case.records, field, lo, hi, cells)


def test_all_calls_fit_into_few_cells_and_few_calls_into_cells_of_their_own(
    records: list[CallRecord], recording: Recording
) -> None:
    for lo, hi, cells in ((1, N, 1), (1, N, 40), (1, N, 200), (100, 139, 40), (7, 7, 200)):
        for field in FIELDS:
            check(series(recording, field, lo, hi, cells), records, field, lo, hi, cells)


def test_a_window_outside_the_recording_is_cut_to_it(
    records: list[CallRecord], recording: Recording
) -> None:
    check(series(recording, "gradient.norm", -5, 10**9, 80), records, "gradient.norm", 1, N, 80)
    assert len(series(recording, "gradient.norm", N + 1, N + 9, 80)) == 0
    assert len(series(recording, "gradient.norm", 9, 1, 80)) == 0
    assert timeline(recording, N + 1, N + 9, 80) == []


def test_an_unknown_number_is_refused_with_its_neighbours(recording: Recording) -> None:
    with pytest.raises(PertdbgError, match=r"'gradient\.nrom'; near it: gradient\.norm"):
        series(recording, "gradient.nrom", 1, 9, 9)
    with pytest.raises(PertdbgError, match=r"data_ptr"):
        series(recording, "tensors.after.delta.data_ptr", 1, 9, 9)


def marks_of(record: CallRecord, before: dict[str, object]) -> set[str]:
    gradient, delta = record.gradient, record.delta
    kinds = {
        "created": record.update.created,
        "refused": record.update.returned is False,
        "raised": record.update.raised is not None,
        "nan": gradient.nan or delta.nan,
        "inf": gradient.inf or delta.inf,
        "beyond": delta.beyond and (record.update.created or not before.get(record.layer)),
    }
    before[record.layer] = delta.beyond
    return {kind for kind, there in kinds.items() if there}


@pytest.fixture(scope="module")
def marked(records: list[CallRecord]) -> list[set[str]]:
    before: dict[str, object] = {}
    return [marks_of(record, before) for record in records]


def test_the_timeline_shows_every_mark_at_every_zoom(
    recording: Recording, marked: list[set[str]]
) -> None:
    for lo, hi, cells in ((1, N, 40), (1, N, 200), (33, 900, 77), (5, 60, 200), (N, N, 3)):
        assert timeline(recording, lo, hi, cells) == cells_of(marked, lo, hi, cells)


def cells_of(marked: list[set[str]], lo: int, hi: int, cells: int) -> list[set[str]]:
    """The marks of each cell, of which there are no more than calls, by its definition."""
    n = hi - lo + 1
    cells = min(cells, n)
    wanted: list[set[str]] = [set() for _ in range(cells)]
    for place in range(1, n + 1):
        (cell,) = (c for c in range(cells) if c * n < place * cells <= (c + 1) * n)
        wanted[cell] |= marked[lo + place - 2]
    return wanted


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recording, list[set[str]]]]:
    """Calls of which few have a mark, so that a mark in the cell beside its own would show."""
    path = tmp_path_factory.mktemp("sparse") / "a.pertdbg"
    recorder, random = Recorder(path, {}), Random(11)
    kinds: list[set[str]] = []
    for ident in range(1, N + 1):
        record = _records.healthy(ident)
        there = {"created"} if ident == 1 else {"beyond"} if ident == 2 else set[str]()
        if random.random() < 0.01:
            record = replace(record, update=replace(record.update, returned=False))
            there |= {"refused"}
        if random.random() < 0.004:
            record = replace(record, gradient=replace(record.gradient, nan=2))
            there |= {"nan"}
        recorder.write(record)
        kinds.append(there)
    recorder.close()
    with Recording.open(path) as recording:
        yield recording, kinds


@settings(max_examples=60, deadline=None)
@given(one=st.integers(1, N), other=st.integers(1, N), cells=st.integers(1, 120))
def test_each_mark_stands_in_its_own_cell(
    sparse: tuple[Recording, list[set[str]]], one: int, other: int, cells: int
) -> None:
    recording, marked = sparse
    lo, hi = min(one, other), max(one, other)
    assert timeline(recording, lo, hi, cells) == cells_of(marked, lo, hi, cells)


def test_marks_stand_at_their_calls_in_order(recording: Recording, marked: list[set[str]]) -> None:
    wanted = [(k, kind) for k, kinds in enumerate(marked, 1) for kind in kinds]
    for lo, hi in ((1, N), (50, 60), (1, 1), (N, N), (16, 17), (257, 512)):
        found = [(mark.id, mark.kind) for mark in recording.marks(lo, hi)]
        assert sorted(found) == sorted((k, kind) for k, kind in wanted if lo <= k <= hi)
        assert [ident for ident, _ in found] == sorted(ident for ident, _ in found)


@pytest.mark.parametrize("kinds", [["raised"], ["created"], ["nan", "inf"], ["beyond", "raised"]])
def test_the_next_mark_is_the_nearest_of_its_kinds(
    recording: Recording, marked: list[set[str]], kinds: list[str]
) -> None:
    at = [k for k, found in enumerate(marked, 1) if found & set(kinds)]
    for ident in [*Random(2).sample(range(1, N), 30), 1, N]:
        later, earlier = [k for k in at if k > ident], [k for k in at if k < ident]
        assert recording.next_mark(ident, kinds) == (later[0] if later else None)
        backward = recording.next_mark(ident, kinds, forward=False)
        assert backward == (earlier[-1] if earlier else None)


def test_marks_that_were_given_are_found_with_those_that_follow_from_records(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {})
    for ident in range(1, 10):
        recorder.write(_records.healthy(ident))
    recorder.mark(4, "stopped", "stopped: asked to")
    recorder.mark(7, "gap", "3 records are missing")
    with Recording.open(path) as recording:
        found = [(mark.id, mark.kind, mark.text) for mark in recording.marks(1, 9)]
        assert found == [
            (1, "created", "delta created"),
            (2, "beyond", "delta left its bound"),
            (4, "stopped", "stopped: asked to"),
            (7, "gap", "3 records are missing"),
        ]
        assert recording.next_mark(1, ["stopped", "gap"]) == 4
        assert recording.next_mark(9, ["stopped", "gap", "beyond"], forward=False) == 7
        assert recording.next_mark(4, ["stopped"]) is None
    recorder.close()


def test_a_damaged_sum_is_made_again_from_the_records(
    records: list[CallRecord], recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "a.pertdbg"
    path.write_bytes(recording.path.read_bytes())
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE tile SET data = zeroblob(length(data)) WHERE id % 3 = 0")
        connection.execute("DELETE FROM tile WHERE id % 7 = 0")
    connection.close()
    with Recording.open(path) as damaged:
        for cells in (1, 40, 200):
            found = series(damaged, "gradient.norm", 1, N, cells)
            check(found, records, "gradient.norm", 1, N, cells)


def test_a_series_grows_with_a_recording_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {})
    with Recording.open(path) as recording:
        for ident in range(1, 71):
            recorder.write(_records.healthy(ident))
            assert recording.refresh()
            found = series(recording, "time", 1, ident, 200)
            assert list(found.low) == [_records.healthy(k).time for k in range(1, ident + 1)]
        assert not recording.refresh()
    recorder.close()
