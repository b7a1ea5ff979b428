"""Watches: values and courses as a panel, kept for the next time in a file a person can read."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from _app import LARGE, MIDDLE, SIZES, calls, check_lines, play, record_to, shown
from _records import healthy
from pertdbg.app import PertdbgApp
from pertdbg.app.panels.watch import Watched, watch
from pertdbg.app.watches import Watches
from pertdbg.conditions import parse
from pertdbg.recording.reader import Recording
from test_app_find import typed


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    records = []
    for record in calls(10):
        gradient = replace(record.gradient, present=True, reason=None, norm=float(record.id))
        delta = replace(record.delta, norm=2.0)
        records.append(replace(record, gradient=gradient, delta=delta))
    return record_to(tmp_path / "run.pertdbg", records, kept_as="scenario ten")


def kept(path: Path) -> str:
    (file,) = (path.parent / "config" / "pertdbg" / "watches").glob("*.toml")
    return file.read_text()


@pytest.mark.parametrize("size", SIZES)
def test_a_watch_is_checked_as_one_types_and_then_shown_at_every_call(
    ten: Path, size: tuple[int, int]
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("w", *typed("gradient.norm / delta"))
        await pilot.pause()
        said = app.screen.query_one("#said", Static)
        assert "column" in str(said.render()), "delta is a group and no number"
        await pilot.press(*typed(".norm"))
        await pilot.pause()
        assert str(said.render()) == "here: 0.5"
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.is_seen("watch")
        for call in range(2, 6):
            await pilot.press("n")
            await pilot.pause()
            text = shown(app)
            assert f"gradient.norm / delta.norm  {call / 2:g} " in text
        assert "⠒" in text or "⣀" in text or "⡠" in text or "⠤" in text, "its course is drawn"
        await pilot.press("escape")
        await pilot.pause()
        assert "1 gradient norm" in shown(app)

    play(ten, act, size)


def test_watches_and_conditions_are_found_again_at_the_next_start(ten: Path) -> None:
    async def first(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("w", *typed("gradient.norm"), "enter")
        await pilot.press("w", *typed("delta.beyond > 0"), "enter")
        await pilot.press("b", "ctrl+u", *typed("gradient.norm > 7.5"), "enter")
        await pilot.pause()

    async def second(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert app.store.watches.texts == ["gradient.norm", "delta.beyond > 0"]
        await pilot.press("full_stop")
        await app.workers.wait_for_complete([w for w in app.workers if w.group == "seek"])
        assert app.cursor == 8
        await pilot.press("w", "w", "down", "x", "escape")
        await pilot.pause()

    play(ten, first, MIDDLE)
    assert '"gradient.norm",' in kept(ten)
    assert '"gradient.norm > 7.5",' in kept(ten)
    play(ten, second, MIDDLE)
    assert '"gradient.norm",' not in kept(ten)
    assert '"delta.beyond > 0",' in kept(ten)


def test_what_cannot_be_read_in_the_file_is_named_and_stays_there(ten: Path) -> None:
    from unittest import mock

    from pertdbg.conditions import Kept

    with mock.patch.dict("os.environ", {"XDG_CONFIG_HOME": str(ten.parent / "config")}):
        file = Kept("scenario ten").path
    file.parent.mkdir(parents=True)
    file.write_text('watches = ["gradient.nrm", "delta.norm"]\nstop_when = ["nonsense("]\n')

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.pause()
        assert "gradient.nrm" in shown(app)
        assert app.store.watches.texts == ["delta.norm"]
        await pilot.press("w", "w", *typed("call"), "enter")
        await pilot.pause()

    play(ten, act, LARGE)
    for text in ('"gradient.nrm",', '"delta.norm",', '"call",', '"nonsense(",'):
        assert text in kept(ten)


def test_a_recording_that_is_kept_for_nothing_writes_no_file(tmp_path: Path) -> None:
    path = record_to(tmp_path / "r.pertdbg", calls(3))

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("w", *typed("call"), "enter")
        await pilot.pause()
        assert app.store.watches.texts == ["call"]

    play(path, act)
    assert not (tmp_path / "config" / "pertdbg" / "watches").exists()


def test_a_watch_that_is_not_known_at_a_call_says_why(tmp_path: Path) -> None:
    path = record_to(tmp_path / "r.pertdbg", calls(3))

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("w", *typed("delta.moved_max"), "enter")
        await pilot.pause()
        assert "delta.moved_max  unknown" in shown(app)
        assert "created" in shown(app)

    play(path, act, MIDDLE)


def test_the_course_of_a_watch_is_that_of_its_values(tmp_path: Path) -> None:
    def finite(ident: int) -> float:
        return math.nan if ident == 5 else float(ident)

    records = [
        replace(r, gradient=replace(r.gradient, present=True, norm=finite(r.id))) for r in calls(9)
    ]
    path = record_to(tmp_path / "r.pertdbg", records)
    watches = Watches(["gradient.norm * 2", "layer", "not an expression"])
    assert watches.texts == ["gradient.norm * 2", "layer"]
    with Recording.open(path) as recording:
        done = False
        while not done:
            found, done = watches.course(recording, parse("gradient.norm * 2"), (1, 9), 9)
        assert found is not None
        assert [high for high in found.high if high == high] == [2, 4, 6, 8, 12, 14, 16, 18]
        assert list(found.bad) == [0, 0, 0, 0, 1, 0, 0, 0, 0]
        assert watches.course(recording, parse("layer"), (1, 9), 9) == (None, True)


def test_the_panel_fits_any_width() -> None:
    items = [
        Watched("a long expression " * 9, 0.5, "", None),
        Watched("x", None, "a reason " * 20, None),
        Watched("layer", "a\x1b[31mname", "", None),
    ]
    assert healthy(1).id == 1
    for width in (20, 38, 78, 120):
        check_lines(watch(items, 1, width, 10), width)
        check_lines(watch([], 1, width, 10), width)
