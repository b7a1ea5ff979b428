"""A person's own keys, and what is said of a broken file; what can be typed at "go to"."""

from __future__ import annotations

from pathlib import Path

import pytest

from pertdbg.app.goto import parse
from pertdbg.app.keymap import load
from pertdbg.app.keys import GROUPS, IDS, SCREENS
from pertdbg.errors import PertdbgError


def written(path: Path, text: str) -> Path:
    file = path / "keys.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_a_file_nothing_is_rebound(tmp_path: Path) -> None:
    assert load(tmp_path / "keys.toml") == ({}, [])


def test_keys_are_read_by_the_id_of_their_action(tmp_path: Path) -> None:
    file = written(tmp_path, 'next = "j"\nquit = ["Q", "ctrl+x"]\n[panel]\nmap = "m"\n')
    assert load(file) == ({"next": "j", "quit": "Q,ctrl+x", "panel.map": "m"}, [])


def test_a_dotted_id_can_be_quoted(tmp_path: Path) -> None:
    assert load(written(tmp_path, '"panel.map" = "m"\n'))[0] == {"panel.map": "m"}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('next = "j"\nnxt = "k"\n', 2, "no action 'nxt'; did you mean 'next'?"),
        ("\n\nnext = 3\n", 3, "next takes a key or a list of keys"),
        ("next = []\n", 1, "next takes a key or a list of keys"),
        ('next = "j"\n\nquit = "j"\n', 3, "'j' is already the key of 'next'"),
        ('next = "j"\nquit = oops\n', 2, "not TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    _, problems = load(written(tmp_path, text))
    assert len(problems) == 1
    assert f"keys.toml, line {line}: {said}" in problems[0]


def test_what_is_right_in_a_file_counts_beside_what_is_wrong(tmp_path: Path) -> None:
    keys, problems = load(written(tmp_path, 'next = "j"\nnothing = "x"\n'))
    assert (keys, len(problems)) == ({"next": "j"}, 1)


def test_a_file_that_is_no_text_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_bytes(b"\xff\xfe")
    assert "can't be read" in load(file)[1][0]


def test_every_action_has_an_id_of_its_own_and_no_two_share_a_key() -> None:
    commands = [command for group in GROUPS.values() for command in group]
    others = [command for group in SCREENS.values() for command in group]
    assert len(IDS) == len(commands) + len(others)
    for screen in (commands, *SCREENS.values()):
        keys = [key for command in screen for key in command.keys.split(",")]
        assert len(set(keys)) == len(keys)
    assert sum(command.footer for command in commands) <= 7


def go(text: str) -> int:
    """Typed at call 10 of 40, where calls and ids differ by 100."""
    return parse(text, 10, 40, lambda call: call - 100 if 100 < call <= 140 else None)


@pytest.mark.parametrize(
    ("text", "ident"),
    [
        ("105", 5),
        ("#7", 7),
        ("50%", 20),
        ("0%", 1),
        ("100 %".replace(" ", ""), 40),
        ("+5", 15),
        ("-3", 7),
        ("-30", 1),
        ("1_40", 40),
        ("200", 200),
    ],
)
def test_a_call_can_be_named_in_many_ways(text: str, ident: int) -> None:
    assert go(text) == ident


@pytest.mark.parametrize("text", ["", "x", "0", "-", "#", "#-1", "1.5", "nan%", "inf%", "%"])
def test_what_is_no_call_is_refused_with_what_can_be_typed(text: str) -> None:
    with pytest.raises(PertdbgError, match="try 12, 50%"):
        go(text)
