"""`B`: all ranks side by side, step by step."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from textual.pilot import Pilot

from _app import HOSTILE, LARGE, MIDDLE, SIZES, SMALL, check_lines, shown
from _ranks import PER_BATCH, calls_of, write, write_rank
from _records import healthy
from _wait import soon
from pertdbg.app import PertdbgApp
from pertdbg.app.abreast import Abreast, RankRow
from pertdbg.app.panels.abreast import facts, sentences, timelines
from pertdbg.app.screens.abreast import RanksAbreast
from pertdbg.compare import Step
from pertdbg.ranks import RankSession, follow, open_ranks
from pertdbg.record import CallRecord
from pertdbg.recording.writer import Recorder

Act = Callable[[PertdbgApp, Pilot[int]], Awaitable[None]]


def play(session: RankSession, act: Act, size: tuple[int, int], home: Path) -> None:
    async def run() -> None:
        app = PertdbgApp(session)
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            await act(app, pilot)

    own = {"XDG_CONFIG_HOME": str(home / "config"), "TEXTUAL_ANIMATIONS": "none"}
    with mock.patch.dict(os.environ, own):
        asyncio.run(run())


def ranks_in(folder: Path) -> RankSession:
    session = open_ranks([folder])
    assert isinstance(session, RankSession)
    return session


def one_goes_wrong(rank: int, record: CallRecord) -> CallRecord | None:
    """Rank 2 meets NaN in the calls 6 and 7, rank 1 makes no call 10."""
    if rank == 2 and record.call in (6, 7):
        return replace(record, gradient=replace(record.gradient, nan=3, norm=float("nan")))
    return None if rank == 1 and record.call == 10 else record


async def beside(pilot: Pilot[int]) -> str:
    await pilot.press("B")
    await pilot.pause()
    assert isinstance(pilot.app.screen, RanksAbreast)
    return words(pilot)


def words(pilot: Pilot[int]) -> str:
    """What is on the screen, on one line, without the border."""
    return " ".join(shown(pilot.app).replace("│", " ").split())  # type: ignore[arg-type]


async def pressed(pilot: Pilot[int], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.app.workers.wait_for_complete(
        [worker for worker in pilot.app.workers if worker.group == "search"]
    )
    await pilot.pause()
    return words(pilot)


@pytest.mark.parametrize("size", SIZES)
def test_keys_lead_from_step_to_step_and_to_where_ranks_part(
    size: tuple[int, int], tmp_path: Path
) -> None:
    for rank in range(4):
        write_rank(tmp_path, rank, 16, 4, one_goes_wrong)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        text = await beside(pilot)
        assert "batch 1 step 0 of encoder.pert: all 4 ranks have it" in text
        assert "their calls are alike in kind" in text
        text = await pressed(pilot, "n")
        assert "batch 1 step 1 of encoder.pert: all 4 ranks have it" in text
        norms = [calls_of(rank, 2)[1].gradient.norm for rank in range(4)]
        assert all(f"{norm:.3g}" in text for norm in norms)
        text = await pressed(pilot, "f")
        assert "batch 2 step 1" in text
        assert "rank 2 parts from most, gradient.n" in text
        assert "3 NaN" in text
        text = await pressed(pilot, "f")
        assert "batch 3 step 1 of encoder.pert: 3 of 4 ranks have it, not rank 1" in text
        assert "no such call" in text
        assert "do not part after this step" in await pressed(pilot, "f")
        assert "batch 2 step 2" in await pressed(pilot, "F")
        assert "batch 4 step 3" in await pressed(pilot, "end")
        assert "this is the last step" in await pressed(pilot, "n")
        text = await pressed(pilot, "home", "p")
        assert "batch 1 step 0" in text
        assert "this is the first step" in text
        await pressed(pilot, "end", "down", "enter")
        assert isinstance(app.session, RankSession)
        assert app.session.label == "rank 1 of 4"
        assert app.cursor == 15  # one less than the others made

    play(ranks_in(tmp_path), act, size, tmp_path)


def test_a_rank_opens_at_its_own_call_of_the_step(tmp_path: Path) -> None:
    for rank in range(4):
        write_rank(tmp_path, rank, 16, 4, one_goes_wrong)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("g", "1", "2", "enter", "B")
        await pilot.pause()
        assert "batch 3 step 3" in words(pilot)
        await pilot.press("down", "enter")
        await pilot.pause()
        # Rank 1 made no call 10, so that its call 12 has the id 11.
        assert app.cursor == 11
        assert "call 12 batch 3 step 3" in " ".join(shown(app).split())
        await pilot.press("B")
        await pilot.pause()
        assert "batch 3 step 3" in words(pilot)
        assert re.search(r"> +1 +12 ", shown(app))
        await pilot.press("escape")
        await pilot.pause()
        assert app.cursor == 11

    play(ranks_in(tmp_path), act, MIDDLE, tmp_path)


def test_sixty_four_ranks_scroll_and_missing_ones_have_a_row(tmp_path: Path) -> None:
    for rank in range(64):
        if rank != 40:
            write_rank(tmp_path, rank, 5 + rank % 3, 64)
    (tmp_path / "run.r0040.pertdbg").write_bytes(b"SQLite format 3\0" + bytes(90))

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        app.clear_notifications()
        text = await beside(pilot)
        assert "63 of 64 ranks have it, not rank 40" in text
        assert "is not a pertdbg recording" in text
        assert "no sound recording of rank 40" in text
        await pilot.press("k", *["pagedown"] * 8)
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, RanksAbreast)
        assert screen.lanes.rows[screen.lanes.chosen].rank == 63
        assert re.search(r"> +63 ", shown(app))
        await pilot.press(*["k"] * 23)
        await pilot.pause()
        assert re.search(r"> +40 +no sound recording", shown(app))
        await pilot.press("enter")
        await pilot.pause()
        assert "there is no call of this rank to open" in words(pilot)
        await pilot.press("end")
        await pilot.pause()
        assert "batch 2 step 2" in words(pilot)
        assert "21 of 64 ranks have it, not ranks 0, 1, 3, 4, 6, 7 and 37 more" in words(pilot)

    play(ranks_in(tmp_path), act, SMALL, tmp_path)


def test_timelines_show_the_marks_of_each_rank_as_long_as_it_went(tmp_path: Path) -> None:
    for rank, calls in enumerate((16, 8, 16)):
        write_rank(tmp_path, rank, calls, 3, one_goes_wrong)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await beside(pilot)
        await pilot.press("t")
        await pilot.pause()
        strips = [re.search(rf" {rank} +([─┃+^N]+) ", shown(app)) for rank in range(3)]
        texts = [found[1] for found in strips if found is not None]
        assert len(texts) == 3
        assert len(texts[0]) == len(texts[2])
        assert abs(len(texts[0]) - 2 * len(texts[1])) <= 1
        assert "N" in texts[2]
        assert "N" not in texts[0] + texts[1]
        # Delta is created four times in 16 calls, of which the cursor stands on the first.
        assert texts[0].count("+") == 16 // PER_BATCH

    play(ranks_in(tmp_path), act, LARGE, tmp_path)


def test_ranks_that_are_still_recorded_are_kept_up_with(tmp_path: Path) -> None:
    size: dict[str, str | int | float | None] = {"uuid": "u", "world_size": 2}
    first = Recorder(tmp_path / "run.r0.pertdbg", {"rank": 0, **size})
    second = Recorder(tmp_path / "run.r1.pertdbg", {"rank": 1, **size})
    calls = [calls_of(rank, 6) for rank in (0, 1)]
    session = follow(tmp_path)
    assert isinstance(session, RankSession)

    async def until(pilot: Pilot[int], text: str) -> None:
        await soon(lambda: text in words(pilot), lambda: words(pilot))

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "there is no call yet" in await beside(pilot)
        await pilot.press("t")
        write(first, calls[0][:5])
        write(second, calls[1][:4])
        await until(pilot, "batch 1 step 0 of encoder.pert: all 2 ranks have it")
        await until(pilot, "1/4")
        await pilot.press("end")
        await until(pilot, "batch 2 step 0 of encoder.pert: 1 of 2 ranks have it, not rank 1")
        second.write(replace(calls[1][4], id=5))
        await until(pilot, "batch 2 step 0 of encoder.pert: all 2 ranks have it")
        first.write(replace(calls[0][5], id=6))
        await until(pilot, "/6")
        await pilot.press("n")
        await until(pilot, "batch 2 step 1 of encoder.pert: 1 of 2 ranks have it")

    play(session, act, MIDDLE, tmp_path)
    first.close()
    second.close()


def test_where_there_are_no_ranks_the_key_says_so(tmp_path: Path) -> None:
    from _app import after

    path = write_rank(tmp_path, 0, 3, 1)
    assert "there are no ranks" in after(path, "B")


def test_what_most_ranks_have_is_the_measure(tmp_path: Path) -> None:
    def changed(rank: int, record: CallRecord) -> CallRecord | None:
        if rank != 0 or record.call != 3:
            return record
        return replace(record, update=replace(record.update, returned=False))

    for rank in range(3):
        write_rank(tmp_path, rank, 4, 3, changed)
    session = ranks_in(tmp_path)
    parts = [[part.fact for part in row.parts] for row in Abreast(session, 3).rows()]
    assert parts == [["update.returned"], [], []]
    asyncio.run(session.close())


@pytest.mark.parametrize("width", [24, 38, 78, 200])
def test_the_rows_fit_and_hide_nothing_whatever_the_records_hold(width: int) -> None:
    record = replace(
        healthy(3),
        layer=HOSTILE,
        update=replace(healthy(3).update, returned=HOSTILE),
        gradient=replace(healthy(3).gradient, nan=2**63 - 1),
    )
    rows = [
        RankRow(2**31 - 1, 0, record, ident=3, head=5),
        RankRow(7, None, problem="no sound recording"),
        RankRow(8, 1, None, f"record 3 of {HOSTILE} is damaged", head=2),
    ]
    said = sentences(rows, Step((1, 2), HOSTILE), [HOSTILE], HOSTILE, width)
    check_lines(said, width)
    check_lines(facts(rows, 1, slice(0, 3), width), width)
    check_lines(timelines(rows, 0, slice(0, 3), width), width)
