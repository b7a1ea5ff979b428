"""Looks closer at a finding where the recording holds the tensors of its call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pertdbg.findings.model import Finding
from pertdbg.output.words import number
from pertdbg.recording.reader import Recording
from pertdbg.recording.safeopen import DamagedRecording
from pertdbg.recording.stored import StoredTensor

_ROLES = {
    ("grad-nonfinite", "elements"): "gradient",
    ("grad-nonfinite", "norm-overflow"): "gradient",
    ("delta-nonfinite", None): "delta",
}
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

    def values(self) -> dict[str, list[int]]:
        """Give what proves it."""
        return {"first": list(self.first), "rows": self.rows}

    def said(self) -> str:
        """Say it."""
        where = f"The first is at {list(self.first)}"
        if self.affected == self.of:
            return f"{where}; every row has one."
        more = ", ..." if self.affected > len(self.rows) else ""
        named = ", ".join(map(str, self.rows)) + more
        return f"{where}; of {self.of:,} rows these have one: {named}."


@dataclass(frozen=True, slots=True)
class _Largest:
    """The row of a finite tensor that does most for its norm."""

    row: int
    norm: float
    of: int

    def values(self) -> dict[str, float]:
        """Give what proves it."""
        return {"largest_row": self.row, "norm_of_row": self.norm}

    def said(self) -> str:
        """Say it."""
        return f"Of {self.of:,} rows, row {self.row} has the largest norm, {number(self.norm)}."


def with_details(finding: Finding, recording: Recording) -> Finding:
    """Say which element and which rows are not finite, or largest, where the tensor is stored."""
    role = _ROLES.get((finding.kind, finding.reason))
    tensor = None if role is None else recording.tensor(finding.id, role)
    if tensor is None or not 0 < tensor.count <= _MOST:
        return finding
    try:
        seen = _largest(tensor) if finding.reason == "norm-overflow" else _look(tensor)
    except (DamagedRecording, ValueError):
        return finding
    if seen is None:
        return finding
    evidence = {f"stored.{role}.{name}": value for name, value in seen.values().items()}
    return replace(
        finding,
        message=f"{finding.message} {seen.said()}",
        evidence={**finding.evidence, **evidence},
    )


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


def _largest(tensor: StoredTensor) -> _Largest | None:
    width = tensor.shape[-1] if tensor.shape else 1
    squares = [0.0] * (tensor.count // width)
    for start in range(0, tensor.count, _PIECE):
        for k, value in enumerate(tensor.values(start, start + _PIECE), start):
            size = abs(value)
            squares[k // width] += size * size
    norm = math.sqrt(max(squares))
    row = squares.index(max(squares))
    return _Largest(row, norm, len(squares)) if math.isfinite(norm) else None


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
