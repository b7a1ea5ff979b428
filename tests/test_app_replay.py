"""Keys and mouse on a recording: the cursor moves, nothing is run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from _app import SIZES, SMALL, after, calls, play, record_to, shown
from _records import healthy
from pertdbg.app import PertdbgApp
from pertdbg.session import State


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("twenty") / "run.pertdbg"
    printed = {ident: f"line of call {ident}\n".encode() for ident in range(1, 21)}
    return record_to(path, calls(20), printed=printed, stops=[3], exit_text="exit status 0")


@pytest.mark.parametrize("size", SIZES)
def test_a_recording_opens_at_its_first_call(twenty: Path, size: tuple[int, int]) -> None:
    text = after(twenty, size=size)
    first = text.splitlines()[0]
    assert first.startswith(" call 1  batch 1 step 0")
    assert first.endswith("REPLAY exit status 0")
    for title in ("1 gradient norm", "2 clamped delta", "3 leaf status", "4 storage"):
        assert title in text
    assert "delta is a leaf" in text


MOVES = {
    "n": 2,
    "n n n n p": 4,
    "right right left": 2,
    "l l h": 2,
    "p": 1,
    "end": 20,
    "G n": 20,
    "end p home": 1,
    "g 1 2 enter": 12,
    "g 5 0 % enter": 10,
    "n g + 5 enter": 7,
    "g # 9 enter": 9,
    "n g escape": 2,
    "n g 9 9 enter escape": 2,
}
"""Keys from the first call, and the call that they lead to."""


def test_keys_move_the_cursor(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for keys, call in MOVES.items():
            await pilot.press("home", *keys.split())
            assert (app.cursor, keys) == (call, keys)
            assert f" {call}/20" in shown(app)

    play(twenty, act)


def test_what_is_no_call_stays_in_the_dialog_with_the_reason(twenty: Path) -> None:
    text = after(twenty, "g", "x", "enter")
    assert "'x' is no call" in text
    assert "no call 21: there are 20" in after(twenty, "g", "2", "1", "enter")


@pytest.mark.parametrize("key", ["c", "end n"])
def test_a_recording_says_that_it_does_not_run(twenty: Path, key: str) -> None:
    text = after(twenty, *key.split()).splitlines()[0]
    assert ("does not run" in text) or ("last call" in text)


def test_stepping_back_shows_what_was_shown_before(twenty: Path) -> None:
    seen: list[str] = []

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for key in ["n"] * 5 + ["p"] * 5:
            seen.append(shown(app))
            await pilot.press(key)
        seen.append(shown(app))

    play(twenty, act, (120, 40))
    assert seen[:5] == seen[:5:-1]
    assert len(set(seen)) == 6


def test_a_click_on_the_timeline_goes_to_that_call(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        line = shown(app).splitlines()[22]
        await pilot.click("#timeline", offset=(line.index("┤") - 1, 0))
        assert app.cursor == 20
        await pilot.click("#timeline", offset=(1, 0))
        assert app.cursor == 1
        line = shown(app).splitlines()[22]
        await pilot.click("#timeline", offset=(line.index("o"), 0))
        assert app.cursor == 3

    play(twenty, act)


@pytest.mark.parametrize("size", SIZES)
def test_the_timeline_marks_what_happened_and_the_cursor(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    base = healthy(5)
    bad = replace(
        base,
        gradient=replace(base.gradient, norm=math.nan, nan=1),
        update=replace(base.update, returned=False),
    )
    path = record_to(tmp_path / "r.pertdbg", [*calls(4), bad, *calls(7)[5:]], stops=[6])
    lines: list[str] = []

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("end")
        while app.store.faults.looking:
            await pilot.pause(0.02)
        await pilot.pause()
        lines.extend(shown(app).splitlines())

    play(path, act, size)
    line = next(line for line in lines if "7/7" in line)
    marks = [glyph for glyph in line if glyph not in "─┃[] ┤/7"]
    # Call 1 creates, delta leaves its bound at call 2, call 5 holds a NaN, call 6 was a stop.
    assert marks == ["+", "^", "N", "o"]
    assert "[┃" in line
    legend = "N NaN 1  F finding 1  x refused 1  ^ beyond bound 1  + created 1  o stopped 1"
    assert (legend in "\n".join(lines)) == (size != SMALL)


def test_the_output_is_that_up_to_the_call(twenty: Path) -> None:
    text = after(twenty, "n", "n", "7")
    assert "line of call 3" in text
    assert "line of call 4" not in text
    assert "line of call 20" in after(twenty, "end", "7")


def test_the_gradient_curve_marks_a_value_that_is_not_finite(tmp_path: Path) -> None:
    base = healthy(5)
    bad = replace(base, gradient=replace(base.gradient, norm=math.inf, inf=1))
    path = record_to(tmp_path / "r.pertdbg", [*calls(4), bad, *calls(9)[5:]])
    assert "✕" in after(path)


def test_a_call_that_raised_says_so_and_stays_readable(tmp_path: Path) -> None:
    from pertdbg.record import Raised

    base = healthy(2)
    failed = Raised("AttributeError", "'NoneType' object has no attribute 'norm'", 33)
    bad = replace(base, update=replace(base.update, returned=None, raised=failed))
    path = record_to(
        tmp_path / "r.pertdbg", [*calls(1), bad], exit_status=1, exit_text="AttributeError: …"
    )
    text = after(path, "n", size=(120, 40))
    assert "raised AttributeError" in text
    assert text.splitlines()[0].endswith("REPLAY AttributeError: …")


def test_a_recording_without_calls_says_so_and_shows_what_it_is_about(tmp_path: Path) -> None:
    path = record_to(tmp_path / "r.pertdbg", [], exit_text="ValueError: no such model")

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "ValueError: no such model" in shown(app).splitlines()[0]
        for keys in ("n", "p", "c", "home", "end", "y", "5", "z", "g 1 enter escape"):
            await pilot.press(*keys.split())
            text = shown(app)
            assert "a title" in text
            assert "what to look for" in text
            assert "this recording holds no calls" in text

    play(path, act)


def test_a_damaged_call_is_named_and_the_others_stay_readable(tmp_path: Path) -> None:
    import sqlite3

    path = record_to(tmp_path / "r.pertdbg", calls(3))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE call SET gradient_norm = 7 WHERE id = 2")
    connection.close()
    assert "is damaged" in after(path, "n", size=(120, 40)).replace("│", " ")
    assert "call 3" in after(path, "n", "n").splitlines()[0]


def test_replaying_leaves_the_session_as_it_was(twenty: Path) -> None:
    before = twenty.read_bytes()

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("n", "c", "space", "r", "end", "p")
        assert app.session.state is State.REPLAY

    play(twenty, act)
    assert twenty.read_bytes() == before


def test_a_hint_gives_way_to_the_call_again(twenty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pertdbg.app.viewer._HINT", 0.5)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for _ in range(2):
            await pilot.press("p")
            assert "this is the first call" in shown(app).splitlines()[0]
            while "call 1  batch" not in shown(app):
                await pilot.pause(0.05)

    play(twenty, act)
