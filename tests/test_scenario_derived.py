"""A scenario that is another one, without a guard or with other values or lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from _ownlayer import CLAMP, CLAMPED, scenario
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording
from pertdbg.scenario.load import load

BASE = f"""{scenario(calls=3)}[[expect]]
calls = "all"
field = "delta.max_abs"
at_most = 0.0200001
"""
HEAD = 'title = "Another"\nabout = "With a change."\nbase = "base.toml"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layer.py").write_text(CLAMPED)
    (tmp_path / "base.toml").write_text(BASE)
    return tmp_path


def recorded(folder: Path, text: str, status: int = 0) -> tuple[list[CallRecord], str]:
    (folder / "other.toml").write_text(text)
    (folder / "run.pertdbg").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pertdbg", "record", "other.toml", "-o", "run.pertdbg"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    if status:
        assert done.stdout == ""  # there is no recording to name
        return [], done.stderr
    with Recording.open(folder / "run.pertdbg") as recording:
        return list(recording), done.stderr


def test_without_a_guard_with_a_line_and_with_a_value(folder: Path) -> None:
    before = (folder / "layer.py").read_bytes()
    whole, _ = recorded(folder, HEAD)
    assert [round(r.delta.max_abs or 0, 6) for r in whole] == [0.01, 0.02, 0.02]
    removed = f"guards_removed = [{{ kind = 'clamp', line = {CLAMP} }}]\n"
    free, _ = recorded(folder, HEAD + removed)
    # Steps of 0.5 from 0.01 on: where the sign stays, 0.51 and 1.01.
    assert free[1].delta.max_abs == pytest.approx(0.51)
    line = f"[[lines]]\nline = {CLAMP}\nwas = 'delta = delta.clamp(-0.02, 0.02)'\n"
    wider, _ = recorded(
        folder, HEAD + line + "now = '            delta = delta.clamp(-0.3, 0.3)'\n"
    )
    assert wider[1].delta.max_abs == pytest.approx(0.3)
    short, _ = recorded(folder, HEAD + "[change]\n'loop.calls' = 2\n")
    assert len(short) == 2
    assert (folder / "layer.py").read_bytes() == before


def test_it_says_its_own_and_expects_its_own(folder: Path) -> None:
    (folder / "other.toml").write_text(
        HEAD + "[[expect]]\ncall = 1\nfield = 'delta.norm'\nabove = 0\n"
    )
    other = load(folder / "other.toml")
    assert (other.title, other.about) == ("Another", "With a change.")
    assert [expect.field for expect in other.expect] == ["delta.norm"]
    assert other.layer.class_ == "layer.py:Layer"
    assert other.path == folder / "base.toml"
    assert other.file == folder / "other.toml"


def test_a_scenario_that_ships_and_one_that_is_derived_itself_can_be_the_base(
    folder: Path,
) -> None:
    (folder / "first.toml").write_text(HEAD.replace("base.toml", "sift") + "[change]\nseed = 7\n")
    (folder / "second.toml").write_text(
        HEAD.replace("base.toml", "first.toml") + "[change]\n'loop.calls' = 4\n"
    )
    second = load(folder / "second.toml")
    assert (second.seed, second.loop.calls) == (7, 4)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "bass = 1\n", "4:1: bass: unknown key; did you mean base?"),
        (HEAD.replace("base.toml", "other.toml"), "3:1: base: goes round in a circle"),
        (HEAD.replace("base.toml", "none.toml"), "none.toml: can't be read"),
        (HEAD.replace("base.toml", "sifd"), "sifd: no scenario of that name ships"),
        (HEAD + "[change]\n'loop.cals' = 2\n", "5:1: change.loop.cals: unknown key"),
        (HEAD + "[change]\n'loop.calls' = 0\n", "5:1: change.loop.calls: 0 is not allowed"),
        (HEAD + "[[expect]]\ncall = 9\nfield = 'step'\nequals = 0\n", "call: 9 never comes"),
    ],
)
def test_what_is_wrong_with_it_is_said_at_its_place(folder: Path, text: str, says: str) -> None:
    (folder / "other.toml").write_text(text)
    with pytest.raises(PertdbgError) as caught:
        load(folder / "other.toml")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "guards_removed = [{ kind = 'clamp', line = 3 }]",
            "no clamp in line 3 of layer.py; there",
        ),
        ("[[lines]]\nline = 3\nwas = 'x'\nnow = 'y'", "line 3 of"),
    ],
)
def test_what_does_not_stand_where_it_says_is_not_run(folder: Path, text: str, says: str) -> None:
    _, errors = recorded(folder, HEAD + text, status=2)
    assert says in errors
    assert errors.count("\n") == 1
