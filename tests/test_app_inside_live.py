"""Inside the calls of a real target: line by line at the head, stop when, and asking it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from _app import MIDDLE, play, shown
from _terminal import Terminal
from pertdbg.app import PertdbgApp
from pertdbg.app.inside import lettered
from pertdbg.recording.reader import Recording
from pertdbg.session import State
from test_app_find import typed
from test_app_live import live, until

LINES = 7
"""Lines of the second call that are stepped through; then some of the third."""


async def stopped(app: PertdbgApp, pilot: Pilot[int], place: tuple[int, int | None]) -> None:
    def there() -> bool:
        return app.session.state is State.STOPPED and (app.cursor, app.line) == place

    await until(pilot, there)


def inside_of(app: PertdbgApp) -> list[str]:
    """The source panel, and what the four panels say of the line."""
    parts = [app.main.panels["source"].copied()]
    for name in ("gradient", "delta", "leaf", "storage"):
        text = app.main.panels[name].copied()
        ends = (text.find(end) for end in ("the call is under way", " as it ended:"))
        cut = min(end for end in ends if end >= 0)
        parts.append(text[:cut].rpartition("\n")[0])
    return parts


def test_lines_are_run_at_the_head_and_show_live_what_a_replay_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: dict[tuple[int, int | None], list[str]] = {}

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await stopped(app, pilot, (1, None))
        await pilot.press("6")
        for line in range(LINES):
            await pilot.press("s")
            await stopped(app, pilot, (2, line))
            assert app.store.head == 1
            assert "under way" in shown(app).splitlines()[0]
            seen[2, line] = inside_of(app)
        await pilot.press("P", "P")
        assert (app.cursor, app.line) == (2, LINES - 3)
        assert inside_of(app) == seen[2, LINES - 3]
        assert app.session.state is State.STOPPED, "going back runs nothing"
        await pilot.press("s", "s")
        assert app.line == LINES - 1
        await pilot.press("n")
        await stopped(app, pilot, (2, None))
        assert app.store.head == 2
        await pilot.press("s")
        await stopped(app, pilot, (3, 0))
        await pilot.press("c")
        await until(pilot, lambda: app.session.state is State.ENDED)
        await pilot.press("r", "ctrl+u", *"kept", "enter")
        await pilot.pause()

    live(tmp_path, act, "sift", 4)

    async def again(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("6")
        for line in range(LINES):
            await pilot.press("s")
            assert (app.cursor, app.line) == (2, line)
            assert inside_of(app) == seen[2, line]

    play(tmp_path / "kept.pertdbg", again, MIDDLE)


def test_a_condition_stops_the_target_and_the_bar_says_which(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await stopped(app, pilot, (1, None))
        await pilot.press("b", "ctrl+u", *typed("call == 3"), "enter")
        await pilot.pause()
        assert "stops when call == 3; c continues" in shown(app).splitlines()[0]
        await pilot.press("c")
        await stopped(app, pilot, (3, None))
        assert "STOPPED because call == 3" in shown(app).splitlines()[0]
        await pilot.press("n")
        await stopped(app, pilot, (4, None))
        assert "because" not in shown(app).splitlines()[0]
        # The condition is kept for the next start of this scenario.
        (file,) = (tmp_path / "config" / "pertdbg" / "watches").glob("*.toml")
        assert '"call == 3",' in file.read_text()

    live(tmp_path, act, "sift", 6)


def test_the_target_runs_on_to_its_next_training_step(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await stopped(app, pilot, (1, None))
        await pilot.press("u")
        await until(
            pilot, lambda: app.session.state in (State.STOPPED, State.ENDED) and app.cursor > 1
        )
        record = app.view.record
        assert record is not None
        if app.session.state is State.STOPPED:
            assert (record.batch, record.step) == (2, 0)
            assert app.session.conditions == ()

    live(tmp_path, act, "sift-learner", None)


def test_a_stopped_target_is_asked_and_what_may_change_it_is_confirmed(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await stopped(app, pilot, (1, None))
        await pilot.press("colon")
        await pilot.pause()
        assert "ask the target, stopped at call #1" in shown(app)

        async def answer(text: str) -> str:
            await pilot.press(*typed(text), "enter")
            await until(pilot, lambda: not str(app.screen.query_one("#said", Static).render()))
            await pilot.pause()
            return shown(app)

        assert "6" in await answer("2 * 3")
        text = await answer("delta.shape")
        assert "8" in text
        assert "NameError" in await answer("nothing_of_that_name")
        await pilot.press("up", "up")
        await pilot.pause()
        assert "delta.shape" in shown(app).splitlines()[-4] or "delta.shape" in shown(app)
        await pilot.press("ctrl+u", *typed("delta.zero_()"), "enter")
        await until(pilot, lambda: "It may change the target" in shown(app))
        assert "\\n" not in shown(app)
        await pilot.press("d")
        await pilot.pause()
        assert "not run" in shown(app)

    live(tmp_path, act, "sift", 3)


def test_behind_the_head_the_record_is_asked_in_the_language_of_conditions(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await stopped(app, pilot, (1, None))
        await pilot.press("n")
        await stopped(app, pilot, (2, None))
        await pilot.press("p", "colon")
        await pilot.pause()
        assert "the record of call #1, in its fields' names" in shown(app)
        await pilot.press(*typed("update.created"), "enter")
        await until(pilot, lambda: "True" in shown(app))
        await pilot.press(*typed("delta.abs()"), "enter")
        await until(pilot, lambda: "end goes to where the target can be asked" in shown(app))

    live(tmp_path, act, "sift", 3)


def test_lines_of_a_recorded_run_are_stepped_without_a_target(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = tmp_path / "lines.pertdbg"
    command = [sys.executable, "-m", "pertdbg", "record", "sift", "--steps", "3", "--lines"]
    subprocess.run([*command, "-o", str(path)], check=True, capture_output=True)
    with Recording.open(path) as recording:
        says = [event.says for event in lettered(recording.events(2))[0]]

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for line, words in enumerate(says):
            await pilot.press("s")
            assert (app.cursor, app.line) == (2, line)
            text = " ".join(app.main.panels["source"].copied().split())
            assert " ".join(words.split()) in text
        assert len(says) > 10

    play(path, act, MIDDLE)
    with Terminal(str(path), size=MIDDLE, env={"XDG_CONFIG_HOME": str(tmp_path)}) as real:
        real.wait_for("REPLAY")
        for key, words in (("s", "line 74"), ("s", "line 76"), ("P", "line 74"), ("]", "call 2 ")):
            real.press(key)
            real.wait_for(words)
        real.press("/")
        real.wait_for("Find in source")
        real.press("detach")
        real.wait_for("source.detach()")
        real.press("escape")
        real.wait_for(lambda text: "Find in source" not in text)
        real.press("A")
        real.wait_for("a backward fills delta")
        real.press("escape")
        real.wait_for(lambda text: "a backward fills delta" not in text)
        real.press("q")
        assert real.end() == 0
