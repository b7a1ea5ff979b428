"""Memory that changes behind somebody's back: writes past autograd, copies that are none."""

from __future__ import annotations

import re

from pertdbg.findings.rule import Found, Past, rule
from pertdbg.record import CallRecord


@rule("version-bypassed")
def bypassed(call: CallRecord, past: Past) -> Found | None:
    """Between a module's run and the backward, values changed while the version counter did not.

    Source: a write through `.data`, or through memory shared with numpy, is not seen by the check
    that makes autograd raise on other writes
    (https://pytorch.org/docs/stable/notes/autograd.html#in-place-correctness-checks).
    """
    roles = () if call.between is None else call.between.written
    if not roles:
        return None
    names = " and ".join(role.replace("_", " ") for role in roles)
    return Found(
        f"the values of the {names} changed after the forward and before its backward, with a "
        "write that autograd does not see, such as one through .data. The gradient is then that "
        "of no point at all, and nothing raises.",
        evidence=("between.written", "gradient.norm"),
    )


@rule("storage-shared")
def snapshots(call: CallRecord, past: Past) -> Found | None:
    """Something kept delta by its memory, and this call moved it too.

    Looked at are attributes of the layer, or locals of the loop's function, that were there before
    the call and after it, take no gradient and share delta's memory while delta moves in place. A
    name that the update itself writes through is a way to write, not a copy.
    """
    names = () if call.between is None else call.between.snapshots
    source = past.source.source if past.source else None
    kept = [name for name in names if not _is_written(name.partition("[")[0], source)]
    if not kept:
        return None
    return Found(
        f"{', '.join(kept)} shares its memory with delta, and this update moved delta in place: "
        "what was kept of an earlier delta has changed to the present one.",
        evidence=(
            "between.snapshots",
            "tensors.before.delta.version",
            "tensors.after.delta.version",
        ),
    )


def _is_written(name: str, source: str | None) -> bool:
    """Say whether a source writes in place through a name."""
    if source is None:
        return False
    word = rf"(?<![\w]){re.escape(name)}"
    return bool(re.search(rf"{word}(\.\w+_\(|\s*[-+*/@]=|\[[^\]]*\]\s*[-+*/]?=[^=])", source))
