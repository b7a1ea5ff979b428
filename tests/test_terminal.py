"""The program on a real terminal: keys go in, the screen is read back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from _terminal import Terminal

SIZES = [(80, 24), (120, 40), (200, 60)]


def ids(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def panels(text: str) -> str:
    """The screen without the status bar, the timeline and the footer, which know the mode."""
    return "\n".join(text.splitlines()[1:-3])


def target_of(app: Terminal) -> int:
    """The process of the target that an app has started; it leads a group of its own."""
    command = ["ps", "-o", "pid=,args=", "--ppid", str(app.process.pid)]
    listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    (pid,) = (int(line.split()[0]) for line in listed if "pertdbg.agent" in line)
    return pid


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("size", SIZES, ids=ids)
def test_a_session_from_start_to_a_kept_recording_whose_replay_shows_what_live_showed(
    size: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / "kept.pertdbg"
    with Terminal("sift", "--steps", "6", size=size) as live:
        live.wait_for("STOPPED")
        live.wait_for("no gradient yet")
        live.press("n")
        live.wait_for("call 2")
        live.wait_for("finite")
        live.press("p")
        live.wait_for("no gradient yet")
        live.press("c")
        live.wait_for("exit status 0")
        shown = walk(live)
        live.press("r")
        live.wait_for("Keep the recording as")
        live.settle()
        live.press("ctrl+u")
        live.settle()
        live.press(str(path))
        live.wait_for("kept.pertdbg")
        live.press("enter")
        live.wait_for(lambda _: path.exists())
        live.settle()
        live.press("q")
        assert live.end() == 0
    with Terminal(str(path), size=size) as replay:
        replay.wait_for("REPLAY")
        assert walk(replay) == shown
        replay.press("q")
        assert replay.end() == 0


def walk(terminal: Terminal) -> list[str]:
    """The panels at each of the six calls."""
    terminal.press("home")
    shown = []
    for call in range(1, 7):
        terminal.wait_for(lambda text, call=call: f"call {call} " in text.splitlines()[0])  # type: ignore[misc]
        shown.append(panels(terminal.settle()))
        terminal.press("n")
    return shown


def test_quitting_asks_and_discarding_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    with Terminal("sift", env={"TMPDIR": str(tmp_path)}) as live:
        live.wait_for("STOPPED")
        live.press("q")
        live.wait_for("Discard")
        live.press("d")
        assert live.end() == 0
    assert not any("config.json" in str(p) for p in tmp_path.rglob("*"))
    assert list(tmp_path.glob("pertdbg-*")) == []


def test_killing_the_app_lets_its_target_end_by_itself(tmp_path: Path) -> None:
    with Terminal("sift", env={"TMPDIR": str(tmp_path)}) as live:
        live.wait_for("STOPPED")
        group = target_of(live)
        os.kill(live.process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 120
        while alive(group):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    (folder,) = tmp_path.glob("pertdbg-*")
    assert "call  20" in (folder / "session.stdout").read_text()


def test_ctrl_c_interrupts_the_target_and_the_app_stays(tmp_path: Path) -> None:
    with Terminal("sift", "--steps", "1000000", env={"TMPDIR": str(tmp_path)}) as live:
        live.wait_for("STOPPED")
        live.press("c")
        live.wait_for("RUNNING")
        live.press("ctrl+c")
        live.wait_for("SIGINT")
        live.press("home")
        live.wait_for("no gradient yet")


def test_a_target_that_raises_shows_how_it_ended_and_its_traceback() -> None:
    with Terminal("no-backward", size=(200, 60)) as live:
        live.wait_for("STOPPED")
        live.press("c")
        live.wait_for("exit status 1")
        live.wait_for("AttributeError")
        live.press("p")
        live.wait_for("finite")


def test_a_model_that_fails_to_build_is_one_line_after_the_screen_has_gone(tmp_path: Path) -> None:
    toml = tmp_path / "own.toml"
    toml.write_text(
        'title = "t"\nabout = "a"\n[model]\nbuild = "own.py:build"\n'
        '[input]\ndistribution = "normal"\nshape = [2, 4]\n'
    )
    (tmp_path / "own.py").write_text("def build(layer):\n    raise ValueError('no weights')\n")
    with Terminal(str(toml)) as live:
        live.wait_for("ENDED")
        live.press("q")
        live.wait_for("pertdbg: ")
        assert live.end() == 2


def test_no_colour_is_respected() -> None:
    with Terminal("sift", env={"NO_COLOR": "1"}) as live:
        live.wait_for("STOPPED")
        live.press("n")
        live.wait_for("call 2")
        colours = {
            cell.fg
            for row in live.screen.buffer.values()
            for cell in row.values()
            if cell.data != " "
        }
    grey = re.compile(r"default|black|white|([0-9a-f]{2})\1\1")
    assert all(grey.fullmatch(colour) for colour in colours), colours


def test_a_terminal_that_is_too_small_says_so() -> None:
    with Terminal("sift", size=(38, 8)) as live:
        live.wait_for("40x10")


def test_the_module_runs_as_the_console_script_does() -> None:
    done = subprocess.run([sys.executable, "-m", "pertdbg", "--version"], capture_output=True)
    assert done.stdout.startswith(b"pertdbg ")


def test_a_recording_is_followed_and_a_folder_of_recordings_opens(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"
    with Terminal("--follow", str(path)) as following:
        following.wait_for("run.pertdbg")
        record = [sys.executable, "-m", "pertdbg", "record", "sift", "-o", str(path)]
        subprocess.run([*record, "--steps", "3"], check=True, capture_output=True)
        following.wait_for("call 3 ")
        following.press("q")
        assert following.end() == 0
    with Terminal(str(tmp_path)) as folder:
        folder.wait_for("call 1 ")
        folder.press("q")
        assert folder.end() == 0
