"""The screen: which panels stand where at which size, and that nothing hostile reaches it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from _app import HOSTILE, LARGE, MIDDLE, SIZES, SMALL, after, calls, play, record_to, shown
from _records import healthy, records
from pertdbg.app import PertdbgApp
from pertdbg.app.widgets.panel import Panel
from pertdbg.recording.parts import LayerSource

FOUR = ["gradient", "delta", "leaf", "storage"]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("few") / "run.pertdbg"
    return record_to(path, calls(5), printed={1: b"\x1b[31mred\x1b[0m\n"}, errors={2: b"oops\n"})


def seen(app: PertdbgApp) -> dict[str, tuple[int, int]]:
    """The panels that can be seen, with their inner sizes."""
    return {panel.NAME: (panel.size.width, panel.size.height) for panel in app.screen.query(Panel)
            if panel.display and panel.region.area}  # fmt: skip


LAYOUTS = {
    SMALL: {"gradient": (38, 6), "delta": (38, 6), "leaf": (38, 11), "storage": (38, 11)},
    MIDDLE: {
        **dict.fromkeys(FOUR, (58, 7)),
        "map": (38, 16),
        "output": (78, 16),
    },
    LARGE: {
        "gradient": (81, 14),
        "delta": (115, 14),
        "leaf": (98, 9),
        "storage": (98, 9),
        "map": (48, 27),
        "source": (81, 27),
        "output": (65, 27),
    },
}


@pytest.mark.parametrize("size", SIZES)
def test_each_size_has_its_panels(few: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert seen(app) == LAYOUTS[size]

    play(few, act, size)


def test_resizing_lays_the_same_call_out_anew(few: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("n", "n")
        for size in (MIDDLE, LARGE, SMALL, (62, 17), (140, 33), SMALL):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            lines = shown(app).splitlines()
            assert len(lines) == size[1]
            assert all(len(line) <= size[0] for line in lines)
            assert "call 3" in lines[0]
            assert set(FOUR) <= set(seen(app))
            if size in LAYOUTS:
                assert seen(app) == LAYOUTS[size]

    play(few, act)


def test_a_small_terminal_shows_one_panel_and_the_bar_and_says_so(few: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for key, name in zip("1234567", [*FOUR, "map", "source", "output"], strict=True):
            await pilot.press(key)
            await pilot.pause()
            assert list(seen(app)) == [name]
            lines = shown(app).splitlines()
            assert lines[0].startswith(" call 1")
            assert lines[1].startswith(" one panel (keys 1-8); four from 60x16")

    play(few, act, (50, 14))


@pytest.mark.parametrize("size", [(39, 24), (80, 9), (10, 3)])
def test_a_terminal_too_small_for_a_panel_asks_for_a_larger_one(
    few: Path, size: tuple[int, int]
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert seen(app) == {}
        if size[0] > 20:
            assert "needs a larger terminal" in shown(app)
        await pilot.press("n")
        await pilot.resize_terminal(*SMALL)
        await pilot.pause()
        assert "call 2" in shown(app).splitlines()[0]

    play(few, act, size)


def test_panels_without_a_place_at_80x24_open_alone_and_close_again(few: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for key, name in (("5", "map"), ("6", "source"), ("7", "output")):
            await pilot.press(key)
            await pilot.pause()
            assert seen(app) == {name: (78, 19)}
            await pilot.press(key)
            await pilot.pause()
            assert set(seen(app)) == set(FOUR)
        await pilot.press("5", "2")
        await pilot.pause()
        assert set(seen(app)) == set(FOUR)
        assert app.focused is app.main.panels["delta"]

    play(few, act)


def test_z_enlarges_the_panel_with_the_focus_and_restores_all(few: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("3", "z")
        await pilot.pause()
        assert list(seen(app)) == ["leaf"]
        await pilot.press("4")
        await pilot.pause()
        assert list(seen(app)) == ["storage"]
        await pilot.press("n")
        assert "call 2" in shown(app)
        await pilot.press("z")
        await pilot.pause()
        assert set(seen(app)) == set(LAYOUTS[MIDDLE])
        await pilot.press("tab", "z", "escape")
        await pilot.pause()
        assert set(seen(app)) == set(LAYOUTS[MIDDLE])
        await pilot.click("#map", times=2)
        await pilot.pause()
        assert list(seen(app)) == ["map"]

    play(few, act, MIDDLE)


def test_source_and_output_take_turns_where_there_is_room_for_one(few: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert "7 output  (6 source)" in shown(app)
        await pilot.press("6")
        await pilot.pause()
        assert "source" in seen(app)
        assert "output" not in seen(app)
        assert "6 source  (7 output)" in shown(app)
        assert ">  31" in shown(app)

    play(few, act, MIDDLE)


def test_what_does_not_fit_is_counted_and_can_be_scrolled_to(few: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("2", "n")
        assert "std" not in shown(app)
        assert "more: up/down" in shown(app)
        await pilot.press("pagedown")
        assert "std" in shown(app)
        await pilot.press("up", "up", "up", "up", "up", "up")
        assert "creation bound" in shown(app)

    play(few, act)


def test_the_panels_that_want_pictures_are_known(few: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert app.main.looks() == frozenset()
        await pilot.press("5")
        await pilot.pause()
        assert app.main.looks() == {"histogram", "map"}
        await pilot.press("2", "z")
        await pilot.pause()
        assert app.main.looks() == {"histogram"}

    play(few, act)


@pytest.mark.parametrize("size", SIZES)
def test_without_colour_everything_is_still_told_apart(few: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        assert app.no_color
        assert not any("ansi" in name for name in app.available_themes)
        for key in ("n", "n", "5", "6", "7", "1"):
            await pilot.press(key)
            await pilot.pause()
            colours = {
                colour.triplet
                for strip in app.screen._compositor.render_strips()
                for segment in strip
                if segment.style is not None
                for colour in (segment.style.color, segment.style.bgcolor)
                if colour is not None and colour.triplet is not None
            }
            assert all(len(set(triplet)) == 1 for triplet in colours), "a colour that is no grey"
        await pilot.press("5")
        await pilot.pause()
        assert "▀" not in shown(app)
        assert "[┃]" in shown(app)

    play(few, act, size, {"NO_COLOR": "1"})


def test_no_hostile_string_is_obeyed_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    base = [replace(record, layer=HOSTILE) for record in records(3, 6)]
    path = record_to(
        tmp_path / "r.pertdbg",
        [*base, replace(healthy(7), layer=HOSTILE)],
        layers=[LayerSource(HOSTILE, HOSTILE, HOSTILE, 1, f"x = 1  # {HOSTILE}")],
        printed={2: HOSTILE.encode()},
        errors={2: HOSTILE.encode()},
        title=HOSTILE,
        about=HOSTILE,
        exit_text=HOSTILE,
    )

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for key in ("i", "escape", *"n5n6n7n1n2n3n4", "e", "question_mark", "escape"):
            await pilot.press(key)
            await pilot.pause()
            text = shown(app)
            assert not any(character in text for character in "\x1b\x07\x9b\u202e\r")
            assert "owned" not in text or "]0;owned" in text
        assert "[red]x[/red]" in text

    play(path, act, SMALL)
    play(path, act, LARGE)


def test_many_layers_and_a_long_recording_stay_readable(tmp_path: Path) -> None:
    path = record_to(tmp_path / "r.pertdbg", records(9, 300))
    text = after(path, "end", size=MIDDLE)
    assert "300/300" in text
    assert "coder.pert" in text.splitlines()[0]


@pytest.mark.parametrize("theme", ["textual-light", "nord", "ansi-dark", "ansi-light"])
def test_other_themes_can_be_used(few: Path, theme: str) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        app.theme = theme
        await pilot.press("n", "5")
        await pilot.pause()
        assert "call 2" in shown(app)

    play(few, act, MIDDLE)
