"""Delta panel: its bound, how it moved, and how much of the step arrived."""

from __future__ import annotations

from pertdbg.app.lines import Line
from pertdbg.app.numbers import count
from pertdbg.app.panels.facts import Fact, facts, verdict
from pertdbg.app.plot import bars
from pertdbg.output import verdict as words
from pertdbg.output.words import number, share
from pertdbg.record import CallRecord

_ROOMY = 10
"""Lines from which the panel says why there is no histogram."""

_TALLEST = 12


def delta(record: CallRecord, width: int, height: int) -> list[Line]:
    """Draw the panel: verdict, numbers, and the histogram where there is room for it."""
    lines = verdict(words.delta(record), width)
    lines += facts(record, _facts(record), width)
    room = height - len(lines)
    drawn = histogram(record, width, min(room, _TALLEST)) if room >= 2 else []
    if drawn or height < _ROOMY:
        return lines + drawn
    return [*lines, [("histogram: not recorded at this call", "dim")]]


def histogram(record: CallRecord, width: int, height: int) -> list[Line]:
    """Draw the histogram of delta with its bound marked; nothing where none was recorded."""
    found = record.delta
    if found.histogram is None or found.histogram_range is None:
        return []
    bound = [] if found.bound is None else [-found.bound, found.bound]
    return bars(found.histogram, found.histogram_range, bound, width, height)


def _facts(record: CallRecord) -> list[Fact]:
    found, effect = record.delta, record.effect
    bad = bool(found.nan or found.inf)
    return [
        *([_count(record, "nan"), _count(record, "inf")] if bad else []),
        _number(record, "min"),
        _number(record, "max"),
        _number(record, "moved_max", "moved"),
        Fact("changed", "effect.changed_fraction", *_share(effect.changed_fraction)),
        Fact("visible", "effect.visible_fraction", *_share(effect.visible_fraction)),
        Fact("cosine", "effect.cosine", effect.cosine, number(effect.cosine)),
        _number(record, "bound", "bound"),
        _count(record, "beyond"),
        _count(record, "at_bound", "at bound"),
        *([] if found.bound_norm is None else _norms(record)),
        Fact("moved in", "delta.moved_fraction", *_share(found.moved_fraction)),
        _number(record, "mean"),
        _number(record, "std"),
        _number(record, "norm"),
        Fact("gap", "effect.gap_max", effect.gap_max, number(effect.gap_max)),
    ]


def _number(record: CallRecord, name: str, label: str = "") -> Fact:
    value = getattr(record.delta, name)
    return Fact(label or name, f"delta.{name}", value, number(value))


def _norms(record: CallRecord) -> list[Fact]:
    """Give the limit of an L2 norm, and the largest norm beside it."""
    return [_number(record, "bound_norm", "L2 bound"), _number(record, "norm_max", "L2 max")]


def _count(record: CallRecord, name: str, label: str = "") -> Fact:
    value = getattr(record.delta, name)
    style = "bad" if name in ("nan", "inf") and value else ""
    return Fact(label or name, f"delta.{name}", value, count(value), style)


def _share(value: float | None) -> tuple[float | None, str]:
    return value, share(value)
