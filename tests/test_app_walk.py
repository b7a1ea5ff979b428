"""A random walk, forward and backward: what is shown depends on the place alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from textual.pilot import Pilot

from _app import LARGE, MIDDLE, play, shown
from _inside import record_inside, several
from pertdbg.app import PertdbgApp
from pertdbg.conditions import Condition
from pertdbg.recording.reader import Recording

MOVES = {
    "line(True)": 6,
    "line(False)": 6,
    "line(True, True)": 4,
    "line(False, True)": 4,
    "line_edge(False)": 1,
    "line_edge(True)": 1,
    "next": 3,
    "previous": 3,
    "forward": 1,
    "step(True)": 1,
    "step(False)": 1,
    "mark(True)": 1,
    "mark(False)": 1,
    "holds(True)": 1,
    "holds(False)": 1,
    "layer": 1,
    "first": 0.1,
    "last": 0.1,
}
"""Actions, and how often they are taken."""

KEYS = ["s", "P", "S", "I", "n", "p", "u", "U", "m", "M", "L", "full_stop", "comma"]


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forty") / "run.pertdbg"
    return record_inside(path, several(40), without=[7, 8, 21], under_way=3)


def state(app: PertdbgApp) -> str:
    """Every panel as text, with the bar's call and line, and the timeline."""
    app.main.timeline.renew()
    bar = "".join(text for line in app.main.status.write(150, 1) for text, _ in line)
    track = "".join(text for line in app.main.timeline.write(118, 2) for text, _ in line)
    return "\n".join([bar, track, *(panel.copied() for panel in app.main.panels.values())])


def test_what_is_shown_depends_on_the_place_alone(forty: Path, whole: bool) -> None:
    moves = 10_000 if whole else 250
    random = Random(11)
    seen: dict[tuple[int, int | None], str] = {}
    visits: Counter[tuple[int, int | None]] = Counter()

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        app.stops.set(Condition("gradient.norm > 0.005"))
        app.store.watches.add("gradient.norm / delta.norm")
        for _ in range(moves):
            (move,) = random.choices(list(MOVES), list(MOVES.values()))
            await app.run_action(move)
            await app.workers.wait_for_complete(
                [worker for worker in app.workers if worker.group == "seek"]
            )
            app.unsay()
            place = (app.cursor, app.line)
            visits[place] += 1
            now = state(app)
            assert seen.setdefault(place, now) == now, (place, move)

    play(forty, act, MIDDLE)
    assert len(seen) > 40
    assert sum(1 for count in visits.values() if count > 1) > 30
    assert len(set(seen.values())) == len(seen), "two places look the same"


def test_through_the_keys_the_screen_depends_on_the_place_alone(forty: Path) -> None:
    random = Random(5)
    seen: dict[tuple[int, int | None], str] = {}

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        app.stops.set(Condition("gradient.nan > 0"))
        await pilot.press("6")
        for _ in range(50):
            await pilot.press(random.choice(KEYS))
            await pilot.pause()
            place = (app.cursor, app.line)
            text = "\n".join(shown(app).splitlines()[1:])
            assert seen.setdefault(place, text) == text, place

    play(forty, act, LARGE)
    assert len(seen) > 12


PAIRS = {
    "line(True)": "line(False)",
    "line(True, True)": "line(False, True)",
    "next": "previous",
    "mark(True)": "mark(False)",
    "holds(True)": "holds(False)",
    "step(True)": "step(False)",
}
"""Moves forward, and their ways back."""


@pytest.mark.parametrize("forward", PAIRS)
def test_every_move_forward_has_its_way_back(forty: Path, forward: str) -> None:
    """From where a move led, its counterpart leads back to where such moves come by."""

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        app.stops.set(Condition("call % 3 == 0"))

        async def go(move: str) -> tuple[int, int | None]:
            await app.run_action(move)
            await app.workers.wait_for_complete(
                [worker for worker in app.workers if worker.group == "seek"]
            )
            return app.cursor, app.line

        there = [await go(forward)]
        while (place := await go(forward)) != there[-1]:
            there.append(place)
        back = [there[-1]]
        while (place := await go(PAIRS[forward])) != back[-1]:
            back.append(place)
        assert back[: len(there)] == there[::-1]

    play(forty, act)


def test_a_walk_leaves_the_recording_as_it_was(forty: Path) -> None:
    before = forty.read_bytes()

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("s", "P", "u", "U", "m", "M", "L", "left_square_bracket")

    play(forty, act)
    assert forty.read_bytes() == before
    with Recording.open(forty) as recording:
        assert recording.head == 40
