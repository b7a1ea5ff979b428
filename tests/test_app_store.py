"""The values of what a live target has where it is stopped: as a table and as a map."""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Static

from _app import shown
from pertdbg.app import PertdbgApp
from pertdbg.app.screens.ask import AskTarget
from pertdbg.app.screens.values import Values
from pertdbg.session import State
from test_app_find import typed
from test_app_inside_live import stopped
from test_app_live import live, until


async def table(app: PertdbgApp, pilot: Pilot[int]) -> tuple[str, float]:
    """Wait for a table of values; give what it is of, and its first value."""
    await until(pilot, lambda: isinstance(app.screen, Values))
    await pilot.pause()
    lines = [line.strip("│┃ ") for line in shown(app).splitlines()]
    return lines[0].strip("╭┏─━ "), float(lines[2].split()[1])


async def asked(app: PertdbgApp, pilot: Pilot[int], text: str) -> float:
    assert app.session.state is State.STOPPED
    return float((await app.session.ask(text)).line)


def test_at_a_stop_values_and_map_are_opened_and_stay_in_the_recording(tmp_path: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await stopped(app, pilot, (1, None))
        await pilot.press("n")
        await stopped(app, pilot, (2, None))
        await pilot.press("v")
        title, first = await table(app, pilot)
        assert "float32" in title
        role = next(role for role in ("input", "perturbed input", "delta") if role in title)
        name = {"perturbed input": "self.perturbated_input"}.get(role, f"self.{role}")
        assert f"{first:.4g}" == f"{await asked(app, pilot, f'{name}.flatten()[0].item()'):.4g}"
        await pilot.press("m")
        await until(pilot, lambda: "sizes" in shown(app))
        await pilot.press("escape", "t")
        await until(pilot, lambda: "sizes" in app.main.panels["map"].copied())
        # A question's answer, whatever it is.
        await pilot.press("colon", *typed("delta[1:] * 2"), "enter")
        await until(pilot, lambda: "tensor" in shown(app))
        await pilot.press("ctrl+o")
        title, first = await table(app, pilot)
        assert "= delta[1:] * 2" in title
        expected = await asked(app, pilot, "(delta[1:] * 2).flatten()[0].item()")
        assert f"{first:.4g}" == f"{expected:.4g}"
        await pilot.press("escape", *"3", "enter")
        await until(pilot, lambda: "int" in shown(app) or "> 3" in shown(app))
        await pilot.press("ctrl+o")
        said = app.screen.query_one("#said", Static)
        assert isinstance(app.screen, AskTarget)
        await until(pilot, lambda: "the last answer is no tensor" in str(said.render()))
        await pilot.press("escape")
        # Inside a call: what the names stand for after the line.
        await pilot.press("s")
        await stopped(app, pilot, (3, 0))
        line = app.store.events(3)[0].line
        await pilot.press("v")
        title, _ = await table(app, pilot)
        assert f"after line {line}" in title
        await pilot.press("escape")
        # Where the target is no more, what it stored still is.
        await pilot.press("n", "p")
        await pilot.pause()
        assert (app.cursor, app.line) == (2, None)
        await pilot.press("v")
        await table(app, pilot)

    live(tmp_path, act, "sift", 6)
