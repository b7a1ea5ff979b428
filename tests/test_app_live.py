"""The app on a real target: it steps, runs, ends, is interrupted, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from textual.pilot import Pilot

from _app import MIDDLE, Act, shown
from _wait import seen
from pertdbg.app import PertdbgApp
from pertdbg.launch import live_session
from pertdbg.recording.reader import Recording
from pertdbg.scenario.library import find
from pertdbg.session import LiveSession, State


def live(folder: Path, act: Act, name: str = "sift", steps: int | None = 6) -> PertdbgApp:
    """Run a shipped scenario in the app, act on it, and quit."""
    home = {"XDG_CONFIG_HOME": str(folder / "config"), "TEXTUAL_ANIMATIONS": "none"}

    async def run() -> PertdbgApp:
        session = live_session(find(name), steps=steps, facts="all", command="pertdbg")
        app = PertdbgApp(session)
        async with app.run_test(size=MIDDLE, notifications=True) as pilot:
            await pilot.pause()
            await act(app, pilot)
        return app

    with mock.patch.dict(os.environ, {"OMP_NUM_THREADS": "1", **home}):
        return asyncio.run(run())


async def until(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    await seen(pilot, holds, lambda: shown(pilot.app))  # type: ignore[arg-type]


def status(app: PertdbgApp) -> str:
    return shown(app).splitlines()[0]


def process_of(app: PertdbgApp) -> int:
    assert isinstance(app.session, LiveSession)
    assert app.session._process is not None
    return app.session._process.pid


def test_a_target_is_stepped_run_to_its_end_and_its_recording_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "LOADING" in status(app)
        assert app.session.title in shown(app)
        await until(pilot, lambda: app.session.state is State.STOPPED and app.cursor == 1)
        assert "delta created" in shown(app)
        await pilot.press("n", "n", "n")
        await until(pilot, lambda: app.cursor == 4 and app.session.state is State.STOPPED)
        await pilot.press("p", "p", "n")
        assert (app.cursor, app.store.head) == (3, 4)
        await pilot.press("g", "5", "enter")
        await until(pilot, lambda: app.cursor == 5)
        await pilot.press("c")
        await until(pilot, lambda: app.session.state is State.ENDED and app.cursor == 6)
        assert "ENDED exit status 0" in status(app)
        await pilot.press("n")
        assert "exit status 0" in status(app)
        await pilot.press("p")
        assert app.cursor == 5
        await pilot.press("q")
        await pilot.pause()
        assert "keep it?" in shown(app)
        await pilot.press("k", *"x", "enter")
        await until(pilot, lambda: not app.is_running)

    app = live(tmp_path, act)
    assert app.return_code == 0
    with Recording.open(tmp_path / "x.pertdbg") as recording:
        assert len(recording) == 6


def test_keys_that_come_before_the_target_has_stopped_are_not_lost(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.session.state is State.STOPPED)
        app.action_next()  # nothing is heard of the target between these
        app.action_line(True)
        app.action_line(True)
        await until(
            pilot,
            lambda: (app.cursor, app.line) == (3, 1) and app.session.state is State.STOPPED,
        )
        app.action_line(True)
        app.action_next()
        await until(
            pilot,
            lambda: (app.cursor, app.line) == (3, None) and app.session.state is State.STOPPED,
        )
        app.action_next()
        app.session.state = State.RUNNING  # as it is once the target has said that it goes on
        app.action_go()
        await until(pilot, lambda: app.session.state is State.ENDED)
        assert app.store.head == 6

    live(tmp_path, act)


def test_quitting_while_the_target_waits_asks_and_leaves_no_process(tmp_path: Path) -> None:
    pids: list[int] = []

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.session.state is State.STOPPED)
        pids.append(process_of(app))
        await pilot.press("q")
        await pilot.pause()
        assert "ends the target" in shown(app)
        await pilot.press("c")
        await pilot.pause()
        assert app.session.state is State.STOPPED
        await pilot.press("q", "d")
        await until(pilot, lambda: not app.is_running)

    live(tmp_path, act)
    with pytest.raises(ProcessLookupError):
        os.killpg(pids[0], 0)


def test_ctrl_c_interrupts_the_target_first_and_then_asks_to_quit(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.session.state is State.STOPPED)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.session.state is State.ENDED)
        await pilot.pause(0.1)
        assert app.cursor == 1
        ended = app.session.ended
        assert ended is not None
        assert "KeyboardInterrupt" in ended.text or ended.signal == "SIGINT"
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert "keep it?" in shown(app)

    live(tmp_path, act)


def test_a_target_that_fails_at_once_says_how_and_shows_what_it_printed(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.session.state is State.STOPPED)
        await pilot.press("c")
        await until(pilot, lambda: app.session.state is State.ENDED)
        await pilot.pause(0.1)
        assert "AttributeError" in status(app)
        assert "raised AttributeError" in shown(app)
        await pilot.press("7", "z")
        await pilot.pause()
        assert "AttributeError" in shown(app)

    live(tmp_path, act, "no-backward", None)


def test_a_target_that_runs_free_is_followed_and_can_be_stopped(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await until(pilot, lambda: app.session.state is State.STOPPED)
        await pilot.press("c")
        await until(pilot, lambda: app.cursor > 20)
        assert "RUNNING" in status(app)
        assert "calls" in status(app)
        await pilot.press("p")
        assert app.cursor < app.store.head
        here = app.cursor
        await pilot.pause(0.3)
        assert app.cursor == here
        await pilot.press("end", "space")
        await until(pilot, lambda: app.session.state is State.STOPPED)
        head = app.store.head
        assert app.cursor == head
        await pilot.pause(0.3)
        assert app.store.head == head

    live(tmp_path, act, "sift", 100_000)
