"""Two recordings: the first call and fact that differ, and nothing that means nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import _hostile
import _records
from pertdbg.compare import compare, differences
from pertdbg.output.diffranks import diff
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder

Change = Callable[[CallRecord], CallRecord]


def write(path: Path, records: Iterable[CallRecord]) -> Path:
    recorder = Recorder(path, {})
    for record in records:
        recorder.write(record)
    recorder.close()
    return path


def healthy(ident: int, **given: Any) -> CallRecord:
    """The same facts for each seed, at other addresses and times."""
    moved = {
        label: replace(facts, address=(facts.address or 0) + 640)
        for label, facts in _records.healthy(ident).storages.items()
    }
    return _records.healthy(ident, storages=moved, time=ident * 3.0, rank=2, **given)


def with_norm(record: CallRecord, factor: float) -> CallRecord:
    if record.gradient.norm is None:
        return record
    norm = record.gradient.norm * factor
    return replace(record, gradient=replace(record.gradient, norm=norm))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write(tmp_path / "a.pertdbg", (_records.healthy(k) for k in range(1, 41)))


def test_two_runs_that_differ_in_addresses_and_times_are_the_same(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "b.pertdbg", (healthy(k) for k in range(1, 41)))
    assert diff(base, other) == 0
    assert capsys.readouterr().out == "40 calls compared: no fact differs in a bit\n"


def test_the_first_call_and_fact_that_differ_are_named_with_their_growth(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        with_norm(healthy(k), 1 + 1e-9 * 2 ** (k - 7) if k >= 7 else 1) for k in range(1, 41)
    ]
    other = write(tmp_path / "b.pertdbg", records)
    assert diff(base, other, as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    a, b = (_records.healthy(7).gradient.norm or 0), records[6].gradient.norm
    assert found["first"] == {
        "layer": "encoder.pert",
        "call": 7,
        "ids": [7, 7],
        "fact": "gradient.norm",
        "values": [a, b],
        "kind": "bits",
    }
    # 1e-9 * 2**k exceeds 1e-5 for the first time at k = 14
    assert found["first_beyond_tolerance"]["call"] == 21
    [fact] = found["facts"]
    assert (fact["fact"], fact["calls"], fact["worst_call"]) == ("gradient.norm", 34, 40)
    assert [step["call"] for step in fact["growth"]] == [7, 8, 10, 14, 22, 38]
    sizes = [step["difference"] for step in fact["growth"]]
    expected = [abs((records[k - 1].gradient.norm or 0) - norm) for k, norm in _norms(fact)]
    assert sizes == expected
    assert diff(base, other) == 1
    words = capsys.readouterr().out
    assert "the first that differs is call 7 of encoder.pert (record 7)" in words
    assert "by more than 1e-05, relative, it is call 21" in words


def _norms(fact: dict[str, Any]) -> list[tuple[int, float]]:
    calls = [step["call"] for step in fact["growth"]]
    return [(k, _records.healthy(k).gradient.norm or 0) for k in calls]


def test_a_tolerance_decides_what_is_the_same(base: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "b.pertdbg", (with_norm(healthy(k), 1.001) for k in range(1, 41)))
    assert diff(base, other) == 1
    assert diff(base, other, tolerance=1e-4) == 1
    assert diff(base, other, tolerance=1e-2) == 0


def _shared(record: CallRecord) -> CallRecord:
    """Input and perturbed input in one storage."""
    storages = {
        "A": replace(record.storages["A"], holds=("input", "perturbed_input")),
        **{label: record.storages[label] for label in "BD"},
    }
    return replace(record, storages=storages, shared=(("input", "perturbed_input"),))


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (_shared, "storages.A.holds"),
        (lambda r: replace(r, update=replace(r.update, returned=False)), "update.returned"),
        (lambda r: replace(r, delta=replace(r.delta, nan=1)), "delta.nan"),
        (lambda r: replace(r, delta=replace(r.delta, norm=math.nan)), "delta.norm"),
        (lambda r: replace(r, delta=replace(r.delta, norm=None)), "delta.norm"),
        (lambda r: replace(r, source_line=99), "source_line"),
        (lambda r: replace(r, findings=("nan-gradient",)), "findings"),
    ],
)
def test_a_change_of_any_kind_is_found(
    base: Path, tmp_path: Path, change: Change, fact: str
) -> None:
    records = [change(healthy(k)) if k == 23 else healthy(k) for k in range(1, 41)]
    other = write(tmp_path / "b.pertdbg", records)
    with Recording.open(base) as one, Recording.open(other) as two:
        found = compare(one, two)
    assert found.first is not None
    assert (found.first.call, found.first.difference.fact) == (23, fact)
    assert found.first_beyond == found.first
    assert not found.same(within_tolerance=True)


def test_nan_equals_nan_and_every_record_equals_itself() -> None:
    for record in _records.records(5, 200):
        assert differences(record, replace(record, id=9, time=-1.0, rank=7)) == []
    random = Random(1)
    a, b = _records.record(random, 1), _records.record(random, 1)
    facts = [found.fact for found in differences(a, b)]
    assert len(facts) == len(set(facts)) > 10
    assert not [fact for fact in facts if fact.endswith(("data_ptr", "address", "time"))]


def test_calls_are_aligned_by_layer_and_number_whatever_their_order(tmp_path: Path) -> None:
    def run(order: list[tuple[str, int]]) -> list[CallRecord]:
        return [
            replace(_records.healthy(call), id=k, layer=layer)
            for k, (layer, call) in enumerate(order, 1)
        ]

    one = write(tmp_path / "a", run([("x", 1), ("x", 2), ("y", 1), ("x", 3), ("y", 2)]))
    two = write(tmp_path / "b", run([("y", 1), ("x", 1), ("y", 2), ("y", 3), ("x", 2)]))
    with Recording.open(one) as a, Recording.open(two) as b:
        found = compare(a, b)
    assert (found.compared, found.first) == (4, None)
    assert (found.only_a, found.only_b) == ([("x", 3)], [("y", 3)])
    assert not found.same()


def test_a_damaged_record_is_no_difference_but_not_the_same_either(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "b.pertdbg", (healthy(k) for k in range(1, 41)))
    _hostile.sql("UPDATE call SET batch = 9 WHERE id = 5")(other)
    assert diff(base, other) == 1
    words = capsys.readouterr().out
    assert "39 calls compared: no fact differs" in words
    assert "1 record could not be compared:" in words
    assert "only in the first: call 5 of encoder.pert" in words
