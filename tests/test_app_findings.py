"""`8`, `f` and `F`: what is wrong is named, its evidence shown where it belongs, and gone to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from _app import MIDDLE, SIZES, SMALL, calls, check_lines, play, record_to, shown
from _wait import seen
from pertdbg.app import PertdbgApp
from pertdbg.app.panels.findings import evidence, findings
from pertdbg.findings.engine import check
from pertdbg.record import CallRecord


def broken(record: CallRecord) -> CallRecord:
    return replace(record, gradient=replace(record.gradient, nan=3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Forty calls; the gradient of calls 15 and 16 holds NaN."""
    some = [broken(record) if record.id in (15, 16) else record for record in calls(40)]
    return record_to(tmp_path / "a.pertdbg", some)


async def until(app: PertdbgApp, pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    await seen(pilot, holds, lambda: shown(app))


@pytest.mark.parametrize("size", SIZES)
def test_findings_are_named_gone_to_and_proved(path: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda: bool(app.store.faults.all) and not app.store.faults.looking)
        await pilot.press("f")
        await pilot.pause()
        assert app.cursor == 15
        text = shown(app)
        panel = app.main.panels["gradient"].copied()
        assert "! gradient.nan = 3  grad-nonfinite" in panel  # lit where it belongs
        if size == SMALL:  # in one line there, so that what the panel says itself is seen
            assert "! grad-nonfinite  nan = 3" in text
        assert "gradient holds 3 NaN" in text
        await pilot.press("8")
        await pilot.pause()
        text = shown(app)
        assert "grad-nonfinite" in text
        assert "pertdbg check --explain" in text
        await pilot.press("f")
        await pilot.pause()
        assert app.cursor == 15
        assert "no later finding" in shown(app)
        await pilot.press("end", "F")
        await pilot.pause()
        assert app.cursor == 15

    play(path, act, size)


def test_the_app_names_what_the_command_names(path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda: not app.store.faults.looking)
        seen = [(one.kind, one.call, one.more) for one in app.store.faults.all]
        assert seen == [(one.kind, one.call, one.more) for one in check(path)]
        assert seen == [("grad-nonfinite", 15, 1)]

    play(path, act, MIDDLE)


def test_the_timeline_says_that_there_is_a_finding(path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda: not app.store.faults.looking)
        await pilot.pause(0.1)
        line = shown(app).splitlines()[-3]
        # NaN is the more pressing mark of calls 15 and 16; the legend says that there is another.
        assert "N" in line
        assert "F finding 1" in shown(app)

    play(path, act, MIDDLE)


def test_a_healthy_recording_has_nothing_to_go_to(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda: not app.store.faults.looking)
        await pilot.press("f")
        await pilot.pause()
        assert "no later finding" in shown(app)
        await pilot.press("8")
        await pilot.pause()
        assert "nothing is found" in shown(app)

    play(record_to(tmp_path / "a.pertdbg", calls(5)), act, MIDDLE)


@pytest.mark.parametrize("width", [20, 38, 80, 200])
def test_the_panel_fits_whatever_a_recording_holds(path: Path, width: int) -> None:
    found = [replace(one, layer="[red]\x1b[2J" * 9) for one in check(path)]
    check_lines(findings(found, found[0].id, "looking", width), width)
    check_lines(findings(found, 0, "", width), width)
    for short in (False, True):
        check_lines(evidence(found, "gradient", width, short=short), width)
