"""What is written is what is read, in every field."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import _records
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord, EffectFacts, from_json, to_json
from pertdbg.recording import HeatMap, LayerSource, Mark
from pertdbg.recording.meta import MetaValue
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.series import series
from pertdbg.recording.writer import Recorder

NAN = float("nan")

Numbers = tuple[float | None, float | None, float | None, float | None]

floats = st.none() | st.floats(width=64)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def recorded(records: list[CallRecord], path: Path) -> Recording:
    recorder = Recorder(path, {})
    for record in records:
        recorder.write(record)
    recorder.close()
    return Recording.open(path)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32),
    st.tuples(floats, floats, floats, floats),
    texts,
    st.integers(0, 2**64 - 1),
)
def test_every_field_of_a_record_comes_back_exactly(
    seed: int,
    numbers: Numbers,
    text: str,
    pointer: int,
) -> None:
    random = Random(seed)
    first = _records.record(random, 1, effect=EffectFacts(*numbers), layer=text)
    tensors = first.tensors
    tensor = _records.healthy(1).tensors.after.delta
    assert tensor is not None
    after = replace(tensors.after, input=replace(tensor, data_ptr=pointer, grad_fn=text))
    records = [replace(first, tensors=replace(tensors, after=after))]
    records += [_records.record(random, ident) for ident in range(2, 6)]
    with (
        tempfile.TemporaryDirectory() as folder,
        recorded(records, Path(folder) / "a.pertdbg") as recording,
    ):
        found = [recording.record(ident) for ident in range(1, 6)]
    for given_, read in zip(records, found, strict=True):
        assert _records.same(given_, read)
        assert to_json(replace(given_, time=0.0)).keys() == to_json(read).keys()


def test_nan_infinity_zero_and_none_are_told_apart(tmp_path: Path) -> None:
    values = [NAN, math.inf, -math.inf, None, 0.0, 5e-324]
    records = [
        _records.healthy(
            k + 1, gradient=replace(_records.healthy(2).gradient, norm=value, norm_in_dtype=None)
        )
        for k, value in enumerate(values)
    ]
    with recorded(records, tmp_path / "a.pertdbg") as recording:
        found = [record.gradient.norm for record in recording]
        assert all(record.gradient.norm_in_dtype is None for record in recording)
    assert found[0] is not None
    assert math.isnan(found[0])
    assert found[1:] == values[1:]
    assert [type(value) for value in found] == [float, float, float, type(None), float, float]


def test_a_record_survives_the_way_through_the_file_and_json(tmp_path: Path) -> None:
    records = _records.records(seed=3, n=40)
    with recorded(records, tmp_path / "a.pertdbg") as recording:
        for record, read in zip(records, recording, strict=True):
            assert _records.same(from_json(to_json(read)), record)


def test_a_recording_is_a_sequence_of_records(tmp_path: Path) -> None:
    records = [_records.healthy(ident) for ident in range(1, 11)]
    with recorded(records, tmp_path / "a.pertdbg") as recording:
        assert len(recording) == recording.head == 10
        assert list(recording) == records
        assert recording[0] == records[0] == recording.record(1)
        assert recording[-1] == records[-1]
        assert recording[2:5] == records[2:5]
        for ident in (0, 11, -1):
            with pytest.raises(IndexError):
                recording.record(ident)
        with pytest.raises(IndexError):
            recording[10]


def test_records_are_found_by_call_and_layer(tmp_path: Path) -> None:
    layers = ["a", "b", "a", "b", "a"]
    calls = [1, 1, 2, 2, 3]
    pairs = enumerate(zip(layers, calls, strict=True), 1)
    records = [_records.healthy(k, layer=layer, call=call) for k, (layer, call) in pairs]
    with recorded(records, tmp_path / "a.pertdbg") as recording:
        assert recording.find(call=2) == [3, 4]
        assert recording.find(call=2, layer="b") == [4]
        assert recording.find(layer="a") == [1, 3, 5]
        assert recording.find(call=9) == []
        assert recording.find(layer="c") == []
        assert [layer.name for layer in recording.layers] == ["a", "b"]


def test_a_layer_keeps_its_source_also_when_it_is_named_after_its_first_record(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.write(_records.healthy(1))
    layer = LayerSource("encoder.pert", "my.Layer", "/x/my.py", 12, "def update(self):\n    ...\n")
    recorder.add_layer(layer)
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert recording.layers == (layer,)
        assert recording.record(1).layer == "encoder.pert"
    recorder.close()


def test_a_map_comes_back_with_its_call(tmp_path: Path) -> None:
    picture = HeatMap(2, 3, bytes(20) + b"\x00\x00\xc0\x7f", 64, 768)
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.write(_records.healthy(1))
    recorder.write(_records.healthy(2), picture)
    recorder.close()
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert recording.picture(1) is None
        assert recording.picture(2) == picture
    assert list(picture.values())[:5] == [0.0] * 5
    assert math.isnan(picture.values()[5])


def test_output_is_given_by_stream_and_call_and_from_its_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.output("stdout", 1, b"one\n")
    recorder.output("stderr", 1, b"warning\n")
    recorder.output("stdout", 2, b"two\n")
    recorder.output("stdout", 4, b"")
    recorder.close()
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert recording.output("stdout") == b"one\ntwo\n"
        assert recording.output("stdout", 1) == b"one\n"
        assert recording.output("stdout", 0) == b""
        assert recording.output("stderr", 9) == b"warning\n"
        assert recording.output("stdout", limit=6) == b"e\ntwo\n"


def test_of_much_output_the_newest_is_kept_and_what_was_cut_is_said(tmp_path: Path) -> None:
    size, line = 9 << 20, b"0123456789abcde\n"
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    for start in range(0, size, 1 << 20):
        recorder.output("stdout", start, line * ((1 << 20) // len(line)))
    recorder.output("stdout", size, b"the end\n")
    recorder.close()
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        kept = recording.output("stdout", limit=size)
        assert kept.endswith(line + b"the end\n")
        assert len(kept) <= 4 << 20
        assert len(kept) + recording.meta.stdout_cut == size + len(b"the end\n")
        assert recording.meta.stderr_cut == 0
    assert (tmp_path / "a.pertdbg").stat().st_size < 7 << 20


def test_the_meta_table_says_who_made_it_of_what_and_how_it_ended(tmp_path: Path) -> None:
    given_: dict[str, MetaValue] = {
        "command": "pertdbg",
        "target": "sift",
        "title": "T",
        "rank": 3,
        "lr": 0.5,
        "x": None,
    }
    recorder = Recorder(tmp_path / "a.pertdbg", given_)
    recorder.state(state="running")
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert recording.meta.state == "running"
        assert not recording.meta.clean_close
        recorder.state(state="ended", exit_status=-9, exit_text="killed by SIGKILL")
        recorder.close()
        assert recording.refresh()
        meta = recording.meta
    assert (meta.command, meta.target, meta.title, meta.rank) == ("pertdbg", "sift", "T", 3)
    assert (meta.state, meta.exit_status, meta.exit_text) == ("ended", -9, "killed by SIGKILL")
    assert meta.clean_close
    assert meta.extra == {"lr": 0.5, "x": None}
    assert (meta.format, meta.world_size, meta.torch, meta.damaged) == (1, 1, "", ())
    assert meta.started_ns == recorder.started_ns
    assert len(meta.uuid) == 36


def test_long_and_broken_texts_are_bounded_and_the_recording_goes_on(tmp_path: Path) -> None:
    raised = replace(_records.healthy(2).update, raised=None)
    long = "x" * 100_000
    with recorded(
        [
            _records.healthy(1, layer="bad \ud800 name"),
            _records.healthy(2, update=replace(raised, returned=long), findings=(long,)),
        ],
        tmp_path / "a.pertdbg",
    ) as recording:
        assert recording.record(1).layer == "bad \\ud800 name"
        returned = recording.record(2).update.returned
        assert isinstance(returned, str)
        assert returned.endswith("... (100000 characters)")
        assert len(returned) <= 1000
        assert len(recording.record(2).findings[0]) <= 1000


def test_a_record_out_of_order_is_refused_and_the_next_one_is_not(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.write(_records.healthy(1))
    for ident in (1, 0, 1003):
        with pytest.raises(ValueError, match=f"record {ident} cannot follow record 1"):
            recorder.write(_records.healthy(ident))
    recorder.write(_records.healthy(2))
    recorder.close()


def test_records_that_were_not_written_are_a_marked_gap_and_missing_to_everyone(
    tmp_path: Path,
) -> None:
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    written = [*range(1, 6), *range(40, 61)]
    for ident in written:
        recorder.write(_records.healthy(ident))
    recorder.close()
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        gaps = [mark for mark in recording.marks(1, 60) if mark.kind == "gap"]
        assert gaps == [Mark(40, "gap", "34 records before this one were not written")]
        found = list(recording.scan())
        assert [k for k, r in enumerate(found, 1) if not isinstance(r, DamagedRecord)] == written
        with pytest.raises(DamagedRecord, match=r"record 6 of .* it is missing"):
            recording.record(6)
        for cells in (3, 60):
            assert sum(series(recording, "time", 1, 60, cells).n) == len(written)


def test_a_recording_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    path.write_text("mine")
    with pytest.raises(PertdbgError, match=r"a\.pertdbg exists already: choose another name"):
        Recorder(path, {})
    assert path.read_text() == "mine"
    with pytest.raises(PertdbgError, match="there is no folder"):
        Recorder(tmp_path / "none" / "a.pertdbg", {})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.pertdbg"]


def test_the_file_takes_fewer_than_800_bytes_a_call(tmp_path: Path) -> None:
    n = 2000
    recorded([_records.healthy(ident) for ident in range(1, n + 1)], tmp_path / "a.pertdbg").close()
    assert (tmp_path / "a.pertdbg").stat().st_size < 800 * n
    assert [file.name for file in tmp_path.iterdir()] == ["a.pertdbg"]
