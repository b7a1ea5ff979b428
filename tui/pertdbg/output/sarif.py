"""Findings as SARIF 2.1.0, the form in which code scanners report (an OASIS standard)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pertdbg.findings.kinds import KINDS, Kind
from pertdbg.findings.model import Finding, Severity
from pertdbg.findings.pages import page
from pertdbg.findings.report import Report
from pertdbg.recording.meta import own_version

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "note"}


def as_sarif(report: Report) -> list[str]:
    """Give the report as one run of a SARIF log."""
    kinds = sorted({finding.kind for finding in report.findings})
    driver = {
        "name": "pertdbg",
        "version": own_version(),
        "rules": [_rule(KINDS[kind]) for kind in kinds],
    }
    failed = report.exit_status not in (0, None)
    invocation: dict[str, Any] = {"executionSuccessful": not failed}
    if report.exit_status is not None:
        invocation["exitCode"] = report.exit_status
    if notes := list(_notes(report)):
        invocation["toolExecutionNotifications"] = notes
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [invocation],
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, kinds) for finding in report.findings],
            }
        ],
    }
    return json.dumps(log, indent=2, allow_nan=False).splitlines()


def _notes(report: Report) -> Iterator[dict[str, Any]]:
    """Give what is no finding: what was not observed as expected, and what could not be checked."""
    unmet = [f"expected: {one.text}" for one in report.outcomes or () if not one.met]
    for level, texts in (("error", unmet), ("warning", report.problems)):
        yield from ({"level": level, "message": {"text": text}} for text in texts)


def _rule(kind: Kind) -> dict[str, Any]:
    text = page(kind.slug)
    return {
        "id": kind.slug,
        "shortDescription": {"text": f"{kind.title[:1].upper()}{kind.title[1:]}."},
        "help": {"text": text, "markdown": text},
        "defaultConfiguration": {"level": _LEVELS[kind.severity]},
    }


def _result(finding: Finding, kinds: list[str]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": f"{finding.layer}, call {finding.call}"}]
    }
    if finding.file is not None:
        location["physicalLocation"] = _physical(finding.file, finding.line)
    return {
        "ruleId": finding.kind,
        "ruleIndex": kinds.index(finding.kind),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message} {finding.remedy}"},
        "locations": [location],
        "partialFingerprints": {
            "pertdbg/v1": f"{finding.kind}:{finding.reason}:{finding.layer}:{finding.rank}"
        },
        "properties": {
            "call": finding.call,
            "id": finding.id,
            "layer": finding.layer,
            "rank": finding.rank,
            "reason": finding.reason,
            "because": None if finding.because is None else str(finding.because),
            "evidence": dict(finding.evidence),
        },
    }


def _physical(file: str, line: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if line is not None and line > 0:
        place["region"] = {"startLine": line}
    return place


def _uri(file: str) -> str:
    """Give a path as a URI: relative to the current folder where it lies in there."""
    path = Path(file)
    try:
        return quote(os.fsencode(path.relative_to(Path.cwd())))
    except (ValueError, OSError):
        return path.as_uri() if path.is_absolute() else quote(os.fsencode(path))
