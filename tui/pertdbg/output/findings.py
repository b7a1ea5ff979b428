"""Findings as plain text, as JSON, and as annotations of a workflow on GitHub."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pertdbg.findings.model import Finding, to_json
from pertdbg.findings.report import Report
from pertdbg.output.safe import printable
from pertdbg.output.words import several

WIDTH = 79

_INDENT = "  "
_GITHUB = {"error": "error", "warning": "warning", "note": "notice"}


def as_text(report: Report) -> list[str]:
    """Give the findings in lines, each consequence under its cause."""
    lines = [*_wrapped(_headline(report))]
    for finding in report.findings:
        if cause_of(finding, report.findings) is None:
            lines += ["", *_with_consequences(finding, report.findings, 0)]
    lines += _expected(report)
    lines += [line for text in report.problems for line in ["", *_wrapped(text)]]
    return lines


def as_json(report: Report) -> list[str]:
    """Give the report as JSON."""
    return json.dumps(
        {
            "format": 1,
            "target": report.target,
            "exit_status": report.exit_status,
            "calls": report.calls,
            "findings": [to_json(finding) for finding in report.findings],
            "expect": [
                {"text": outcome.text, "met": outcome.met} for outcome in report.outcomes or ()
            ],
            "problems": report.problems,
        },
        indent=2,
        allow_nan=False,
    ).splitlines()


def as_github(report: Report) -> list[str]:
    """Give a workflow command of GitHub Actions for each finding, on its line of its file."""
    lines = []
    for finding in report.findings:
        place = {"file": shown_path(finding.file), "line": finding.line}
        properties = {k: v for k, v in place.items() if v}
        properties["title"] = f"{_slug(finding)} at {_where(finding)}"
        given = ",".join(f"{k}={_escaped(str(v), ':,')}" for k, v in properties.items())
        text = _escaped(printable(f"{finding.message} {finding.remedy}"))
        lines.append(f"::{_GITHUB[finding.severity]} {given}::{text}")
    unmet = [outcome.text for outcome in report.outcomes or () if not outcome.met]
    rest = {"error title=expected": unmet, "warning title=not checked": report.problems}
    for head, texts in rest.items():
        lines += [f"::{head}::{_escaped(printable(text))}" for text in texts]
    return lines


def one_text(finding: Finding, findings: Sequence[Finding]) -> list[str]:
    """Give a finding and its consequences in lines."""
    return list(_with_consequences(finding, findings, 0))


def cause_of(finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Find the finding that another is a consequence of."""
    if finding.because is None:
        return None
    key = (finding.because.kind, finding.because.call, finding.layer, finding.rank)
    same = (one for one in findings if (one.kind, one.call, one.layer, one.rank) == key)
    return next(same, None)


def shown_path(file: str | None) -> str | None:
    """Give a path as from the current folder, where it lies in there."""
    if file is None:
        return None
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def _headline(report: Report) -> str:
    status = report.exit_status
    ended = "" if status is None else f", exit status {status}"
    calls = several(report.calls, "call")
    found = report.findings
    if not found:
        return f"{report.target}: {calls}{ended}: nothing found"
    counts = [
        several(n, word)
        for word in ("error", "warning", "note")
        if (n := sum(finding.severity == word for finding in found))
    ]
    return f"{report.target}: {calls}{ended}: {', '.join(counts)}"


def _with_consequences(finding: Finding, findings: Sequence[Finding], depth: int) -> Iterator[str]:
    yield from _one(finding, _INDENT * depth)
    below = [one for one in findings if cause_of(one, findings) is finding]
    for one in below:
        yield f"{_INDENT * (depth + 1)}therefore"
        yield from _with_consequences(one, findings, depth + 1)


def _one(finding: Finding, indent: str) -> Iterator[str]:
    place = f"  {shown_path(finding.file)}:{finding.line}" if finding.file else ""
    head = f"{finding.severity:7}  {_slug(finding)}  {_where(finding)}{place}"
    yield from _wrapped(head, indent, hang=9)
    yield from _wrapped(finding.message, f"{indent}  ")
    label = "evidence"
    for path, value in finding.evidence.items():
        text = f"{label:8}  {path} = {_said(value)}"
        yield from _wrapped(text, f"{indent}  ", hang=10)
        label = ""
    yield from _wrapped(f"{'remedy':8}  {finding.remedy}", f"{indent}  ", hang=10)
    if finding.more:
        yield from _wrapped(f"{'also':8}  in {several(finding.more, 'later call')}", f"{indent}  ")
    yield from _wrapped(f"{'page':8}  pertdbg check --explain {finding.kind}", f"{indent}  ")


def _slug(finding: Finding) -> str:
    return finding.kind if finding.reason is None else f"{finding.kind} ({finding.reason})"


def _where(finding: Finding) -> str:
    rank = f", rank {finding.rank}" if finding.rank else ""
    return f"call {finding.call} of layer {finding.layer}{rank}"


def _said(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _expected(report: Report) -> list[str]:
    if report.outcomes is None:
        return []
    unmet = [outcome for outcome in report.outcomes if not outcome.met]
    count = several(len(report.outcomes), "expectation")
    if not unmet:
        return ["", *_wrapped(f"observed as expected: {count} of the scenario met")]
    lines = ["", f"{len(unmet)} of {count} of the scenario not met"]
    for outcome in unmet:
        lines += _wrapped(outcome.text, "  ", hang=2)
    return lines


def _wrapped(text: str, indent: str = "", hang: int = 0) -> list[str]:
    return textwrap.wrap(
        printable(text),
        max(WIDTH, len(indent) + 40),
        initial_indent=indent,
        subsequent_indent=indent + " " * hang,
        break_on_hyphens=False,
    )


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
