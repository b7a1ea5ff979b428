"""Numbers and names as people read them, in ASCII."""

from __future__ import annotations

import math

from pertdbg.record import CallRecord


def number(value: float | None) -> str:
    """Write a number with three digits; ``NaN``, ``Inf`` and ``-Inf`` where it is not finite."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return f"{value + 0.0:.3g}"  # -0.0 is 0


def share(fraction: float | None) -> str:
    """Write a fraction in per cent; 0 % and 100 % only where it is exactly that."""
    if fraction is None:
        return "-"
    percent = fraction * 100
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.3g} %"


def several(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def role(name: str) -> str:
    """Write the role of a tensor: ``before.perturbed_input`` is the perturbed input at entry."""
    plain = name.removeprefix("before.").replace("_", " ")
    return f"{plain} at entry" if name.startswith("before.") else plain


def type_name(dtype: str) -> str:
    """Write a dtype without its module."""
    return dtype.removeprefix("torch.")


def why(record: CallRecord, *fields: str) -> str:
    """Say why the first of some fields that has a reason is unknown."""
    reasons = (record.reason(field) for field in fields)
    return next((reason for reason in reasons if reason is not None), "it was not recorded")
