"""How the records of two calls differ, fact by fact.

Addresses mean nothing from run to run, so that what is compared is who shares storage with whom:
the labels of storages are given in first-seen order. Ids, times, ranks and the folder of the
calling file may differ too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from pertdbg.record import CallRecord

TOLERANCE = 1e-5
"""Relative difference from which on two real numbers are told apart, unless another is given."""

Kind = Literal["bits", "tolerance", "value"]
"""`bits`: the numbers are equal within the tolerance; `tolerance`: they are not; `value`: other
things than real numbers, or one of them is missing, NaN or infinite."""

_APART = {"id", "call", "layer", "rank", "time", "data_ptr", "address"}
_PARTS = tuple(field.name for field in dataclasses.fields(CallRecord) if field.name not in _APART)


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that differs."""

    fact: str
    """Its dotted name."""
    a: Any
    b: Any
    kind: Kind

    @property
    def size(self) -> float | None:
        """|a - b| of two finite numbers; None of anything else."""
        if _is_number(self.a) and _is_number(self.b):
            size = abs(self.a - self.b)
            return size if math.isfinite(size) else None
        return None


def differences(a: CallRecord, b: CallRecord, tolerance: float = TOLERANCE) -> list[Difference]:
    """Compare the records of two calls.

    Args:
        a: One.
        b: The other.
        tolerance: Relative difference of real numbers that is called `bits` at most.

    Returns:
        What differs, in the order of a record's fields.
    """
    found: list[Difference] = []
    for part in _PARTS:
        one, other = getattr(a, part), getattr(b, part)
        if one is not other and one != other:
            found += _compare(dict(_flat(part, one)), dict(_flat(part, other)), tolerance)
    return found


def _compare(a: dict[str, Any], b: dict[str, Any], tolerance: float) -> Iterator[Difference]:
    for fact in dict.fromkeys([*a, *b]):
        one, other = a.get(fact), b.get(fact)
        if one != other and not (one != one and other != other):
            yield Difference(fact, one, other, _kind(one, other, tolerance))


def _kind(a: Any, b: Any, tolerance: float) -> Kind:
    if not (isinstance(a, float) and isinstance(b, float) and math.isfinite(a - b)):
        return "value"
    return "bits" if math.isclose(a, b, rel_tol=tolerance) else "tolerance"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Give the single values of a part with their paths; addresses are left out."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in _APART:
                yield from _flat(f"{path}.{field.name}", getattr(value, field.name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{path}.{key}", item)
    elif path == "unknown":
        for unknown in value:
            yield f"unknown.{unknown.field}", unknown.reason
    elif path == "caller.file":
        yield path, PurePath(value).name
    else:
        yield path, value
