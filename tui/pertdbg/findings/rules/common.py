"""What several rules ask of a record."""

from __future__ import annotations

import math

from pertdbg.output.words import type_name
from pertdbg.record import CallRecord, Raised, TensorFacts

UNITS = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
"""Unit roundoff of a dtype: half the spacing of its numbers at 1."""


def unit(facts: TensorFacts | None) -> float:
    """Give the unit roundoff of a tensor's dtype; float8 and its like count as 2**-3."""
    if facts is None:
        return UNITS["float32"]
    return UNITS.get(type_name(facts.dtype), 2.0**-3)


def missed_none(raised: Raised | None) -> bool:
    """Say whether an exception is what Python raises where None stands for a tensor."""
    if raised is None or raised.type not in ("AttributeError", "TypeError"):
        return False
    return "NoneType" in raised.message


def finite(value: float | None) -> bool:
    """Say whether a number is known and finite."""
    return value is not None and math.isfinite(value)


def same_tensor(one: TensorFacts | None, other: TensorFacts | None) -> bool:
    """Say whether two sights, with no other call between them, can be of the same tensor.

    An address alone proves nothing across calls, since allocators use them again; here it is
    asked of a tensor that was held in between.
    """
    if one is None or other is None or one.data_ptr is None:
        return False
    return (one.data_ptr, one.shape, one.dtype) == (other.data_ptr, other.shape, other.dtype)


def numel(facts: TensorFacts | None) -> int:
    """Give the number of elements of a tensor."""
    return 0 if facts is None else math.prod(facts.shape)


def moved(record: CallRecord) -> bool | None:
    """Say whether delta moved in the call; None where that is not known."""
    share = record.delta.moved_fraction
    return None if share is None else share > 0


def untouched(record: CallRecord) -> bool:
    """Say whether delta is the same tensor at exit as at entry, and was not written to."""
    before, after = record.tensors.before.delta, record.tensors.after.delta
    if before is None or after is None or not same_tensor(before, after):
        return False
    return before.version == after.version
