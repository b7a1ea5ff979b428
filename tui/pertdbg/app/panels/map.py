"""Map of |delta| with the histogram under it."""

from __future__ import annotations

from pertdbg.app.lines import Line, clip
from pertdbg.app.numbers import count, short
from pertdbg.app.panels.delta import histogram
from pertdbg.app.plot import extremes, heat
from pertdbg.record import CallRecord
from pertdbg.recording.parts import HeatMap

_BARS = 5
"""Lines of the histogram and its axis."""


def heat_map(
    record: CallRecord, picture: HeatMap | None, width: int, height: int, *, colour: bool
) -> list[Line]:
    """Draw the panel.

    Args:
        record: The call under the cursor.
        picture: Its map, where one was recorded.
        width: Cells across.
        height: Lines.
        colour: Whether colours can be told apart.
    """
    bars = histogram(record, width, _BARS + (height > 24) * 3)
    if picture is None or not picture.rows or not picture.cols:
        return [[("map: not recorded at this call", "dim")], *bars]
    values = picture.values()
    low, high = extremes(values)
    bad = sum(value != value for value in values)
    always = record.delta.bound_kind == "always"
    drawn = heat(
        values,
        (picture.rows, picture.cols),
        width,
        max(height - len(bars) - 2, 1),
        limit=record.delta.bound if always else None,
        colour=colour,
    )
    return [*_caption(picture, low, high, bad, width), *drawn, *bars]


def _caption(picture: HeatMap, low: float, high: float, bad: int, width: int) -> list[Line]:
    whole = f"{count(picture.whole_rows)} x {count(picture.whole_cols)}"
    line: Line = [(f"|delta| of {whole}: ", "label"), (f"{short(low)} to {short(high)}", "")]
    if (picture.rows, picture.cols) != (picture.whole_rows, picture.whole_cols):
        how: Line = [(f"largest of each of {picture.rows} x {picture.cols} fields", "dim")]
    else:
        how = [("each element", "dim")]
    if bad:
        how.append((f", {count(bad)} with NaN", "bad"))
    return [clip(line, width), clip(how, width)]
