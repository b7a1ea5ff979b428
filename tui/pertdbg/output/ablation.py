"""`pertdbg ablate`: the table, the JSON and the answer in words."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Any

from pertdbg.ablation.observed import Raised
from pertdbg.ablation.report import Change, Condition, Report, Result
from pertdbg.ablation.says import says
from pertdbg.guards.model import Guard
from pertdbg.output.safe import printable
from pertdbg.output.words import several

WIDTH = 100
"""Columns of the table and of the text."""

_HEAD = ("without", "line", "what is taken out", "call", "what changes")


def table(report: Report) -> list[str]:
    """Give the table: for each run its guards, the first call that differs and what changes."""
    rows = [row for result in _shown(report) for row in _rows(report, result)]
    widths = [max(len(cells[k]) for cells in [_HEAD, *rows]) for k in range(4)]
    lines = [_title(report), "", *_line(_HEAD, widths)]
    for cells in rows:
        lines += _line(cells, widths)
    lines += ["", *_footer(report)]
    return [printable(line) for line in lines]


def explain(report: Report) -> list[str]:
    """Give the answer in words, in paragraphs of the width of the table."""
    lines: list[str] = []
    for paragraph in says(report):
        wrapped = textwrap.wrap(printable(paragraph), WIDTH, break_long_words=False)
        lines += [*wrapped, ""]
    return lines[:-1]


def as_json(report: Report) -> dict[str, Any]:
    """Give the whole report as JSON values."""
    return {
        "format": 1,
        "target": report.target,
        "title": report.title,
        "calls": report.calls,
        "raised": _raised(report.raised),
        "noise": list(report.noise),
        "guards": [_guard(guard) for guard in report.guards],
        "runs": [_run(result) for result in (*report.singles, *report.pairs)],
        "conditions": [_condition(condition) for condition in report.conditions],
        "sufficient": [list(found) for found in report.sufficient],
        "says": "\n\n".join(says(report)),
    }


def json_lines(report: Report) -> list[str]:
    """Give the JSON as lines to be written."""
    return [json.dumps(as_json(report), indent=2, allow_nan=False)]


def _title(report: Report) -> str:
    ended = "" if report.raised is None else f", ended by {report.raised.type}"
    return f"{report.title} ({several(report.calls, 'call')}{ended})"


def _shown(report: Report) -> Iterable[Result]:
    """All the singles, and the pairs that change what neither guard alone does."""
    quiet = {result.without[0] for result in report.singles if result.same}
    yield from report.singles
    for pair in report.pairs:
        if not pair.same and quiet.issuperset(pair.without):
            yield pair


def _rows(report: Report, result: Result) -> list[tuple[str, ...]]:
    guards = [report.guard(ident) for ident in result.without]
    left = [(guard.id, str(guard.line), guard.text) for guard in guards]
    told = [change for change in result.changes if change.kind != "facts"] or result.changes
    right = [(str(change.call), change.detail) for change in told] or [("-", "nothing")]
    height = max(len(left), len(right))
    left += [("", "", "")] * (height - len(left))
    right += [("", "")] * (height - len(right))
    return [(*a, *b) for a, b in zip(left, right, strict=True)]


def _line(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    start = "".join(f"{cell:{width}}  " for cell, width in zip(cells[:4], widths, strict=True))
    room = max(WIDTH - len(start), 30)
    first, *rest = textwrap.wrap(cells[4], room, break_long_words=False) or [""]
    return [f"{start}{first}".rstrip(), *(f"{'':{len(start)}}{line}" for line in rest)]


def _footer(report: Report) -> list[str]:
    runs = f"{several(report.runs, 'run')} in {report.seconds:.1f} s, each in a process of its own"
    lines = [runs]
    if report.noise:
        lines.append(f"not compared, since two whole runs differ: {', '.join(report.noise)}")
    if not report.paired and report.guards:
        lines.append("--pairs shows which guards cover for each other; --explain says it in words")
    return lines


def _guard(guard: Guard) -> dict[str, Any]:
    names = ("line", "column", "end_line", "end_column")
    place = dict(zip(names, guard.span, strict=True))
    return {
        "id": guard.id,
        "kind": guard.kind,
        "function": guard.function,
        "file": guard.file,
        **place,
        "line": guard.line,
        "text": guard.text,
        "removed": [list(span) for span in guard.removed],
    }


def _run(result: Result) -> dict[str, Any]:
    return {
        "without": list(result.without),
        "same": result.same,
        "first_call": result.first_call,
        "changes": [_change(change) for change in result.changes],
        "raised": _raised(result.raised),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "call": change.call,
        "detail": change.detail,
        "data": _plain(change.data),
    }


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "name": condition.name,
        "with": condition.words,
        "changed": _plain(condition.changed),
        "raised": _raised(condition.raised),
        "runs": [_run(result) for result in condition.results.values()],
    }


def _raised(raised: Raised | None) -> dict[str, Any] | None:
    if raised is None:
        return None
    return {
        "type": raised.type,
        "message": raised.message,
        "call": raised.call,
        "line": raised.line,
        "file": raised.file,
        "during": raised.during,
    }


def _plain(value: Any) -> Any:
    """Turn NaN and Inf, which JSON lacks, into text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
