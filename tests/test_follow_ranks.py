"""The recordings of many ranks as one session, finished or still being written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from textual.pilot import Pilot

from _app import MIDDLE, SMALL, shown
from _records import healthy
from _wait import soon
from pertdbg.app import PertdbgApp
from pertdbg.errors import PertdbgError
from pertdbg.ranks import RankSession, follow, open_ranks
from pertdbg.recording.writer import Recorder
from pertdbg.session import State


def write_rank(folder: Path, rank: int, calls: int, size: int = 3, **meta: str | int) -> Recorder:
    """Record a rank whose first call is its call 1 + rank, so that ids and calls differ."""
    path = folder / f"run-{rank}.pertdbg"
    recorder = Recorder(path, {"uuid": "one run", "rank": rank, "world_size": size, **meta})
    for ident in range(1, calls + 1):
        recorder.write(replace(healthy(ident), call=ident + rank, rank=rank))
    return recorder


def play(session: RankSession, act: object, size: tuple[int, int], home: Path) -> None:
    async def run() -> None:
        app = PertdbgApp(session)
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            await act(app, pilot)  # type: ignore[operator]

    own = {"XDG_CONFIG_HOME": str(home / "config"), "TEXTUAL_ANIMATIONS": "none"}
    with mock.patch.dict(os.environ, own):
        asyncio.run(run())


def test_a_key_shows_the_same_call_of_the_next_rank(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank, 20).close()
    session = open_ranks([tmp_path])
    assert isinstance(session, RankSession)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "rank 0 of 3" in shown(app).splitlines()[0]
        await pilot.press("g", "9", "enter")
        for rank, id_ in ((1, 8), (2, 7), (0, 9)):
            await pilot.press("R")
            await pilot.pause()
            assert f"call 9  batch 1 step {healthy(id_).step}" in shown(app).splitlines()[0]
            assert f"rank {rank} of 3" in shown(app).splitlines()[0]
            assert app.cursor == id_

    play(session, act, MIDDLE, tmp_path)


def test_a_missing_and_a_damaged_rank_are_named_and_the_rest_opens(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        write_rank(tmp_path, rank, 2, size=4).close()
    (tmp_path / "run-1.pertdbg").write_bytes(b"SQLite format 3\0" + bytes(50))
    session = open_ranks([tmp_path])
    assert isinstance(session, RankSession)
    assert [member.target_name for member in session.members] == ["run-0.pertdbg", "run-3.pertdbg"]
    assert len(session.problems) == 2
    assert "run-1.pertdbg" in session.problems[0]
    assert "no sound recording of rank 1, 2" in session.problems[1]

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "ing of rank 1, 2" in shown(app)
        assert "rank 0 of 4" in shown(app).splitlines()[0]

    play(session, act, SMALL, tmp_path)


def test_files_are_opened_as_they_are_given_and_of_a_folder_the_newest_run(tmp_path: Path) -> None:
    write_rank(tmp_path, 0, 1, size=1, uuid="old", created_ns=1).close()
    write_rank(tmp_path, 1, 2, size=1, uuid="new").close()
    both = open_ranks(sorted(tmp_path.glob("*.pertdbg")))
    newest = open_ranks([tmp_path])
    assert isinstance(both, RankSession)
    assert isinstance(newest, RankSession)
    assert (len(both.members), len(newest.members)) == (2, 1)
    assert newest.target_name == "run-1.pertdbg"
    assert newest.problems[0] == "of other runs, so left out: run-0.pertdbg"
    assert "are of 2 different runs" in both.problems[0]
    asyncio.run(both.close())
    asyncio.run(newest.close())
    (tmp_path / "none").mkdir()
    with pytest.raises(PertdbgError, match="no recording in"):
        open_ranks([tmp_path / "none"])


def test_ranks_that_come_one_by_one_are_followed_together(tmp_path: Path) -> None:
    session = follow(tmp_path)
    assert isinstance(session, RankSession)
    assert session.state is State.LOADING

    async def until(holds: Callable[[], object]) -> None:
        await soon(holds, lambda: session.loading)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "WAITING" in shown(app).splitlines()[0]
        first = write_rank(tmp_path, 1, 3, size=2)
        await until(lambda: app.cursor == 3)
        second = write_rank(tmp_path, 0, 5, size=2)
        await until(lambda: len(session.members) == 2)
        assert "rank 1 of 2" in shown(app).splitlines()[0]
        assert session.problems == []
        first.write(replace(healthy(4), call=5, rank=1))
        await until(lambda: app.cursor == 4)
        await pilot.press("R")
        await until(lambda: app.cursor == 5 and "rank 0 of 2" in shown(app).splitlines()[0])
        second.close()
        await until(lambda: session.state is State.ENDED)
        await pilot.press("R")
        await until(lambda: session.state is State.RUNNING)
        first.close()

    play(session, act, MIDDLE, tmp_path)
