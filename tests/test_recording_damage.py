"""A flipped bit is noticed where it touches what is shown, and is never shown as the truth."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import _records
from pertdbg.errors import PertdbgError
from pertdbg.recording import HeatMap, LayerSource
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.schema import CALLS, Seal
from pertdbg.recording.series import Series, series
from pertdbg.recording.writer import Recorder

N = 60
SERIES = ("gradient.norm", "delta.beyond", "update.created", "time")


def record_some(path: Path) -> None:
    recorder = Recorder(path, {"title": "a title", "rank": 2})
    recorder.add_layer(LayerSource("encoder.pert", "L", "/x.py", 3, "def update(self): ...\n"))
    for ident in range(1, N + 1):
        recorder.write(_records.healthy(ident), HeatMap(2, 2, bytes(16), ident, 2))
        recorder.output("stdout", ident, b"line %d\n" % ident)
        if ident % 9 == 0:
            recorder.mark(ident, "stopped", "stopped here")
    recorder.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.pertdbg"
    record_some(path)
    return path


def everything(recording: Recording) -> dict[str, object]:
    """What can be shown of a recording, by where it stands; what is damaged is left out."""
    shown: dict[str, object] = {}
    for ident in range(1, N + 1):
        with suppress(PertdbgError, IndexError):
            shown[f"record {ident}"] = recording.record(ident)
        with suppress(PertdbgError):
            shown[f"picture {ident}"] = recording.picture(ident)
    for layer in recording.layers:
        shown[f"layer {layer.name}"] = layer
    meta = recording.meta
    shown["meta"] = replace(meta, damaged=())
    shown["marks"] = recording.marks(1, N)
    shown["output"] = recording.output("stdout")
    shown["series"] = [series(recording, name, 1, N, N) for name in SERIES]
    shown["sums"] = [series(recording, name, 1, N, 3) for name in SERIES]
    return shown


def series_agree(found: Series, expected: Series) -> bool:
    """Each cell is what was written, or (for single records) is said to be unknown."""
    return all(
        n == 0 or (low, high) == (was_low, was_high) or low != low
        for low, high, n, was_low, was_high in zip(
            found.low, found.high, found.n, expected.low, expected.high, strict=False
        )
    )


def compare(found: dict[str, object], expected: dict[str, object]) -> None:
    for key, value in found.items():
        if key.startswith(("record", "picture", "layer")):
            assert value in (expected[key], None), key
        elif key == "series":
            pairs = zip(value, expected[key], strict=True)  # type: ignore[call-overload]
            assert all(series_agree(*pair) for pair in pairs)
        elif key == "marks":
            assert set(value) <= set(expected[key])  # type: ignore[call-overload]
        elif key == "output":
            lines = set(value.split(b"\n")) - {b"[damaged]"}  # type: ignore[attr-defined]
            assert lines <= set(expected[key].split(b"\n"))  # type: ignore[attr-defined]


def test_no_flipped_bit_is_shown_as_the_truth(whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    with Recording.open(whole) as recording:
        expected = everything(recording)
    random = Random(11)
    seen = refused = 0
    for _ in range(150):
        place, bit = random.randrange(len(data)), 1 << random.randrange(8)
        flipped = bytearray(data)
        flipped[place] ^= bit
        path = tmp_path / "flipped.pertdbg"
        path.write_bytes(flipped)
        try:
            with Recording.open(path) as recording:
                found = everything(recording)
        except PertdbgError:
            refused += 1
            continue
        compare(found, expected)
        seen += len(found) < len(expected) or found["meta"] != expected["meta"]
    assert seen >= 20  # the test reaches rows and notices
    assert refused < 75


def test_each_changed_value_of_a_row_is_noticed(whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    connection = sqlite3.connect(whole)
    names = [row[1] for row in connection.execute("PRAGMA table_info(call)")]
    connection.close()
    for k, name in enumerate(names[1:]):
        path = tmp_path / f"{k}.pertdbg"
        path.write_bytes(data)
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(f"UPDATE call SET {name} = coalesce({name}, 0) + 1 WHERE id = 7")
        connection.close()
        with Recording.open(path) as recording:
            with pytest.raises(DamagedRecord, match=r"record 7 .*its checksum does not hold"):
                recording.record(7)
            assert recording.record(8) == _records.healthy(8)
            assert series(recording, "delta.norm", 7, 7, 1).n[0] == 0
        path.unlink()


def test_a_row_that_moved_or_went_is_noticed(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    path.write_bytes(whole.read_bytes())
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM call WHERE id IN (20, 21)")
        connection.execute("UPDATE call SET id = 20 WHERE id = 22")
    connection.close()
    with Recording.open(path) as recording:
        damaged = {r.id: str(r) for r in recording.scan() if isinstance(r, DamagedRecord)}
        assert list(damaged) == [20, 21, 22]
        assert "checksum" in damaged[20]
        assert "it is missing" in damaged[21]
        with pytest.raises(DamagedRecord):
            list(recording)


def test_a_record_with_an_absurd_number_does_not_make_the_recording_endless(
    whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.pertdbg"
    path.write_bytes(whole.read_bytes())
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE call SET id = 1 << 60 WHERE id = 60")
    with Recording.open(path) as recording:
        assert recording.head == 60
        assert [isinstance(found, DamagedRecord) for found in recording.scan()] == [False] * 59 + [
            True
        ]
    (*row, _) = connection.execute(f"{CALLS.select} WHERE id = 1 << 60").fetchone()
    with connection:
        connection.execute("UPDATE call SET crc = ? WHERE id = 1 << 60", (Seal(CALLS)(row),))
    connection.close()
    with pytest.raises(PertdbgError, match="its records are not in order"):
        Recording.open(path)


def test_a_damaged_part_that_records_share_damages_those_that_use_it(
    whole: Path, tmp_path: Path
) -> None:
    for statement in (
        "UPDATE tensor_kind SET dtype = 'float64'",
        "UPDATE detail SET json = replace(json, 'input', 'delta')",
        "UPDATE layer SET name = 'other'",
    ):
        path = tmp_path / "a.pertdbg"
        path.write_bytes(whole.read_bytes())
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(statement)
        connection.close()
        with Recording.open(path) as recording:
            assert all(isinstance(found, DamagedRecord) for found in recording.scan())


def test_damaged_meta_maps_output_and_marks_are_left_out_and_said(
    whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.pertdbg"
    path.write_bytes(whole.read_bytes())
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = 'another title' WHERE key = 'title'")
        connection.execute("UPDATE picture SET data = x'00' WHERE id = 3")
        connection.execute("UPDATE output SET data = x'41' WHERE call = 60")
        connection.execute("UPDATE mark SET call = 5 WHERE call = 9")
    connection.close()
    with Recording.open(path) as recording:
        assert recording.meta.title == ""
        assert recording.meta.damaged == ("title",)
        with pytest.raises(DamagedRecord, match="its map"):
            recording.picture(3)
        assert recording.output("stdout").endswith(b"line 59\n\n[damaged]\n")
        assert 5 not in {mark.id for mark in recording.marks(1, N) if mark.kind == "stopped"}
