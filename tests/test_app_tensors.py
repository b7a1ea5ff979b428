"""Stored tensors in the app: their maps, and their values, of which only what is seen is read."""

from __future__ import annotations

import struct
from pathlib import Path
from unittest import mock

import pytest
from textual.pilot import Pilot

from _app import LARGE, MIDDLE, SIZES, SMALL, after, calls, check_lines, play, record_to, shown
from _records import healthy
from _wait import seen
from pertdbg.app import PertdbgApp
from pertdbg.app.panels.values import values
from pertdbg.recording.reader import Recording
from pertdbg.recording.schema import PART_SIZE
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.window import Window
from pertdbg.recording.writer import Recorder

ROWS, COLUMNS = 2000, 300
"""More than one part holds."""


def floats(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "run.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(healthy(1))
    recorder.write(healthy(2))
    whole = [float(k) for k in range(ROWS * COLUMNS)]
    recorder.tensor(2, "delta", "float32", (2, ROWS // 2, COLUMNS), floats(whole))
    small = [0.5, float("nan"), float("-inf"), -2.0]
    recorder.tensor(2, "perturbed_input", "float32", (2, 2), floats(small))
    recorder.close()
    return path


@pytest.mark.parametrize("size", [MIDDLE, LARGE])
def test_a_key_goes_through_the_stored_tensors_and_back_to_the_map(
    stored: Path, size: tuple[int, int]
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("n", "t")
        await pilot.pause()
        assert "delta  float32 2x1000x300" in shown(app)
        while "sizes so far" in shown(app):
            await pilot.pause(0.02)
        assert "sizes: 9304 to 6e+05" in shown(app)
        await pilot.press("t")
        await pilot.pause()
        assert "perturbed input  float32 2x2" in shown(app)
        assert "each element, 1 with NaN, 1 with Inf" in shown(app)
        await pilot.press("p")
        await pilot.pause()
        assert "not stored of this" in shown(app)
        assert "record #2" in shown(app)
        await pilot.press("n", "t")
        await pilot.pause()
        assert "map: not recorded" in shown(app)

    play(stored, act, size)


@pytest.mark.parametrize("size", SIZES)
def test_the_table_shows_the_values_where_it_is_scrolled_to(
    stored: Path, size: tuple[int, int]
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("n", "v")
        await pilot.pause()
        lines = shown(app).splitlines()
        assert lines[2].strip("│ ").split()[:4] == ["0,0", "0", "1", "2"]
        await pilot.press("end", "right")
        await pilot.pause()
        line = shown(app).splitlines()[-2].strip("│ ").split()
        left = int(shown(app).splitlines()[1].strip("│ ").split()[0])
        assert line[0] == "1,999"
        assert line[1] == f"{(ROWS - 1) * COLUMNS + left:.4g}"
        assert "of 2,000" in shown(app).splitlines()[-1]
        await pilot.press("t")
        await pilot.pause()
        assert shown(app).splitlines()[2].strip("│ ").split() == ["0", "0.5", "NaN"]
        assert shown(app).splitlines()[3].strip("│ ").split() == ["1", "-Inf", "-2"]
        await pilot.press("v")
        await pilot.pause()
        assert "1 gradient norm" in shown(app)

    play(stored, act, size)


def test_only_what_is_seen_is_read(stored: Path) -> None:
    read: list[int] = []
    part = StoredTensor._part

    def counted(tensor: StoredTensor, number: int) -> bytes:
        read.append(number)
        return part(tensor, number)

    with Recording.open(stored) as recording, mock.patch.object(StoredTensor, "_part", counted):
        tensor = recording.tensor(2, "delta")
        assert tensor is not None
        assert tensor.parts > 1
        lines = values(Window(tensor), 1500, 7, 80, 20)
        assert "".join(text for text, _ in lines[1]).split()[:2] == [
            "1,500",
            f"{1500 * 300 + 7:.4g}",
        ]
        check_lines(lines, 80)
    first = 1500 * COLUMNS * 4 // PART_SIZE
    assert set(read) <= {0, first, first + 1}  # part 0 has the header


def test_without_stored_tensors_it_says_how_to_get_them(tmp_path: Path) -> None:
    path = record_to(tmp_path / "r.pertdbg", calls(2))
    for key in "tv":
        assert "--tensors" in after(path, key, size=SMALL)


def test_a_call_whose_tensors_went_for_the_budget_says_so(tmp_path: Path) -> None:
    path = tmp_path / "r.pertdbg"
    recorder = Recorder(path, {}, tensors="all", budget=3_000)
    for record in calls(20):
        recorder.write(record)
        recorder.tensor(record.id, "delta", "uint8", (500,), bytes(500))
    recorder.close()
    assert "calls were dropped to stay within the budget of 3 KB" in " ".join(
        after(path, "i", size=MIDDLE).replace("│", " ").split()
    )
    with Recording.open(path) as recording:
        gone = min(set(range(1, 21)) - set(recording.calls_with_tensors()))
    text = after(path, "g", *str(gone), "enter", "t", size=MIDDLE).splitlines()[0]
    assert "this call's tensors were dropped: the budget of 3 KB is used up; g #" in text


def test_a_damaged_tensor_is_named(tmp_path: Path, stored: Path) -> None:
    import sqlite3
    from contextlib import closing

    path = tmp_path / "r.pertdbg"
    path.write_bytes(stored.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tensor_part SET data = zeroblob(length(data))")

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for keys in (("n", "v"), ("escape", "t")):
            await pilot.press(*keys)
            await seen(pilot, lambda: "is damaged" in shown(app), lambda: shown(app))

    play(path, act, MIDDLE)
