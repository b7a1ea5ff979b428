"""Lines of the panels: broken between words, and never inside a number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pertdbg.app.lines import Line, clip, cut, fold, length, pairs, plain, table, wrap
from pertdbg.app.numbers import count, seconds, size

WORDS = st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9), max_size=12)
ITEM = st.tuples(
    st.text(st.characters(categories=["Ll"]), min_size=1, max_size=8),
    st.floats(allow_nan=False).map(lambda value: (f"{value:.3g}", "")),
)


@given(WORDS, st.integers(20, 60))
def test_wrapping_keeps_every_word_whole_and_in_order(words: list[str], width: int) -> None:
    lines = wrap(" ".join(words), width)
    assert all(length(line) <= width for line in lines)
    assert plain(lines).split() == words


def test_a_word_longer_than_the_line_is_broken_and_nothing_of_it_is_lost() -> None:
    lines = wrap("ab " + "x" * 25, 10)
    assert plain(lines).splitlines() == ["ab", "x" * 10, "x" * 10, "x" * 5]


@given(st.lists(ITEM, min_size=1, max_size=9), st.integers(20, 120))
def test_labelled_values_fit_their_width_and_stay_whole(
    items: list[tuple[str, tuple[str, str]]], width: int
) -> None:
    lines = pairs(items, width)
    text = plain(lines).replace("\n", " ").split()
    assert all(length(line) <= width for line in lines)
    assert text == [word for label, (value, _) in items for word in (label, value)]


def test_labelled_values_stand_in_as_many_columns_as_fit() -> None:
    items = [("a", ("1", "")), ("bb", ("22", "")), ("c", ("333", "")), ("d", ("4", ""))]
    assert plain(pairs(items, 16)).splitlines() == ["a 1    bb 22", "c 333  d  4"]
    assert plain(pairs(items, 11)).splitlines() == ["a  1", "bb 22", "c  333", "d  4"]


def test_a_table_drops_whole_columns_from_the_right() -> None:
    rows = [[("role", ""), ("123456", ""), ("7.5e-05", "")], [("x", ""), ("1", ""), ("2", "")]]
    assert plain(table(rows, 20)).splitlines() == ["role 123456 7.5e-05", "x    1      2"]
    assert plain(table(rows, 15)).splitlines() == ["role  123456", "x     1"]


def test_a_table_cuts_names_before_it_drops_columns() -> None:
    rows = [[("input", ""), ("NativeLayerNorm", ""), ("yes", "")]]
    assert plain(table(rows, 20, flexible=[1])) == "input NativeLay… yes"


@given(st.text(max_size=60), st.text(max_size=60), st.integers(2, 30))
def test_folding_keeps_the_text_and_the_styles(one: str, two: str, width: int) -> None:
    lines = fold([(one, "ok"), (two, "bad")], width)
    pieces = [piece for line in lines for piece in line]
    assert all(length(line) <= width for line in lines)
    assert "".join(text for text, style in pieces if style == "ok") == one
    assert "".join(text for text, style in pieces if style == "bad") == two


@given(st.text(max_size=40), st.text(max_size=40), st.integers(1, 30))
def test_clipping_fits_and_marks_that_it_cut(one: str, two: str, width: int) -> None:
    whole: Line = [(one, ""), (two, "")]
    clipped = clip(whole, width)
    assert length(clipped) <= width
    assert clipped == whole or plain([clipped]).endswith("…")


def test_wide_characters_count_as_two_cells() -> None:
    assert cell_len(cut("日本語", 4)) <= 4
    assert [plain([line]) for line in fold([("日本語", "")], 4)] == ["日本", "語"]


def test_counts_sizes_and_durations_read_as_people_write_them() -> None:
    assert (count(1234567), size(512), size(3 * 2**20)) == ("1,234,567", "512 B", "3.0 MiB")
    assert (seconds(2.34), seconds(125)) == ("2.3 s", "2:05 min")
