"""Looks closer at a finding where the recording holds the tensors of its call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pertdbg.findings.model import Finding
from pertdbg.recording.reader import Recording
from pertdbg.recording.safeopen import DamagedRecording
from pertdbg.recording.stored import StoredTensor

_ROLES = {("grad-nonfinite", "elements"): "gradient", ("delta-nonfinite", None): "delta"}
_MOST = 1 << 24
"""Elements of the largest tensor that is gone through."""

_PIECE = 1 << 16
_NAMED = 8
"""Most rows that are named."""


@dataclass(frozen=True, slots=True)
class _Bad:
    """Where a tensor is not finite."""

    first: tuple[int, ...]
    """Index of the first such element."""
    rows: list[int]
    """The first rows (all dimensions but the last, counted on) that have one."""
    affected: int
    of: int


def with_details(finding: Finding, recording: Recording) -> Finding:
    """Say which element and which rows are not finite, where the tensor is stored."""
    role = _ROLES.get((finding.kind, finding.reason))
    tensor = None if role is None else recording.tensor(finding.id, role)
    if tensor is None or not 0 < tensor.count <= _MOST:
        return finding
    try:
        bad = _look(tensor)
    except (DamagedRecording, ValueError):
        return finding
    if bad is None:
        return finding
    evidence = {
        **finding.evidence,
        f"stored.{role}.first": list(bad.first),
        f"stored.{role}.rows": bad.rows,
    }
    return replace(finding, message=f"{finding.message} {_said(bad)}", evidence=evidence)


def _look(tensor: StoredTensor) -> _Bad | None:
    width = tensor.shape[-1] if tensor.shape else 1
    first, affected, rows, last = -1, 0, [], -1
    for place in _places(tensor):
        first = place if first < 0 else first
        row = place // width
        if row != last:
            last, affected = row, affected + 1
            if affected <= _NAMED:
                rows.append(row)
    if first < 0:
        return None
    return _Bad(_index(first, tensor.shape), rows, affected, tensor.count // width)


def _places(tensor: StoredTensor) -> Iterator[int]:
    for start in range(0, tensor.count, _PIECE):
        values = tensor.values(start, start + _PIECE)
        for k, value in enumerate(values, start):
            if isinstance(value, float) and not math.isfinite(value):
                yield k


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        place, at = divmod(place, size)
        index.append(at)
    return tuple(reversed(index))


def _said(bad: _Bad) -> str:
    where = f"The first is at {list(bad.first)}"
    if bad.affected == bad.of:
        return f"{where}; every row has one."
    named = ", ".join(map(str, bad.rows)) + (", ..." if bad.affected > len(bad.rows) else "")
    return f"{where}; of {bad.of:,} rows these have one: {named}."
