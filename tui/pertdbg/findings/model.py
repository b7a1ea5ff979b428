"""What a finding is: a fault that is named, with the call, the evidence and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
"""`error`: the loop does not do what it is for, or it is about to fail. `warning`: it runs, and
a number or a tensor is not what its reader takes it for. `note`: worth knowing."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the most to the least pressing."""

Layer = tuple[str, int]
"""A layer's name and the rank of its process: rules see the records of one of them, in order."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a source file."""

    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class Cause:
    """The finding that another one follows from."""

    kind: str
    call: int

    def __str__(self) -> str:
        """Give it as it stands in JSON: ``kind@call``."""
        return f"{self.kind}@{self.call}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of one layer on one rank, at the first call where it can be seen."""

    kind: str
    """A stable slug, one of `pertdbg.findings.kinds.KINDS`."""
    severity: Severity
    call: int
    id: int
    """Of the record of that call."""
    layer: str
    rank: int
    message: str
    """What is wrong and why it matters, in about two sentences."""
    remedy: str
    """What to change."""
    line: int | None = None
    file: str | None = None
    reason: str | None = None
    """Which of the several ways to come to it; None where a kind has only one."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values by the paths of the fields of the record that prove it, such as
    `gradient.norm`; `previous.` begins a path in the layer's record before."""
    because: Cause | None = None
    """The finding of the same layer and rank that this one is a consequence of."""
    more: int = 0
    """In how many later calls of the layer it can be seen as well."""

    @property
    def page(self) -> str:
        """Name of the page that explains the kind."""
        return f"{self.kind}.md"


def to_json(finding: Finding) -> dict[str, Any]:
    """Turn a finding into plain JSON values, in the form of `pertdbg check --format json`."""
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "call": finding.call,
        "id": finding.id,
        "layer": finding.layer,
        "rank": finding.rank,
        "file": finding.file,
        "line": finding.line,
        "reason": finding.reason,
        "evidence": dict(finding.evidence),
        "message": finding.message,
        "remedy": finding.remedy,
        "because": None if finding.because is None else str(finding.because),
        "more": finding.more,
    }
