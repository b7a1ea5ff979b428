"""The output panel: what a terminal would show, and nothing that it would do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from _app import HOSTILE, check_lines
from pertdbg.app.lines import plain
from pertdbg.app.panels.output import output, text


def test_a_carriage_return_replaces_the_line() -> None:
    assert plain(text(b"a\n 10 %\r 60 %\r100 %\nend\n")) == "a\n100 %\nend"


def test_a_progress_bar_that_ends_in_a_carriage_return_stays() -> None:
    assert plain(text(b" 10 %\r 20 %\r")) == " 20 %"


def test_windows_line_ends_are_line_ends() -> None:
    assert plain(text(b"a\r\nb\r\n")) == "a\nb"


def test_colours_are_kept() -> None:
    (line,) = text(b"plain \x1b[1;31mred\x1b[0m end")
    assert [part for part, _ in line] == ["plain ", "red", " end"]
    style = line[1][1]
    assert isinstance(style, Style)
    assert style.bold
    assert style.color is not None
    assert style.color.number == 1


@pytest.mark.parametrize(
    "sequence",
    [
        b"\x1b[2J",
        b"\x1b[10;5H",
        b"\x1b[?1049h",
        b"\x1b[?25l",
        b"\x1b[>4;1m",
        b"\x1b]0;a title\x07",
        b"\x1b]8;;http://example.org\x1b\\",
        b"\x1b]52;c;aGk=\x07",
        b"\x1bPq#0\x1b\\",
        b"\x1b(B",
        b"\x1bM",
        b"\x1b7",
        b"\xc2\x9b",
    ],
)
def test_every_other_control_sequence_is_taken_out(sequence: bytes) -> None:
    assert plain(text(b"before " + sequence + b"after")) == "before after"


def test_a_title_that_is_never_ended_takes_no_other_line_with_it() -> None:
    assert plain(text(b"\x1b]0;a title\nnext\n")) == "\nnext"


def test_markup_is_text() -> None:
    assert plain(text(b"[bold]x[/bold] [link=http://x]y[/link]")).startswith("[bold]x[/bold]")


def test_stderr_follows_under_its_own_line() -> None:
    assert plain(output(b"out\n", b"err\n", 40)).splitlines()[0] == "out"
    assert plain(output(b"out\n", b"err\n", 40)).splitlines()[2] == "err"
    assert "stderr" in plain(output(b"out\n", b"err\n", 40)).splitlines()[1]
    assert plain(output(b"", b"", 40)) == "nothing printed, or not recorded"


def test_long_lines_are_folded() -> None:
    assert plain(output(b"x" * 25, b"", 10)).splitlines() == ["x" * 10, "x" * 10, "x" * 5]


@given(st.binary(max_size=200), st.integers(38, 90))
def test_whatever_is_printed_is_safe_to_show(data: bytes, width: int) -> None:
    check_lines(output(data, data, width), width)


def test_hostile_output_is_safe_to_show() -> None:
    check_lines(output(HOSTILE.encode(), HOSTILE.encode("latin-1", "replace"), 40), 40)
