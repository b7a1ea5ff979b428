"""Two records of the same call side by side, what differs marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from pertdbg.app.lines import Line, Piece, clip, cut, padded, table, wrap
from pertdbg.app.numbers import count
from pertdbg.app.versus import Pair
from pertdbg.compare import Difference
from pertdbg.output.safe import printable
from pertdbg.output.text import describe
from pertdbg.output.words import number, several

_HOW = {"bits": "in bits only", "tolerance": "beyond tolerance", "value": ""}


def versus(pair: Pair, names: tuple[str, str], said: str, width: int) -> list[Line]:
    """Draw the page: what differs first, then both records beside each other.

    Args:
        pair: The call in both recordings.
        names: What the recordings are called.
        said: What is known of the whole comparison.
        width: Cells across.
    """
    lines = _verdict(pair, names, width)
    if said:
        lines += wrap(printable(said), width, "dim")
    if pair.found:
        lines += [[], *_differences(pair.found, names, width)]
    if pair.a is not None or pair.b is not None:
        one, other = ([] if record is None else describe(record) for record in (pair.a, pair.b))
        lines += [[], *_beside(one, other, names, width)]
    return lines


def _verdict(pair: Pair, names: tuple[str, str], width: int) -> list[Line]:
    if pair.problem:
        return wrap(printable(pair.problem), width, "warn")
    there = pair.a or pair.b
    if there is None:
        return wrap("there is no call", width, "dim")
    call = f"call {count(there.call)} of {printable(there.layer)}"
    if pair.a is None or pair.b is None:
        lacking = names[0] if pair.a is None else names[1]
        return wrap(f"{call}: not in {printable(lacking)}", width, "warn")
    if not pair.found:
        return wrap(f"{call}: no fact differs in a bit", width, "ok")
    beyond = any(found.kind != "bits" for found in pair.found)
    style = "bad" if beyond else "note"
    first = printable(pair.found[0].fact)
    many = several(len(pair.found), "fact")
    return wrap(
        f"{call}: {many} differ{'s' if len(pair.found) == 1 else ''}, {first} first", width, style
    )


def _differences(found: Sequence[Difference], names: tuple[str, str], width: int) -> list[Line]:
    header: list[Piece] = [("", ""), ("fact", "head"), *_heads(names), ("", "head")]
    rows: list[list[Piece]] = [header]
    for index, difference in enumerate(found):
        style = "dim" if difference.kind == "bits" else "changed"
        how = _HOW[difference.kind]
        size = "" if difference.size is None else f"by {number(difference.size)} "
        rows.append([
            (">" if index == 0 else " ", "mark"),
            (printable(difference.fact), "label"),
            (_value(difference.a), style),
            (_value(difference.b), style),
            (size + how, "dim"),
        ])  # fmt: skip
    return table(rows, width, flexible=(1, 2, 3))


def _heads(names: tuple[str, str]) -> list[Piece]:
    return [(printable(name), "head") for name in names]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else number(value)
    return printable(str(value))


def _beside(
    one: Sequence[str], other: Sequence[str], names: tuple[str, str], width: int
) -> list[Line]:
    half = max((width - 3) // 2, 1)
    lines: list[Line] = [_row(*names, half, "head")]
    for left, right in zip_longest(one, other, fillvalue=""):
        lines.append(_row(left, right, half, "changed" if left != right else ""))
    return [clip(line, width) for line in lines]


def _row(left: str, right: str, half: int, style: str) -> Line:
    bar = " ≠ " if style == "changed" else " │ "
    cells = [cut(printable(text), half) for text in (left, right)]
    return [(padded(cells[0], half), style), (bar, "dim"), (cells[1], style)]
