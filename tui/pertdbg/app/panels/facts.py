"""What the panels of facts have in common: verdict first, numbers second, unknowns last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pertdbg.app.lines import Line, Piece, pairs, wrap
from pertdbg.output.safe import printable
from pertdbg.output.verdict import Verdict
from pertdbg.record import CallRecord


@dataclass(frozen=True)
class Fact:
    """A labelled value that may be unknown, or not apply."""

    label: str
    path: str
    """Dotted path in the record, where the reason stands if the value is unknown."""
    value: object
    text: str
    style: str = ""


def verdict(words: Verdict, width: int) -> list[Line]:
    """Write a verdict in the style of its level."""
    return wrap(printable(words.text), width, words.level)


def facts(record: CallRecord, items: Sequence[Fact], width: int) -> list[Line]:
    """Lay facts out in columns; those that are unknown follow, by their reason.

    A fact that does not apply is left out.
    """
    known: list[tuple[str, Piece]] = [
        (item.label, (printable(item.text), item.style)) for item in items if item.value is not None
    ]
    unknown: dict[str, list[str]] = {}
    for item in items:
        reason = record.reason(item.path) if item.value is None else None
        if reason is not None:
            unknown.setdefault(reason, []).append(item.label)
    lines = pairs(known, width)
    for reason, labels in unknown.items():
        lines += wrap(f"{', '.join(labels)}: unknown ({printable(reason)})", width, "dim")
    return lines
