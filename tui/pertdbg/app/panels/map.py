"""Map of |delta| with the histogram under it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pertdbg.app.lines import Line, clip, wrap
from pertdbg.app.numbers import count, short
from pertdbg.app.panels.delta import histogram
from pertdbg.app.panels.values import title
from pertdbg.app.plot import extremes, heat
from pertdbg.output.safe import printable
from pertdbg.output.words import role, share
from pertdbg.record import CallRecord
from pertdbg.recording.parts import HeatMap
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.tensormap import Sketch

_KEYS = "t next tensor  v values"

_BARS = 5
"""Lines of the histogram and its axis."""


HOW_TO_STORE = (
    "`--tensors all` (or every:N, last) stores whole tensors; v does where a target is stopped"
)


def stored(
    tensor: StoredTensor, sketch: Sketch, width: int, height: int, *, colour: bool
) -> list[Line]:
    """Draw the panel of a stored tensor.

    Args:
        tensor: What is shown.
        sketch: Its map, as far as it is.
        width: Cells across.
        height: Lines.
        colour: Whether colours can be told apart.
    """
    head = [clip([(title(tensor), "strong")], width), clip([(_KEYS, "dim")], width)]
    return [*head, *sketched(sketch, width, height - 2, colour=colour)]


def sketched(sketch: Sketch, width: int, height: int, *, colour: bool) -> list[Line]:
    """Draw a map that is being made, and say how much of the tensor it knows."""
    picture = sketch.picture()
    if picture is None:
        return wrap("it has no elements", width, "dim")
    name = "sizes" if sketch.done else f"sizes so far ({share(sketch.share)} read)"
    return _drawn(name, picture, width, height, None, colour=colour)


def not_stored(
    name: str, others: Sequence[str], why: str, near: int | None, width: int
) -> list[Line]:
    """Say that a tensor is not stored of this call, why, and where there is one."""
    lines = wrap(f"{printable(role(name))}: not stored of this call", width, "note")
    if why and not others:
        lines += wrap(why, width)
    if others:
        lines += wrap(f"stored are: {', '.join(printable(role(o)) for o in others)} (t)", width)
    elif near is not None:
        lines += wrap(f"tensors of record #{count(near)} are stored (g #{near})", width)
    else:
        lines += wrap(HOW_TO_STORE, width, "dim")
    return lines


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
        missing = wrap(f"map: not recorded at this call; {HOW_TO_STORE}", width, "dim")
        return [*missing, *bars]
    limit = record.delta.bound if record.delta.bound_kind == "always" else None
    room = height - len(bars)
    whole = f"|delta| of {count(picture.whole_rows)} x {count(picture.whole_cols)}"
    return [*_drawn(whole, picture, width, room, limit, colour=colour), *bars]


def _drawn(
    name: str, picture: HeatMap, width: int, height: int, limit: float | None, *, colour: bool
) -> list[Line]:
    values = picture.values()
    low, high = extremes(values)
    bad = sum(value != value for value in values)
    shape, room = (picture.rows, picture.cols), max(height - 2, 1)
    drawn = heat(values, shape, width, room, limit=limit, colour=colour)
    return [*_caption(name, picture, (low, high), bad, width), *drawn]


def _caption(
    name: str, picture: HeatMap, span: tuple[float, float], bad: int, width: int
) -> list[Line]:
    line: Line = [(f"{name}: ", "label"), (f"{short(span[0])} to {short(span[1])}", "")]
    if (picture.rows, picture.cols) != (picture.whole_rows, picture.whole_cols):
        how: Line = [(f"largest of each of {picture.rows} x {picture.cols} fields", "dim")]
    else:
        how = [("each element", "dim")]
    infinite = sum(value == math.inf for value in picture.values())
    for number, what in ((bad, "NaN"), (infinite, "Inf")):
        if number:
            how.append((f", {count(number)} with {what}", "bad"))
    return [clip(line, width), clip(how, width)]
