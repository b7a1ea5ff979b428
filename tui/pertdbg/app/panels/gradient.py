"""Gradient panel: is there one, is it finite, how large, and how it went over the calls."""

from __future__ import annotations

from pertdbg.app.lines import Line
from pertdbg.app.numbers import count
from pertdbg.app.panels.facts import Fact, facts, verdict
from pertdbg.app.plot import curve
from pertdbg.output import verdict as words
from pertdbg.output.words import number, share
from pertdbg.record import CallRecord
from pertdbg.recording.series import Series

SERIES = "gradient.norm"
"""The fact whose course the panel draws."""

_TALLEST = 12


def gradient(
    record: CallRecord, series: Series | None, at: int | None, width: int, height: int
) -> list[Line]:
    """Draw the panel.

    Args:
        record: The call under the cursor.
        series: The gradient's norm over the calls.
        at: Point of the series under the cursor.
        width: Cells across.
        height: Lines; what does not fit comes last.
    """
    lines = verdict(words.gradient(record), width)
    lines += facts(record, _facts(record), width)
    room = height - len(lines)
    if series is not None and room >= 1:
        rows = min(room, _TALLEST)
        lines += curve(series.low, series.high, series.bad, width, rows, at)
    return lines


def _facts(record: CallRecord) -> list[Fact]:
    found, returned = record.gradient, record.update.returned
    raised = record.update.raised
    answer = f"raised {raised.type}" if raised is not None else str(returned)
    refused = raised is not None or returned is False
    outcome = Fact("returned", "update.returned", answer, answer, "bad" if refused else "")
    if not found.present:
        return [outcome, _fact("backwards", found.backwards, count(found.backwards))]
    return [
        _fact("norm", found.norm, number(found.norm)),
        _fact("norm_in_dtype", found.norm_in_dtype, number(found.norm_in_dtype), "in dtype"),
        _fact("max_abs", found.max_abs, number(found.max_abs), "max|g|"),
        Fact("NaN, Inf", "gradient.nan", found.nan, _bad(found.nan, found.inf), _style(record)),
        _fact("zero_fraction", found.zero_fraction, share(found.zero_fraction), "zero"),
        _fact("guard_fraction", found.guard_fraction, share(found.guard_fraction), "guard"),
        outcome,
    ]


def _fact(name: str, value: float | None, text: str, label: str = "") -> Fact:
    return Fact(label or name, f"gradient.{name}", value, text)


def _bad(nan: int | None, inf: int | None) -> str:
    return f"{count(nan)}, {count(inf)}"


def _style(record: CallRecord) -> str:
    return "bad" if record.gradient.nan or record.gradient.inf else ""
