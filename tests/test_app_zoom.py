"""The timeline and the plots from all calls to single ones; what is wrong is said at once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from _app import LARGE, MIDDLE, SMALL, after, calls, play, record_to, shown
from _records import healthy
from pertdbg.app import PertdbgApp
from pertdbg.app.marks import KINDS, Marks
from pertdbg.app.zoom import Zoom
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder


def refused(ident: int) -> CallRecord:
    base = healthy(ident)
    return replace(base, update=replace(base.update, returned=False))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "run.pertdbg"
    recorder = Recorder(path, {})
    for ident in range(1, 6001):
        recorder.write(refused(ident) if ident in (3000, 3001) else healthy(ident))
        if ident in (17, 4321):
            recorder.mark(ident, "stopped", "stopped")
    recorder.close()
    return path


@given(st.lists(st.sampled_from(["in", "out", "all", "move"])), st.integers(1, 10**6), st.data())
def test_the_cursor_is_always_in_the_window(
    acts: list[str], head: int, data: st.DataObject
) -> None:
    zoom, cursor = Zoom(), 1
    for act in acts:
        at = data.draw(st.integers(1, head))
        if act == "move":
            cursor = at
        elif act == "all":
            zoom.everything()
        else:
            (zoom.closer if act == "in" else zoom.wider)(cursor, cursor, head)
        lo, hi = zoom.window(cursor, head)
        assert 1 <= lo <= cursor <= hi <= head


@pytest.mark.parametrize("cells", [1, 7, 100, 5999])
def test_the_cells_hold_the_marks_of_their_calls(many: Path, cells: int) -> None:
    bits = {kind.name: 1 << index for index, kind in enumerate(KINDS)}
    with Recording.open(many) as recording:
        found = Marks(recording).cells(1, 6000, cells)
        expected = [0] * cells
        for mark in recording.marks(1, 6000):
            (cell,) = (c for c in range(cells) if c * 6000 < mark.id * cells <= (c + 1) * 6000)
            expected[cell] |= bits[mark.kind]
    assert found == expected


def test_counts_go_on_as_calls_come(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.pertdbg", {})
    recorder.write(healthy(1))
    with Recording.open(tmp_path / "r.pertdbg") as recording:
        marks = Marks(recording)
        for ident in range(2, 12):
            recorder.write(refused(ident))
            assert recording.refresh()
            before = {kind.name: n for kind, n in marks.counts(1, ident)}
            recorder.mark(ident, "stopped", "stopped")
            counted = {kind.name: n for kind, n in marks.counts(1, ident)}
            assert counted["refused"] == before["refused"] == ident - 1
            assert (before.get("stopped", 0), counted["stopped"]) == (ident - 2, ident - 1)
    recorder.close()


def test_keys_and_wheel_zoom_to_single_calls_and_back(many: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "refused  " in shown(app)  # not counted: there are too many calls
        await pilot.press("g", *"3000", "enter", *["plus"] * 8)
        await pilot.pause()
        lo, hi = app.store.window(app.cursor)
        assert hi - lo + 1 == 6000 // 2**8
        text = shown(app)
        assert f"calls {lo:,} to {hi:,}  x refused 2" in text
        assert "<" in text
        assert ">" in text
        assert text.count("calls") == 1
        for _ in range(40):
            await pilot.press("n")
        lo, hi = app.store.window(app.cursor)
        assert lo <= 3040 <= hi
        await pilot.press("minus")
        assert app.store.window(3040)[1] - app.store.window(3040)[0] + 1 == 2 * (6000 // 2**8)
        await pilot.press("0")
        assert app.store.window(3040) == (1, 6000)
        await pilot._post_mouse_events([MouseScrollUp], "#timeline", offset=(90, 0), button=0)
        await pilot.pause()
        lo, hi = app.store.window(app.cursor)
        assert hi - lo + 1 == 3000
        await pilot._post_mouse_events([MouseScrollDown], "#gradient", button=0)
        await pilot.pause()
        assert app.store.window(3040) == (1, 6000)

    play(many, act, MIDDLE)


def test_a_click_in_a_zoomed_timeline_goes_to_the_call_that_stands_there(many: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("g", *"3000", "enter", *["plus"] * 10)
        await pilot.pause()
        line = next(line for line in shown(app).splitlines() if "/6,000" in line)
        places = [place for place, glyph in enumerate(line) if glyph == "x"]
        assert len(places) == 2
        await pilot.click("#timeline", offset=(places[1], 0))
        assert app.cursor == 3001

    play(many, act, LARGE)


def test_a_gap_is_marked_and_its_calls_are_named(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.pertdbg", {})
    for ident in (1, 2, 3, 7, 8):
        recorder.write(healthy(ident))
    recorder.close()
    line = next(line for line in after(tmp_path / "r.pertdbg").splitlines() if "1/8" in line)
    assert "~" in line
    assert "missing" in after(tmp_path / "r.pertdbg", *"nnnn", size=MIDDLE).replace("│", " ")


@pytest.mark.parametrize("size", [SMALL, MIDDLE])
def test_what_is_wrong_with_a_recording_is_said_when_it_opens(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    path = record_to(tmp_path / "r.pertdbg", calls(6))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM call WHERE id > 4")
    text = after(path, size=size)
    assert "the last 2 of 6 records are" in " ".join(text.split())
    text = after(path, "i", size=size)
    assert "the last 2 of 6 records are missing" in " ".join(text.split())
