"""The table of a stored tensor's values: slices by index, and maps, of which keys wait for none."""

from __future__ import annotations

import struct
from pathlib import Path
from unittest import mock

import pytest
from textual.pilot import Pilot

from _app import MIDDLE, SIZES, play, shown
from _records import healthy
from pertdbg.app import PertdbgApp
from pertdbg.app.screens.values import Table
from pertdbg.recording.writer import Recorder
from test_app_find import typed

SHAPE = (4, 500, 300)


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cube") / "run.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(healthy(1))
    count = SHAPE[0] * SHAPE[1] * SHAPE[2]
    data = struct.pack(f"<{count}f", *(float(k) for k in range(count)))
    recorder.tensor(1, "delta", "float32", SHAPE, data)
    recorder.close()
    return path


async def whole(app: PertdbgApp, pilot: Pilot[int]) -> None:
    """Wait until everything that is seen was read."""
    await pilot.pause()
    while any(word in line for line in shown(app).splitlines()[1:-1] for word in ("…", "so far")):
        await pilot.pause(0.02)


@pytest.mark.parametrize("size", SIZES)
def test_a_slice_shows_its_part_under_the_places_of_the_whole(
    cube: Path, size: tuple[int, int]
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("v", "s", *typed("2, 10:400:100, 299"), "enter")
        await whole(app, pilot)
        lines = shown(app).splitlines()
        assert "delta  float32 4x500x300 [2, 10:400:100, 299]" in lines[0]
        assert lines[1].strip("│ ").split() == ["10", "110", "210", "310"]
        expected = [f"{2 * 150000 + row * 300 + 299:.4g}" for row in (10, 110, 210, 310)]
        assert lines[2].strip("│ ").split() == expected
        await pilot.press("s", "ctrl+u", "enter")
        await whole(app, pilot)
        assert shown(app).splitlines()[2].strip("│ ").split()[:3] == ["0,0", "0", "1"]

    play(cube, act, size)


def test_what_is_no_slice_stays_with_the_reason(cube: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("v", "s", *typed("7"), "enter")
        await pilot.pause()
        assert "there is no 7 in dimension 0, which has 4 places" in shown(app)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1

    play(cube, act, MIDDLE)


def test_the_map_of_a_slice_comes_bit_by_bit_and_keys_are_heard_meanwhile(cube: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("v")
        with mock.patch("pertdbg.app.screens.values._BREATH", 0.0):
            await pilot.press("m")
            await pilot.pause()
            table = app.screen.query_one(Table)
            assert table.sketch is not None
            await pilot.press("m")
            await whole(app, pilot)
            assert "0,0" in shown(app), "the values are back before the map is whole"
        await pilot.press("m")
        await whole(app, pilot)
        assert "sizes: " in shown(app)
        assert "6e+05" in shown(app)
        assert "m values" in shown(app)
        await pilot.press("s", *typed("3, ::50"), "enter")
        await whole(app, pilot)
        assert "4.5e+05 to 5.9e+05" in shown(app)

    play(cube, act, MIDDLE)


def test_leaving_ends_a_map_that_is_being_made(cube: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        with mock.patch("pertdbg.app.screens.values._BREATH", 0.0):
            await pilot.press("v", "m", "escape")
            await pilot.pause()
            assert not any(w.group == "sketch" and w.is_running for w in app.workers)

    play(cube, act, MIDDLE)
