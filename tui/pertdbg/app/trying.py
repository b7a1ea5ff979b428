"""Conditions as they are typed: read, and tried on the call under the cursor."""

from __future__ import annotations

from pertdbg.conditions import Condition
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord


def held(condition: Condition, record: CallRecord | None, previous: CallRecord | None) -> str:
    """Say whether a condition holds at a call, or why that is not known."""
    if record is None:
        return "there is no record here to try it on"
    if not condition.concerns(record):
        return "it is about other calls than this one"
    unknown = condition.expression.why_unknown(record, previous)
    if unknown:
        return f"unknown at this call: {unknown}"
    return "it holds at this call" if condition.holds(record, previous) else "not at this call"


def condition_of(text: str) -> Condition:
    """Read a condition.

    Raises:
        PertdbgError: It is none.
    """
    if not text:
        raise PertdbgError("a condition is needed")
    return Condition.of(text)
