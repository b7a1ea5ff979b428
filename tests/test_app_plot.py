"""Curves, histograms and heat maps: no spike is lost, no NaN hidden."""

from __future__ import annotations

import math
from array import array

from pertdbg.app.lines import Line, length, plain
from pertdbg.app.plot import BEYOND, LEVELS, NAN, bars, curve, heat

NONE = math.nan


def flat(lines: list[Line]) -> list[str]:
    return plain(lines).splitlines()


def test_one_spike_among_many_calls_reaches_the_top() -> None:
    high = array("d", [1.0] * 200)
    high[137] = 9.0
    drawn = flat(curve(array("d", [1.0] * 200), high, array("d", [0.0] * 200), 44, 4))
    column = (2 * 137 + 1) * (44 - 2) // 400
    assert drawn[0].endswith(" 9")
    assert [index for index, cell in enumerate(drawn[0][:42]) if cell != " "] == [column]


def test_a_wide_range_is_drawn_on_a_logarithmic_scale_and_says_so() -> None:
    values = array("d", [1e-6, 1e-3, 1.0])
    drawn = flat(curve(values, values, array("d", [0.0] * 3), 40, 3))
    assert [line.split()[-1] for line in drawn] == ["1", "log", "1e-06"]
    middle = drawn[1][: 40 - 6]
    third = len(middle) // 3
    assert middle[third + 2 : 2 * third - 2].strip()


def test_a_value_that_is_not_finite_is_marked_even_where_no_value_is_drawn() -> None:
    low = array("d", [1.0, NONE, 2.0])
    drawn = curve(low, low, array("d", [0.0, 1.0, 0.0]), 32, 3)
    assert ("✕", "bad") in drawn[0]
    assert plain(drawn).count("✕") == 1


def test_a_series_without_any_finite_value_can_be_drawn() -> None:
    nothing = array("d", [NONE] * 4)
    drawn = curve(nothing, nothing, array("d", [0.0, 1.0, 1.0, 0.0]), 20, 2)
    assert plain(drawn).count("✕") == 2
    assert plain(curve(array("d"), array("d"), array("d"), 20, 2)).strip() == ""


def test_the_cursor_is_seen_without_colour_where_nothing_is_drawn() -> None:
    low = array("d", [1.0, 2.0, 3.0, 4.0])
    drawn = curve(low, low, array("d", [0.0] * 4), 30, 4, at=2)
    cells = [(text, style) for line in drawn for text, style in line if style == "cursor"]
    assert len(cells) == 4
    assert ("│", "cursor") in cells


def test_curves_keep_their_width() -> None:
    low = array("d", [-1e-300, 1e300, 0.0])
    for width in (12, 38, 58, 115):
        assert all(length(line) <= width for line in curve(low, low, low, width, 5, at=1))


def test_the_bars_of_a_histogram_are_as_high_as_their_counts() -> None:
    drawn = flat(bars((8, 4, 0, 1), (0.0, 4.0), [], 4, 2))
    assert drawn[0] == "█▄ ▁"


def test_a_rare_value_is_not_rounded_away() -> None:
    assert flat(bars((1_000_000, 1), (0.0, 1.0), [], 2, 2))[0] == "█▁"


def test_bins_are_summed_where_there_are_more_than_cells() -> None:
    assert flat(bars((1, 1, 2, 2, 4, 4, 0, 0), (0.0, 1.0), [], 4, 2))[0] == "▂▄█"


def test_the_bound_is_marked_where_it_lies() -> None:
    counts = [0] * 10 + [5] + [0] * 10
    drawn = flat(bars(counts, (-2.1, 2.1), [-1.0, 1.0], 21, 3))
    assert drawn[0].index("┊") == int((-1.0 + 2.1) / 4.2 * 21)
    assert drawn[0].rindex("┊") == int((1.0 + 2.1) / 4.2 * 21)
    assert drawn[-1].split() == ["-2.1", "2.1"]


def levels(lines: list[Line]) -> list[tuple[int, int]]:
    names = [style for line in lines for text, style in line for _ in text]
    return [
        tuple(int(level) for level in str(name).removeprefix("cells").split("/"))  # type: ignore[misc]
        for name in names
    ]


def test_a_heat_map_keeps_the_largest_value_of_what_it_pools() -> None:
    values = [0.0] * 64
    values[37] = 1.0
    drawn = levels(heat(values, (8, 8), 4, 2))
    tops = [top for top, _ in drawn] + [bottom for _, bottom in drawn]
    assert sorted(tops)[-2:] == [0, LEVELS - 1]


def test_nan_and_values_beyond_the_bound_have_levels_of_their_own() -> None:
    drawn = levels(heat([0.1, math.nan, 0.3, 0.2], (2, 2), 2, 1, limit=0.25))
    assert drawn == [(0, BEYOND), (NAN, 8)]


def test_a_heat_map_without_colour_is_drawn_in_shades() -> None:
    drawn = flat(heat([0.0, 0.9, 1.9, math.nan, 2.0, 0.0], (2, 3), 3, 2, limit=1.9, colour=False))
    assert drawn == [" ▒█", "N!"]


def test_a_map_of_one_value_can_be_drawn() -> None:
    assert levels(heat([0.0], (1, 1), 1, 1)) == [(0, -1)]
    assert levels(heat([0.7], (1, 1), 1, 1)) == [(LEVELS // 2, -1)]
