"""`d`: the same call of two recordings side by side, and the way from difference to difference."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from textual.pilot import Pilot

from _app import HOSTILE, MIDDLE, SIZES, calls, check_lines, play, record_to, shown
from _records import healthy, records
from pertdbg.app import PertdbgApp
from pertdbg.app.panels.versus import versus
from pertdbg.app.screens.versus import Compare
from pertdbg.app.versus import Pair, Versus
from pertdbg.compare import differences
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording


def changed(record: CallRecord, norm: float) -> CallRecord:
    return replace(record, gradient=replace(record.gradient, norm=norm))


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Recordings that differ in calls 5 and 9; the second lacks call 12."""
    one = calls(12)
    other = [changed(r, 7.0) if r.id == 5 else r for r in one[:11]]
    other[8] = replace(other[8], delta=replace(other[8].delta, nan=3))
    return record_to(tmp_path / "a.pertdbg", one), record_to(tmp_path / "b.pertdbg", other)


async def compare_with(pilot: Pilot[int], path: Path) -> None:
    await pilot.press("d")
    await pilot.pause()
    pilot.app.screen.query_one("Input").value = str(path)  # type: ignore[attr-defined]
    await pilot.press("enter")
    await pilot.pause()


async def after_search(app: PertdbgApp, pilot: Pilot[int]) -> str:
    await app.workers.wait_for_complete(
        [worker for worker in app.workers if worker.group == "search"]
    )
    await pilot.pause()
    return shown(app)


@pytest.mark.parametrize("size", SIZES)
def test_keys_lead_from_difference_to_difference(
    two: tuple[Path, Path], size: tuple[int, int]
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await compare_with(pilot, two[1])
        assert "call 1 of encoder.pert: no fact differs in a bit" in shown(app)
        await pilot.press("n")
        await pilot.pause()
        assert "call 2 of" in shown(app)
        await pilot.press("f")
        text = await after_search(app, pilot)
        assert "call 5 of encoder.pert: 1 fact differs, gradient.norm first" in text
        assert "> gradient.norm" in " ".join(text.split())
        assert "7.0" in text
        assert "≠" in text
        await pilot.press("f")
        assert "call 9 of encoder.pert" in await after_search(app, pilot)
        await pilot.press("f")
        assert "call 12 of encoder.pert: not in b.pertdbg" in await after_search(app, pilot)
        await pilot.press("f")
        assert "no call differs after this one" in await after_search(app, pilot)
        await pilot.press("F")
        assert "call 9" in await after_search(app, pilot)
        await pilot.press("g")
        assert "call 5 of" in await after_search(app, pilot)
        await pilot.press("d")
        await pilot.pause()
        assert not isinstance(app.screen, Compare)
        assert app.cursor == 5

    play(two[0], act, size)


def test_what_is_no_recording_stays_in_the_line_with_the_reason(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await compare_with(pilot, tmp_path / "none.pertdbg")
        assert "there is no file" in shown(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "1 gradient norm" in shown(app)

    play(two[0], act, MIDDLE)


def in_order(both: Versus) -> Iterable[int]:
    """The numbers of all calls that differ."""
    first = True
    while any(both.search(forward=True, first=first)):
        first = False
        assert both.step is not None
        yield both.step.numbers[0]


def in_reverse(both: Versus) -> Iterable[int]:
    """The numbers of the calls that differ before the one where it stands."""
    while any(both.search(forward=False)):
        assert both.step is not None
        yield both.step.numbers[0]


def test_a_search_finds_every_call_that_differs_however_the_ids_lie(tmp_path: Path) -> None:
    one = [replace(healthy(k), call=k) for k in range(1, 31)]
    # The other begins at call 4, under the id 1.
    other = [
        replace(changed(r, math.nan) if r.call in (10, 20) else r, id=r.call - 3) for r in one[3:]
    ]
    a, b = record_to(tmp_path / "a", one), record_to(tmp_path / "b", other)
    with Recording.open(a) as first, Recording.open(b) as second:
        for both in (Versus(first, second, 7), Versus(second, first, 7)):
            assert list(in_order(both)) == [1, 2, 3, 10, 20]
            assert list(in_reverse(both)) == [10, 3, 2, 1]
            # Where nothing more is found, it stays.
            assert both.step is not None
            assert both.step.numbers == (1,)


def test_calls_that_only_the_other_has_are_visited(two: tuple[Path, Path]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("end")
        await compare_with(pilot, two[0])
        assert "call 11 of encoder.pert: no fact differs" in shown(app)
        await pilot.press("n")
        await pilot.pause()
        assert "call 12 of encoder.pert: not in b.pertdbg" in shown(app)
        await pilot.press("n")
        await pilot.pause()
        assert "this is the last call of both" in shown(app)
        await pilot.press("p", "p", "f")
        assert "call 12 of encoder.pert: not in b.pertdbg" in await after_search(app, pilot)
        await pilot.press("d")
        await pilot.pause()
        assert app.cursor == 11

    play(two[1], act, MIDDLE)


def test_a_damaged_call_of_either_is_something_to_see(two: tuple[Path, Path]) -> None:
    connection = sqlite3.connect(two[1])
    with connection:
        connection.execute("UPDATE call SET delta_norm = 7 WHERE id = 3")
    connection.close()
    with Recording.open(two[0]) as first, Recording.open(two[1]) as second:
        for both in (Versus(first, second, 1), Versus(second, first, 1)):
            assert list(in_order(both)) == [3, 5, 9, 12]
            assert any(both.search(forward=True, first=True))
            assert "record 3 of" in both.pair().problem
        assert "record 3 of" in Versus(second, first, 3).pair().problem


def test_a_call_damaged_in_both_is_not_said_to_be_the_same(tmp_path: Path) -> None:
    one, other = (record_to(tmp_path / name, calls(6)) for name in ("a.pertdbg", "b.pertdbg"))
    for path in (one, other):
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE call SET delta_norm = 7 WHERE id = 4")
        connection.close()

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await compare_with(pilot, other)
        await pilot.press("g")
        text = await after_search(app, pilot)
        assert "no call differs; 2 damaged records not compared" in text

    play(one, act, MIDDLE)


@pytest.mark.parametrize("width", [38, 80, 200])
def test_the_page_fits_and_hides_nothing_whatever_the_records_hold(width: int) -> None:
    some = records(3, 20)
    for one, other in pairwise(some):
        other = replace(other, layer=HOSTILE)
        pair = Pair(one, other, differences(one, other))
        check_lines(versus(pair, (HOSTILE, "b"), HOSTILE, width), width)
        assert pair.differs
