"""Findings panel: what is wrong, what proves it, what to change; and the evidence for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pertdbg.app.lines import Line, clip, wrap
from pertdbg.app.numbers import count
from pertdbg.findings.model import Finding
from pertdbg.output.safe import printable
from pertdbg.output.words import number

_STYLES = {"error": "bad", "warning": "warn", "note": "note"}
_PANELS = {
    "gradient": ("gradient.", "update.", "previous.gradient."),
    "delta": ("delta.", "effect.", "previous.delta.", "previous.effect."),
    "leaf": ("tensors.", "backward_reaches.", "graph.", "between."),
    "storage": ("storages.", "shared"),
}
"""Beginnings of the paths that a panel speaks of."""


def findings(found: Sequence[Finding], at: int, looked_at: str, width: int) -> list[Line]:
    """Write the panel: those of the call in full, then all others in a line each.

    Args:
        found: What was found so far.
        at: Id of the call under the cursor.
        looked_at: What is to be said of how far the recording was looked at.
        width: Cells across.
    """
    lines: list[Line] = []
    here = [finding for finding in found if finding.id == at]
    for finding in here:
        lines += [*_full(finding, width), []]
    others = [finding for finding in found if finding.id != at]
    if others:
        lines.append([("f and F go to them", "dim")] if not here else [("elsewhere", "head")])
        lines += [clip(_short(finding), width) for finding in others]
    if not found and not looked_at:
        lines += wrap("nothing is found", width, "ok")
    return lines + (wrap(printable(looked_at), width, "dim") if looked_at else [])


def evidence(
    found: Sequence[Finding], panel: str, width: int, *, short: bool = False
) -> list[Line]:
    """Write the fields that prove the findings of a call and belong to a panel.

    Args:
        found: The findings.
        panel: Name of the panel.
        width: Cells across.
        short: One line for each finding, not for each field.
    """
    lines: list[Line] = []
    seen: set[str] = set()
    for finding in found:
        texts = [
            f"{path} = {_value(value)}"
            for path, value in finding.evidence.items()
            if path.startswith(_PANELS.get(panel, ("\0",)))
        ]
        new = [text for text in texts if text not in seen]
        seen.update(new)
        mark, kind = ("! ", _STYLES[finding.severity]), finding.kind
        if short and new:
            all_ = ", ".join(text.removeprefix(f"{panel}.") for text in new)
            lines.append(clip([mark, (f"{kind}  ", "dim"), (printable(all_), "changed")], width))
        else:
            behind = (f"  {kind}", "dim")
            lines += [clip([mark, (printable(t), "changed"), behind], width) for t in new]
    return lines


def _full(finding: Finding, width: int) -> Iterator[Line]:
    style = _STYLES[finding.severity]
    reason = "" if finding.reason is None else f" ({finding.reason})"
    yield from wrap(printable(f"{finding.kind}{reason}"), width, style)
    if finding.because is not None:
        yield from wrap(
            f"a consequence of {finding.because.kind} at call {count(finding.because.call)}",
            width,
            "dim",
        )
    yield from wrap(printable(finding.message), width)
    for path, value in finding.evidence.items():
        yield clip([("  ", ""), (printable(f"{path} = {_value(value)}"), "changed")], width)
    yield from wrap(printable(finding.remedy), width, "ok")
    if finding.more:
        yield from wrap(f"seen in {count(finding.more)} later calls as well", width, "dim")
    yield from wrap(f"pertdbg check --explain {finding.kind}", width, "dim")


def _short(finding: Finding) -> Line:
    indent = "  therefore " if finding.because is not None else ""
    reason = "" if finding.reason is None else f" ({finding.reason})"
    more = f"  and {count(finding.more)} more" if finding.more else ""
    return [
        (f"call {count(finding.call):>5}  ", "strong"),
        (indent, "dim"),
        (f"{finding.kind}{reason}", _STYLES[finding.severity]),
        (f"  {printable(finding.layer)}{more}", "dim"),
    ]


def _value(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
