"""Events in the file: written whole, within a budget, checked when read, kept like records."""

from __future__ import annotations

import json
import random
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from _records import healthy
from pertdbg.event import GraphNode, GraphTree, LineEvent, LineTensor, Operation
from pertdbg.output.care import pack
from pertdbg.record import Unknown
from pertdbg.recording import schema
from pertdbg.recording.eventrows import EventRows
from pertdbg.recording.events import Inside, of_text, to_text
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.salvage import salvage
from pertdbg.recording.verify import verify
from pertdbg.recording.writer import Recorder

TENSOR = LineTensor(
    *((2, 3), "float32", "cpu", True, True, None, False, 4, "A", 1.5, float("inf")),
    *(("other",), ("self.delta",)),
)
OPERATION = Operation("clamp", TENSOR, replace(TENSOR, version=5), True, True, True, 6, 2, None)
EVENT = LineEvent(
    7,
    "delta.clamp_(-1, 1)",
    "Layer.update",
    1,
    {"delta": TENSOR},
    ("delta",),
    ("gone",),
    (("delta", "other"),),
    (OPERATION, replace(OPERATION, value=float("nan"), raised="E", input=None, same_tensor=None)),
    ("helper",),
    "off",
    "on",
    "ValueError",
    (Unknown("tensors.delta.norm", "meta"),),
)
GRAPH = GraphTree(
    (
        GraphNode("AddBackward0", None, (("self", (2, 3), 24),), False, (1, 2)),
        GraphNode("MulBackward0", None, (), True, (2,)),
        GraphNode("torch::autograd::AccumulateGrad", "delta"),
    ),
    complete=False,
)
INSIDE = Inside((EVENT, replace(EVENT, line=8)), 3, {"loss": GRAPH, "delta": GraphTree((), True)})


def file_with(path: Path, *insides: Inside) -> Path:
    recorder = Recorder(path, {})
    for number, inside in enumerate(insides, 1):
        recorder.write(healthy(number), None, inside)
    recorder.close()
    return path


def forge(path: Path, data: Any) -> None:
    """Write other events, under a checksum that holds."""
    text = data if isinstance(data, str) else json.dumps(data)
    crc = schema.Seal(schema.EVENTS)((1, text))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE event SET data = ?, crc = ? WHERE call = 1", (text, crc))
    connection.close()


def test_what_is_written_of_the_inside_is_read(tmp_path: Path) -> None:
    path = file_with(tmp_path / "a.pertdbg", INSIDE, Inside())
    with Recording.open(path) as recording:
        first = recording.inside(1)
        assert repr(first) == repr(Inside(INSIDE.events, 3, dict(INSIDE.graphs)))  # NaN is not NaN
        assert recording.events(2) == ()
        assert recording.graph(1, "loss") == GRAPH
        assert recording.graph(1, "perturbed_input") is None
        assert recording.events(3) == ()
        assert recording.calls_with_events() == [1, 2]
    assert verify(path).sound


def test_the_labels_of_storages_can_be_given_anew() -> None:
    read = of_text(to_text(INSIDE, {"A": "D"}))
    assert {t.storage for event in read.events for t in event.tensors.values()} == {"D"}


def test_facts_that_repeat_stand_there_once() -> None:
    many = Inside(tuple(replace(EVENT, line=k) for k in range(100)))
    data = json.loads(to_text(many))
    assert len(data["events"]) == 100
    assert len(data["facts"]) == 2


def test_too_many_events_leave_the_first_ones_and_a_count() -> None:
    long = replace(EVENT, source="x" * 1000)
    many = Inside(tuple(replace(long, line=k) for k in range(6000)), 1)
    text = to_text(many)
    assert len(text) <= schema.EVENTS_LIMIT
    data = json.loads(text)
    assert data["left_out"] == 1 + 6000 - len(data["events"])
    assert len(data["events"]) > 2000


def test_the_newest_calls_stay_within_the_budget() -> None:
    size = len(to_text(INSIDE))
    rows = EventRows(budget=size * 3 + size // 2)
    assert [len(rows.add(call, INSIDE)) for call in (1, 2, 3)] == [1, 1, 1]
    *_, dropped, count = rows.add(4, INSIDE)
    assert dropped == ("DELETE FROM event WHERE call = ?", (1,))
    assert count[1][:2] == ("events_dropped", 1)
    assert len(rows.add(4, INSIDE)) == 1  # the same call again takes no more room


def test_a_flipped_bit_is_found_and_the_record_is_still_there(tmp_path: Path) -> None:
    path = file_with(tmp_path / "a.pertdbg", INSIDE)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE event SET data = replace(data, 'float32', 'float16')")
    connection.close()
    with Recording.open(path) as recording:
        assert recording.record(1).id == 1
        with pytest.raises(DamagedRecord, match="do not hold what was written"):
            recording.events(1)
    assert any("event 1: its checksum" in damage for damage in verify(path).damages)


def test_a_rescue_keeps_events_and_the_newer_of_two(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {})
    recorder.events(1, Inside((EVENT,)))
    recorder.write(healthy(1), None, INSIDE)
    recorder.close()
    salvage(path, tmp_path / "b.pertdbg")
    with Recording.open(tmp_path / "b.pertdbg") as recording:
        assert len(recording.events(1)) == 2


def test_a_call_under_way_has_events_before_it_has_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {})
    recorder.events(1, Inside((EVENT,)))
    with Recording.open(path) as recording:
        assert recording.head == 0
        assert [event.line for event in recording.events(1)] == [7]
        recorder.write(healthy(1), None, INSIDE)
        recording.refresh()
        assert [event.line for event in recording.events(1)] == [7, 8]
    recorder.close()


def _spoiled(data: Any, generator: random.Random) -> Any:
    """Replace one value somewhere by one of another kind."""
    strange: list[Any] = [
        None,
        -1,
        1 << 70,
        1e999,
        "x" * 2000,
        [],
        {},
        [[]] * 5000,
        True,
        "\ud800",
        "on",
    ]
    if isinstance(data, dict) and data and generator.random() < 0.9:
        key = generator.choice(list(data))
        return {**data, key: _spoiled(data[key], generator)}
    if isinstance(data, list) and data and generator.random() < 0.9:
        place = generator.randrange(len(data))
        return [*data[:place], _spoiled(data[place], generator), *data[place + 1 :]]
    return generator.choice(strange)


def test_events_of_a_stranger_are_read_or_refused() -> None:
    good = json.loads(to_text(INSIDE))
    generator, refused = random.Random(3), 0
    for _ in range(3000):
        text = json.dumps(_spoiled(good, generator))
        try:
            inside = of_text(text)
        except ValueError:
            refused += 1
            continue
        assert all(isinstance(each.says, str) for event in inside.events for each in [event])
        assert all(isinstance(o.says, str) for event in inside.events for o in event.operations)
    assert refused > 1500


@pytest.mark.parametrize(
    "data",
    [
        *("", "null", "[]", "{}", "[" * 100_000, '{"format": 1}', '{"format": 2, "events": []}'),
        {"format": 1, "facts": [], "events": [[1]], "left_out": 0, "graphs": {}},
        {"format": 1, "facts": [], "events": [], "left_out": -1, "graphs": {}},
        {"format": 1, "facts": [], "events": [], "left_out": 0, "graphs": {"x": [True, None, []]}},
        {  # a graph that goes round in a circle
            "format": 1,
            "facts": [],
            "events": [],
            "left_out": 0,
            "graphs": {"loss": [True, None, [["A", None, [], False, [0]]]]},
        },
    ],
)
def test_what_is_no_inside_is_named_as_damage(data: Any, tmp_path: Path) -> None:
    path = file_with(tmp_path / "a.pertdbg", INSIDE)
    forge(path, data)
    with Recording.open(path) as recording, pytest.raises(DamagedRecord):
        recording.inside(1)
    assert not verify(path).sound


def test_a_packed_recording_keeps_its_events(tmp_path: Path) -> None:
    path = file_with(tmp_path / "a.pertdbg", INSIDE)
    pack(path, tmp_path / "b.pertdbg")
    with Recording.open(tmp_path / "b.pertdbg") as recording:
        assert len(recording.events(1)) == 2
