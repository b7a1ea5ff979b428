"""Why the tensors of a call are not in the recording."""

from __future__ import annotations

from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording.budget import words
from pertdbg.recording.reader import Recording
from pertdbg.recording.retention import TensorPolicy


def why_not_stored(recording: Recording | None, record: CallRecord | None) -> str:
    """Say it of a call of which tensors might have been expected; else give nothing."""
    if recording is None or record is None:
        return ""
    meta = recording.meta
    try:
        policy = TensorPolicy.parse(meta.tensors)
    except PertdbgError:  # no words of ours
        return ""
    if policy.kind == "last":
        return "tensors are kept of the last calls only"
    if policy.wants(record.call) and (meta.tensors_dropped or meta.tensors_left_out):
        size = f" of {words(meta.tensor_budget)}" if meta.tensor_budget > 0 else ""
        return f"this call's tensors were dropped: the budget{size} is used up"
    return ""
