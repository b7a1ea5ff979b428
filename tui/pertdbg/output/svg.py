"""Plots as SVG: the extremes of each cell, so that no spike is lost, and where values fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pertdbg.output.words import number
from pertdbg.recording.series import Series

WIDTH, HEIGHT = 960, 200
LEFT, TOP, BOTTOM = 70, 12, 22

_LOGARITHMIC = 100.0
"""From this ratio of largest to least on, the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Line:
    """One fact in a plot."""

    name: str
    series: Series
    style: str
    """A class of the style sheet."""


def plot(title: str, lines: Sequence[Line]) -> str:
    """Draw facts over the same cells, with a tick at the top where one is NaN or infinite."""
    values = [v for line in lines for v in (*line.series.low, *line.series.high) if v == v]
    calls = lines[0].series
    parts = [f"<title>{escape(title)}</title>", *_frame(calls)]
    if values:
        place = _scale(min(values), max(values))
        parts += _axis(min(values), max(values), place)
        parts += [_path(line, place) for line in lines]
    parts += [_bad(line.series) for line in lines]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def strip(title: str, levels: Sequence[tuple[int, int, str]], last: int) -> str:
    """Draw runs of calls (first, last, level) as a band of colours."""
    parts = [f"<title>{escape(title)}</title>"]
    for first, end, level in levels:
        left = LEFT + (first - 1) / last * (WIDTH - LEFT)
        width = max((end - first + 1) / last * (WIDTH - LEFT), 1)
        parts.append(
            f'<rect class="{level}" x="{left:.1f}" y="2" width="{width:.1f}" height="14"/>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} 18" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _scale(least: float, most: float) -> Callable[[float], float]:
    """Give what turns a value into a height."""
    logarithmic = least > 0 and most / least > _LOGARITHMIC
    low, high = (math.log(least), math.log(most)) if logarithmic else (least, most)
    room = HEIGHT - TOP - BOTTOM

    def place(value: float) -> float:
        at = math.log(value) if logarithmic else value
        # Halves, since the whole range of float64 is larger than its largest number.
        share = (at / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
        return TOP + room * (1 - share)

    return place


def _frame(series: Series) -> list[str]:
    base = HEIGHT - BOTTOM
    first, last = (f"{series.first[0]:,}", f"{series.last:,}") if len(series) else ("", "")
    return [
        f'<path class="axis" d="M{LEFT},{TOP}V{base}H{WIDTH}"/>',
        f'<text x="{LEFT}" y="{HEIGHT - 6}">record {first}</text>',
        f'<text x="{WIDTH}" y="{HEIGHT - 6}" text-anchor="end">{last}</text>',
    ]


def _axis(least: float, most: float, place: Callable[[float], float]) -> list[str]:
    shown = [least] if least == most else [least, most]
    return [
        f'<text x="{LEFT - 6}" y="{place(value) + 4:.1f}" text-anchor="end">{number(value)}</text>'
        for value in shown
    ]


def _path(line: Line, place: Callable[[float], float]) -> str:
    """Join the cells by a line, and let it go through the extremes of each."""
    series, steps, pen = line.series, [], "M"
    for k, (low, high) in enumerate(zip(series.low, series.high, strict=True)):
        if low != low:
            pen = "M"
            continue
        x, bottom, top = _x(k, len(series)), place(low), place(high)
        steps.append(f"{pen}{x:.1f},{bottom:.1f}")
        steps.append(f"V{top:.1f}" if bottom - top >= 0.1 else "h0.5")
        pen = "L"
    return f'<path class="{line.style}" d="{"".join(steps)}"/>' if steps else ""


def _bad(series: Series) -> str:
    at = [_x(k, len(series)) for k, count in enumerate(series.bad) if count]
    return "" if not at else f'<path class="bad" d="{"".join(_ticks(at))}"/>'


def _ticks(places: Iterable[float]) -> Iterable[str]:
    return (f"M{x:.1f},{TOP - 8}V{TOP + 4}" for x in places)


def _x(k: int, cells: int) -> float:
    return LEFT + (k + 0.5) / cells * (WIDTH - LEFT)
