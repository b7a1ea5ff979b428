"""`W`: a change of the target is run and stands beside the run as it is; `O`: other scenarios."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest import mock

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from _app import LARGE, MIDDLE, SIZES, SMALL, calls, check_lines, play, record_to, shown
from _ownlayer import CLAMP, CLAMPED
from _ownlayer import scenario as own_scenario
from _wait import seen
from pertdbg.app import PertdbgApp
from pertdbg.app.screens.browser import Browser
from pertdbg.app.screens.sides import Sides
from pertdbg.app.screens.whatif import WhatIfScreen
from pertdbg.launch import live_session
from pertdbg.scenario import library
from pertdbg.scenario.load import load

Until = Callable[[Callable[[], bool]], Awaitable[None]]
Act = Callable[[PertdbgApp, Pilot[int], Until], Awaitable[None]]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    (tmp_path / "layer.py").write_text(CLAMPED)
    (tmp_path / "own.toml").write_text(own_scenario(calls=6))
    return tmp_path / "own.toml"


def live(path: Path, act: Act, size: tuple[int, int] = MIDDLE) -> PertdbgApp:
    """Run the scenario in the app up to its third call, and act."""
    home = {"XDG_CONFIG_HOME": str(path.parent / "config"), "XDG_DATA_HOME": str(path.parent)}

    async def run() -> PertdbgApp:
        session = live_session(path, steps=None, facts="all", command="pertdbg")
        app = PertdbgApp(session)
        async with app.run_test(size=size, notifications=True) as pilot:

            async def until(holds: Callable[[], bool]) -> None:
                await pilot.pause()
                await seen(pilot, holds, lambda: shown(app))

            for head in (1, 2, 3):
                await until(lambda head=head: app.cursor == head)  # type: ignore[misc]
                if head < 3:
                    await pilot.press("n")
            await act(app, pilot, until)
        return app

    with mock.patch.dict(os.environ, {**home, "OMP_NUM_THREADS": "1"}):
        return asyncio.run(run())


async def choose(app: PertdbgApp, pilot: Pilot[int], until: Until, text: str) -> None:
    """Open the list of changes and choose the first that has a text."""
    if not isinstance(app.screen, WhatIfScreen):
        await pilot.press("W")
    await until(lambda: isinstance(app.screen, WhatIfScreen) and "take out" in shown(app))
    choices = app.screen.query_one(OptionList)
    options = [str(choices.get_option_at_index(k).prompt) for k in range(choices.option_count)]
    choices.highlighted = next(k for k, option in enumerate(options) if text in option)
    await pilot.press("enter")


def flat(app: PertdbgApp) -> str:
    return " ".join(shown(app).split())


def test_without_a_guard_both_runs_go_in_step_and_the_first_difference_is_found(
    scenario: Path,
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int], until: Until) -> None:
        await choose(app, pilot, until, "delta.clamp(-0.02, 0.02)")
        await until(lambda: isinstance(app.screen, Sides) and "differ" in shown(app))
        # From 0.01 the first step of 0.5 leads to 0.51, where the clamp held 0.02.
        assert "call 2 of" in shown(app)
        assert f"{CLAMP} delta = delta.clamp(-0.02, 0.02)" in flat(app)
        assert "0.51" in shown(app)
        assert "≠" in shown(app)
        await pilot.press("p")
        await until(lambda: "call 1 of" in shown(app))
        assert "nothing differs" in shown(app)
        assert "≠" not in shown(app)
        await pilot.press("n", "n")
        await until(lambda: "call 3 of" in shown(app))
        await pilot.press("n")
        await pilot.pause()
        assert "call 3 of" in shown(app)  # the runs are made up to the call that was looked at
        await pilot.press("d")
        await until(lambda: "delta.max_abs" in shown(app))
        await pilot.press("escape", "escape")
        await until(lambda: isinstance(app.screen, WhatIfScreen))
        assert app.cursor == 3

    live(scenario, act)


def test_a_value_and_a_line_are_changed_and_a_change_is_kept_as_a_scenario(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(scenario.parent)

    async def act(app: PertdbgApp, pilot: Pilot[int], until: Until) -> None:
        await choose(app, pilot, until, "layer.arguments.size = 0.5")
        await until(lambda: app.screen.query("Input").first().display)
        line = app.screen.query_one("Input")
        line.value = "much"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(lambda: "layer.arguments.size takes a number" in shown(app))
        line.value = "0.005"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Sides) and "differ" in shown(app))
        await pilot.press("escape")
        await choose(app, pilot, until, "a line of the update")
        await until(lambda: "Which line of layer.py?" in shown(app))
        app.screen.query_one("Input").value = str(CLAMP)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(lambda: f"Line {CLAMP}" in shown(app))
        text = "delta = delta.clamp(-0.3, 0.3)"
        app.screen.query_one("Input").value = text  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Sides) and "differ" in shown(app))
        assert "0.3" in shown(app)
        await pilot.press("escape")
        await until(lambda: isinstance(app.screen, WhatIfScreen))
        app.screen.query_one(OptionList).highlighted = 1  # the line; the value was run before
        await pilot.press("k")
        await until(lambda: "Keep the change as the scenario" in shown(app))
        app.screen.query_one("Input").value = "wider"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(lambda: "kept as wider.toml" in shown(app))

    live(scenario, act)
    kept = load(scenario.parent / "wider.toml")
    assert kept.layer.class_ == "layer.py:Layer"
    assert [(line.line, line.now.strip()) for line in kept.lines] == [
        (CLAMP, "delta = delta.clamp(-0.3, 0.3)")
    ]
    assert kept.loop.calls == 3


def test_a_change_that_ends_the_run_says_so(scenario: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int], until: Until) -> None:
        await choose(app, pilot, until, "requires_grad_")
        await until(lambda: isinstance(app.screen, Sides) and "the run ends" in shown(app))
        assert "RuntimeError" in shown(app)

    live(scenario, act, SMALL)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_both_runs_fit_every_size(scenario: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int], until: Until) -> None:
        await choose(app, pilot, until, "delta.clamp(-0.02, 0.02)")
        await until(lambda: isinstance(app.screen, Sides) and "differ" in shown(app))
        assert isinstance(app.screen, Sides)
        seen = [panel.shows for panel in app.screen.panels if panel.display]
        # Where there is room for one panel of each run, it is the one that differs first.
        assert len(set(seen)) == (4 if size == LARGE else 1)
        assert "delta" in seen
        await pilot.press("3")
        await pilot.pause()
        assert "3 leaf" in shown(app)
        for panel in app.screen.panels:
            check_lines(panel.write(40, 10), 40)

    live(scenario, act, size)


def test_a_recording_has_nothing_to_run(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("W")
        await pilot.pause()
        assert not isinstance(app.screen, WhatIfScreen)
        assert "a change needs the target itself" in shown(app)

    play(record_to(tmp_path / "a.pertdbg", calls(2)), act, MIDDLE)


@pytest.mark.parametrize("size", SIZES)
def test_scenarios_are_searched_read_and_opened(tmp_path: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("O")
        await pilot.pause()
        assert isinstance(app.screen, Browser)
        await pilot.press(*"nan-gradient")
        await pilot.pause()
        title = library.introduction(library.find("nan-gradient"))[0]
        assert title.split()[0] in shown(app)
        await pilot.press(*" nosuchword")
        await pilot.pause()
        assert "no scenario has these words" in shown(app)
        await pilot.press("enter")  # nothing to open
        assert isinstance(app.screen, Browser)
        await pilot.press(*["backspace"] * 11, "enter")
        await pilot.pause()

    app = play(record_to(tmp_path / "a.pertdbg", calls(2)), act, size)
    assert app.wanted == "nan-gradient"
