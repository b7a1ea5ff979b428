"""Dialogs, palette, copy, export, a person's keys: everything around the panels."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from _app import MIDDLE, SIZES, SMALL, after, calls, play, record_to, shown
from pertdbg.app import PertdbgApp
from pertdbg.app.keys import GROUPS
from pertdbg.output.text import describe


@pytest.fixture
def five(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return record_to(tmp_path / "run.pertdbg", calls(5))


def keys_toml(path: Path, text: str) -> None:
    folder = path.parent / "config" / "pertdbg"
    folder.mkdir(parents=True)
    (folder / "keys.toml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("size", SIZES)
def test_help_names_every_action_with_its_keys(five: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        texts = [shown(app)]
        for _ in range(12):
            await pilot.press("pagedown")
            await pilot.pause(0.05)
            texts.append(shown(app))
        whole = "\n".join(texts)
        for command in (command for group in GROUPS.values() for command in group):
            assert command.says in whole, command
            assert command.id in whole, command
        assert "keys.toml" in whole
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    play(five, act, size)


def test_the_footer_has_at_most_seven_keys(five: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.pause()
        keys = [key.description for key in app.query_one(Footer).query(FooterKey)]
        assert keys == ["Next", "Back", "Continue", "Go to", "Enlarge", "Help", "Quit"]
        await pilot.click(app.query(FooterKey).first())
        await pilot.pause()
        assert app.cursor == 2

    play(five, act, SMALL)


def test_about_opens_again(five: Path) -> None:
    text = after(five, "n", "i")
    assert "a title" in text
    assert "what to look for" in text
    assert "a title" not in after(five, "i", "escape")


def test_every_action_is_in_the_palette_and_runs_from_there(five: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        titles = [command.title for command in app.get_system_commands(app.screen)]
        for command in (command for group in GROUPS.values() for command in group):
            assert f"{command.label}: {command.says}" in titles
        await pilot.press("ctrl+p", *"Last")
        await pilot.pause(0.3)
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert app.cursor == 5

    play(five, act, MIDDLE)


def test_copying_hands_the_panel_to_the_terminal_as_text_and_says_so(five: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("n", "2", "y")
        await pilot.pause()
        assert "creation bound 0.02: 3 of 4,096 elements beyond" in app.clipboard
        assert "std" in app.clipboard
        assert "delta: " in shown(app)
        assert "terminal's clipboard" in shown(app)
        await pilot.press("6", "y")
        assert "def update_delta" in app.clipboard

    play(five, act, MIDDLE)


def test_exporting_saves_the_screen_and_the_call_under_names_that_are_free(five: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("n", "e", "e")
        await pilot.pause()
        assert "run-call-2-2.svg" in shown(app)
        record = app.view.record
        assert record is not None
        assert Path("run-call-2.txt").read_text().splitlines() == describe(record)

    play(five, act, MIDDLE)
    assert Path("run-call-2.svg").read_text().startswith("<svg")
    assert Path("run-call-2-2.txt").exists()


def test_where_nothing_can_be_written_the_export_says_so(
    five: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "not saved" in after(five, "e", size=MIDDLE)


def test_a_recording_that_is_kept_already_is_not_kept_twice(five: Path) -> None:
    assert "kept already" in after(five, "r").splitlines()[0]


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_leaving_a_recording_asks_nothing(five: Path, key: str) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press(key)
        await pilot.pause(0.1)

    app = play(five, act)
    assert app.return_code == 0
    assert app.session.recording is None


def test_ctrl_c_closes_a_dialog_first(five: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("g", "ctrl+c")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert app.is_running

    play(five, act)


def test_keys_can_be_moved(five: Path) -> None:
    keys_toml(five, 'next = "m"\n[panel]\nmap = ["f9", "M"]\n')

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("m", "m", "n")
        assert app.cursor == 3
        await pilot.press("M")
        await pilot.pause()
        assert app.main.chosen == "map"
        await pilot.press("question_mark")
        await pilot.pause()
        assert any(line.split()[1:3] == ["m", "Next"] for line in shown(app).splitlines()
                   if "Next call" in line)  # fmt: skip

    play(five, act)


def test_a_broken_keys_file_is_named_with_its_line_and_the_app_goes_on(five: Path) -> None:
    keys_toml(five, 'next = "m"\nprevius = "k"\n')
    text = after(five, "m", size=MIDDLE)
    joined = " ".join(text.split())
    assert "line 2: no action 'previus'" in joined.replace(" │ ", " ") or "previus" in joined
    assert "call 2" in text.splitlines()[0]
