"""Reads what tells records apart for the rules, without building the records.

Of a million calls nearly all are like others that the rules have seen. What they see of a record
is summed up in a signature (see `rule`), which one plain question to the file gives for many
records at once. The checksums of these rows are not looked at: each record that a rule is shown is
built and checked, and `pertdbg verify` looks at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import eq
from typing import Any, NamedTuple

from pertdbg.findings.rule import RULES
from pertdbg.recording.columns import CALL, DETAILS, GRAPHS, ROLES, TEXTS
from pertdbg.recording.reader import Recording
from pertdbg.recording.safeopen import DamagedRecording

_BLOCK = 2048
_HELD = ("delta", "input", "perturbed_input")
"""Roles at entry that are compared with what the record before left in them."""

_NAMES = {column.path: column.name for column in CALL}


class Seen(NamedTuple):
    """What is read of a record."""

    id: int
    layer: int
    created: bool
    signature: tuple[Any, ...]


Left = dict[int, tuple[Any, ...]]
"""What the last record of each layer, by its number, left in the roles."""


def screened(recording: Recording, lo: int, hi: int, last: Left | None = None) -> Iterator[Seen]:
    """Give what is read of the records lo to hi, both included, in order, without damaged ones.

    Args:
        recording: The recording.
        lo: Id of the first.
        hi: Id of the last.
        last: What the records before left; kept up for those that follow.
    """
    question = _question()
    last = {} if last is None else last
    for first in range(lo, hi + 1, _BLOCK):
        for row in _rows(recording, question, first, min(first + _BLOCK - 1, hi)):
            ident, layer, created, *_ = row
            left = row[_LEFT]
            before = last.get(layer)
            last[layer] = left
            signature = (row[_REST], _compared(row[_FOUND], before, left))
            yield Seen(ident, layer, bool(created), signature)


def _rows(recording: Recording, question: str, lo: int, hi: int) -> list[tuple[Any, ...]]:
    try:
        return recording.ask(question, (lo, hi))
    except DamagedRecording:
        if lo == hi:
            return []
        middle = (lo + hi) // 2
        return [
            *_rows(recording, question, lo, middle),
            *_rows(recording, question, middle + 1, hi),
        ]


def _compared(
    found: tuple[Any, ...], before: tuple[Any, ...] | None, left: tuple[Any, ...]
) -> tuple[bool, ...]:
    """Say how what is found at entry compares with what the record before left, and its graphs."""
    if before is None:
        return ()
    held, deep, depths = before[:_PAIRS], before[_PAIRS:], left[_PAIRS:]
    same = _ALL_SAME if found == held else tuple(map(eq, found, held))
    return same if depths == deep else same + tuple(map(_deeper, depths, deep))


def _deeper(now: int | None, then: int | None) -> bool:
    return now is not None and then is not None and now > then


def _question() -> str:
    parts = [*_HEAD, *_found("before"), *_found("after"), *_DEPTHS, *_rest()]
    return f"SELECT {', '.join(parts)} FROM call WHERE id BETWEEN ? AND ?"  # noqa: S608 - own words


def _found(when: str) -> list[str]:
    return [f"{when}_{role}_{fact}" for role in _HELD for fact in ("data_ptr", "version")]


def _rest() -> list[str]:
    interned = [_NAMES[f"tensors.{role}"] for role in ROLES] + list(DETAILS)
    within = [
        f"coalesce(after_{role}_{fact} > before_{role}_{fact}, -1)"
        for role in _HELD
        for fact in ("data_ptr", "version")
    ]
    flags = sorted({flag for rule in RULES for flag in rule.flags})
    return [*interned, *_SCALARS, *within, *[f"coalesce({flag}, 0)" for flag in flags]]


_HEAD = ("id", "layer", "update_created")
_DEPTHS = tuple(_NAMES[f"graph.{which}.depth"] for which in GRAPHS)
_SCALARS = (
    *("rank", "update_created", "update_returned", "update_returned_type"),
    *("update_raised_type", "gradient_present", "gradient_backwards"),
    *[column.name for column in TEXTS],
)
_PAIRS = 2 * len(_HELD)
_ALL_SAME = (True,) * _PAIRS
_FOUND = slice(len(_HEAD), len(_HEAD) + _PAIRS)
_LEFT = slice(_FOUND.stop, _FOUND.stop + _PAIRS + len(_DEPTHS))
_REST = slice(_LEFT.stop, None)
