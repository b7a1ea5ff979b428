"""Curves, histograms and heat maps drawn in characters.

A curve keeps the least and the greatest value of every column, so that one spike among many
calls is never averaged away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pertdbg.app.lines import Line, Piece
from pertdbg.app.numbers import short

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille character: left and right column, from the top."""

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_MARK = "┊"

_WIDE = 100.0
"""Ratio of the greatest to the least value from which a curve is drawn on a logarithmic scale."""

LEVELS = 16
"""Steps of colour in a heat map."""

BEYOND, NAN = LEVELS, LEVELS + 1
"""Levels of a cell that is infinite or beyond a bound kept always, and of one with a NaN."""


def curve(
    low: Sequence[float],
    high: Sequence[float],
    bad: Sequence[float],
    width: int,
    height: int,
    at: int | None = None,
) -> list[Line]:
    """Draw a series in braille, with its range at the right and `✕` where a value is NaN or Inf.

    Args:
        low: Least finite value of each point; NaN where there is none.
        high: Greatest finite value of each point.
        bad: Number of values of each point that are NaN or infinite.
        width: Cells across, the labels included.
        height: Lines.
        at: Point under the cursor.
    """
    finite = [value for value in (*low, *high) if math.isfinite(value)]
    bottom, top = (min(finite), max(finite)) if finite else (0.0, 0.0)
    logarithmic = bottom > 0 and top / bottom > _WIDE
    labels = _labels(bottom, top, logarithmic, height) if finite else [""] * height
    cells = max(width - max(map(len, labels)) - 1, 1)
    rows = _dots(low, high, _Scale(bottom, top, logarithmic, 4 * height), cells, height)
    _mark_bad(rows[0], bad, cells)
    cursor = None if at is None or not low else (2 * at + 1) * cells // (2 * len(low))
    return [
        [*_with_cursor("".join(row), cursor), (" " + label, "label")]
        for row, label in zip(rows, labels, strict=True)
    ]


class _Scale:
    """Turns a value into a row of dots, counted from the bottom."""

    def __init__(self, bottom: float, top: float, logarithmic: bool, rows: int) -> None:
        self._map = math.log if logarithmic else float
        self._bottom = self._map(bottom)
        self._span = self._map(top) - self._bottom
        self._rows = rows

    def row(self, value: float) -> int:
        if self._span <= 0:
            return self._rows // 2
        return round((self._map(value) - self._bottom) / self._span * (self._rows - 1))


def _labels(bottom: float, top: float, logarithmic: bool, height: int) -> list[str]:
    labels = [""] * height
    if bottom == top:
        labels[height // 2] = short(top)
        return labels
    digits = next((n for n in _DIGITS if short(bottom, n) != short(top, n)), _DIGITS[-1])
    labels[-1] = short(bottom, digits) + (" log" if logarithmic and height == 2 else "")
    if logarithmic and height > 2:
        labels[height // 2] = "log"
    labels[0] = short(top, digits)
    return labels


_DIGITS = (2, 3, 4, 5, 6)
"""Significant digits of the two ends of an axis, so many that they differ."""


def _dots(
    low: Sequence[float], high: Sequence[float], scale: _Scale, cells: int, height: int
) -> list[list[str]]:
    bits = [[0] * cells for _ in range(height)]
    before: tuple[int, int] | None = None
    for column in range(2 * cells):
        start, stop = _span(column, 2 * cells, len(low))
        least = [value for value in low[start:stop] if math.isfinite(value)]
        if not least:
            before = None
            continue
        first = scale.row(min(least))
        last = scale.row(max(value for value in high[start:stop] if math.isfinite(value)))
        joined = _joined(first, last, before)
        before = (first, last)
        for row in range(joined[0], joined[1] + 1):
            line, dot = divmod(4 * height - 1 - row, 4)
            bits[line][column // 2] |= _DOTS[column % 2][dot]
    return [[chr(0x2800 + value) if value else " " for value in row] for row in bits]


def _joined(first: int, last: int, before: tuple[int, int] | None) -> tuple[int, int]:
    """Lengthen a column's stroke until it meets the one before."""
    if before is None:
        return first, last
    return min(first, before[1]), max(last, before[0])


def _mark_bad(row: list[str], bad: Sequence[float], cells: int) -> None:
    for point, value in enumerate(bad):
        if value:
            row[(2 * point + 1) * cells // (2 * len(bad))] = "✕"


def _with_cursor(text: str, cursor: int | None) -> Line:
    if cursor is None:
        return _crossed(text)
    cell = text[cursor] if text[cursor] != " " else "│"
    style = "bad-cursor" if cell == "✕" else "cursor"
    return [*_crossed(text[:cursor]), (cell, style), *_crossed(text[cursor + 1 :])]


def _crossed(text: str) -> Line:
    """Give every `✕` the style of something bad."""
    line: Line = []
    for index, part in enumerate(text.split("✕")):
        if index:
            line.append(("✕", "bad"))
        if part:
            line.append((part, "plot"))
    return line


def bars(
    counts: Sequence[int],
    span: tuple[float, float],
    marks: Sequence[float],
    width: int,
    height: int,
) -> list[Line]:
    """Draw a histogram in eighth blocks, `┊` at each mark, over a line with its range."""
    merged, repeat = _merged(counts, width)
    greatest = max(merged, default=0)
    rows = max(height - 1, 1)
    levels = [0 if not n else max(1, round(8 * rows * n / greatest)) for n in merged]
    cells = {_cell(mark, span, len(merged) * repeat) for mark in marks} - {None}
    lines: list[Line] = []
    for row in range(rows - 1, -1, -1):
        text = "".join(_EIGHTHS[min(max(level - 8 * row, 0), 8)] * repeat for level in levels)
        lines.append(_runs([_marked(c, column in cells) for column, c in enumerate(text)]))
    return [*lines, _axis(span, len(merged) * repeat, width)] if height > 1 else lines


def _merged(counts: Sequence[int], width: int) -> tuple[list[int], int]:
    """Sum neighbouring bins, or repeat them, so that they fill a width."""
    bins = len(counts)
    group = -(-bins // max(width, 1))
    merged = [sum(counts[start : start + group]) for start in range(0, bins, group)]
    return merged, max(1, width // len(merged)) if merged else 1


def _cell(mark: float, span: tuple[float, float], cells: int) -> int | None:
    low, high = span
    if not low <= mark <= high or high <= low:
        return None
    return min(int((mark - low) / (high - low) * cells), cells - 1)


def _marked(character: str, marked: bool) -> Piece:
    return (_MARK, "note") if marked and character == " " else (character, "plot")


def _axis(span: tuple[float, float], cells: int, width: int) -> Line:
    left, right = short(span[0]), short(span[1])
    blanks = max(min(cells, width) - len(left) - len(right), 1)
    return [(left + " " * blanks + right, "label")]


def heat(
    values: Sequence[float],
    shape: tuple[int, int],
    width: int,
    height: int,
    *,
    limit: float | None = None,
    colour: bool = True,
) -> list[Line]:
    """Draw a map of non-negative values, two rows a line where there is colour.

    Pooling takes the greatest value; the scale runs from the least pooled value to the greatest.

    Args:
        values: Row by row.
        shape: Rows and columns of `values`.
        width: Cells across.
        height: Lines.
        limit: A bound; cells beyond it are drawn apart.
        colour: Whether colours can be told apart; else shades, one row a line.
    """
    per_line = 2 if colour else 1
    grid = _pooled(values, shape, width, height * per_line)
    scale = extremes(value for row in grid for value in row)
    levels = [[_level(value, scale, limit) for value in row] for row in grid]
    if not colour:
        return [_runs([(_shade(level), "plot") for level in row]) for row in levels]
    if len(levels) % 2:
        levels.append([-1] * len(levels[0]))
    return [
        _runs([("▀", f"cells{a}/{b}") for a, b in zip(*levels[row : row + 2], strict=True)])
        for row in range(0, len(levels), 2)
    ]


def extremes(values: object) -> tuple[float, float]:
    """Find the least and the greatest finite value; zeros where there is none."""
    finite = [value for value in values if math.isfinite(value)]  # type: ignore[attr-defined]
    return (min(finite), max(finite)) if finite else (0.0, 0.0)


def _pooled(
    values: Sequence[float], shape: tuple[int, int], width: int, height: int
) -> list[list[float]]:
    rows, columns = shape
    grow = max(1, min(height // max(rows, 1), width // max(columns, 1)))
    tall, wide = min(height, rows * grow), min(width, columns * grow)
    spans = [_span(column, wide, columns) for column in range(wide)]
    grid = []
    for row in range(tall):
        first, last = _span(row, tall, rows)
        lines = [values[r * columns : (r + 1) * columns] for r in range(first, last)]
        whole = lines[0] if len(lines) == 1 else [_greatest(c) for c in zip(*lines, strict=True)]
        grid.append([_greatest(whole[start:stop]) for start, stop in spans])
    return grid


def _span(index: int, cells: int, items: int) -> tuple[int, int]:
    start = index * items // cells
    return start, max(start + 1, (index + 1) * items // cells)


def _greatest(values: Sequence[float]) -> float:
    return math.nan if any(value != value for value in values) else max(values)


def _level(value: float, scale: tuple[float, float], limit: float | None) -> int:
    if value != value:
        return NAN
    if value == math.inf or (limit is not None and value > limit):
        return BEYOND
    low, high = scale
    if high <= low:
        return LEVELS // 2 if value else 0
    return min(int((value - low) / (high - low) * LEVELS), LEVELS - 1)


def _shade(level: int) -> str:
    if level >= LEVELS:
        return "N" if level == NAN else "!"
    return _SHADES[level * len(_SHADES) // LEVELS]


def _runs(line: Line) -> Line:
    """Join neighbours of one style."""
    joined: Line = []
    for text, style in line:
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        else:
            joined.append((text, style))
    return joined
