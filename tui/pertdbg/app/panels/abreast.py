"""The ranks side by side: a row for each at one step, or the timelines of all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pertdbg.app.abreast import RankRow
from pertdbg.app.lines import Line, Piece, clip, length, table, wrap
from pertdbg.app.marks import kind_of
from pertdbg.app.numbers import count
from pertdbg.compare import Step
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.output.words import number
from pertdbg.record import CallRecord
from pertdbg.recording.timeline import cell_of

_LINE, _CURSOR = "─", "┃"
_NAMED = 6
"""Most ranks that are named in a sentence."""

_LEAST_STRIP = 16
"""Fewest cells in which a timeline is drawn beside the facts."""

_COLUMNS = ("call", "|gradient|", "max |delta|", "beyond", "returned", "delta is", "parts in")
_OF = (
    ("",),
    ("gradient",),
    ("delta.max_abs", "delta.nan", "delta.inf"),
    ("delta.beyond", "delta.bound"),
    ("update",),
    ("tensors.after.delta",),
)
"""Which facts stand in which column, by how their names begin."""


def sentences(
    rows: Sequence[RankRow], step: Step | None, problems: Sequence[str], said: str, width: int
) -> list[Line]:
    """Say which ranks have the step, which part from the others, and what is wrong."""
    lines: list[Line] = []
    if step is None:
        lines += wrap("there is no call yet", width, "dim")
    else:
        lines += [*_who_has_it(rows, step, width), *_who_parts(rows, width), *_spread(rows, width)]
    for problem in problems:
        lines += wrap(printable(problem), width, "warn")
    return [*lines, *(wrap(printable(said), width, "dim") if said else [])]


def _who_has_it(rows: Sequence[RankRow], step: Step, width: int) -> list[Line]:
    batch, number_ = step.numbers
    name = f"batch {count(batch)} step {count(number_)} of {printable(step.layer)}"
    lacking = [row.rank for row in rows if row.record is None]
    if not lacking:
        return wrap(f"{name}: all {len(rows)} ranks have it", width, "strong")
    there = len(rows) - len(lacking)
    text = f"{name}: {there} of {len(rows)} ranks have it, not {_ranks(lacking)}"
    return wrap(text, width, "warn")


def _who_parts(rows: Sequence[RankRow], width: int) -> list[Line]:
    parting = [row for row in rows if row.parts]
    if not parting:
        alike = sum(row.record is not None for row in rows) > 1
        return wrap("their calls are alike in kind", width, "ok") if alike else []
    first = printable(parting[0].parts[0].fact)
    verb = "parts" if len(parting) == 1 else "part"
    text = f"{_ranks([row.rank for row in parting])} {verb} from most, {first} first"
    return wrap(text, width, "bad")


def _ranks(ranks: Sequence[int]) -> str:
    some = ", ".join(map(str, ranks[:_NAMED]))
    more = f" and {len(ranks) - _NAMED:,} more" if len(ranks) > _NAMED else ""
    return f"rank{'' if len(ranks) == 1 else 's'} {some}{more}"


def _spread(rows: Sequence[RankRow], width: int) -> list[Line]:
    norms = [
        (row.record.gradient.norm, row.rank)
        for row in rows
        if row.record is not None
        and row.record.gradient.norm is not None
        and math.isfinite(row.record.gradient.norm)
    ]
    if len(norms) < 2:
        return []
    (low, of_low), (high, of_high) = min(norms), max(norms)
    text = f"gradient norm {number(low)} (rank {of_low}) to {number(high)} (rank {of_high})"
    return wrap(text, width, "label")


def facts(rows: Sequence[RankRow], chosen: int, seen: slice, width: int) -> list[Line]:
    """Write a header and a row of facts for each rank, with its timeline where there is room.

    Args:
        rows: All of them.
        chosen: Place of the one that is chosen.
        seen: Which of them are written.
        width: Cells across.
    """
    header: list[Piece] = [("", ""), ("rank", "head"), *((name, "head") for name in _COLUMNS)]
    cells = [_cells(row, k == chosen) for k, row in enumerate(rows)]
    lines = table([header, *cells], width, flexible=(3, 4, 5, 6, 8))
    longest = max(map(length, lines))
    room = width - longest - 2
    found = [lines[0]]
    for row, line in zip(rows[seen], lines[1:][seen], strict=True):
        if row.record is None:
            line = clip([*line[:2], (printable(row.problem), "warn")], longest)
        if room >= _LEAST_STRIP:
            blanks = " " * (longest - length(line) + 2)
            line = [*line, (blanks, ""), *_strip(row, _longest(rows), room)]
        found.append(line)
    return found


def timelines(rows: Sequence[RankRow], chosen: int, seen: slice, width: int) -> list[Line]:
    """Write a header and the timeline of each rank, as long as it has calls; see `facts`."""
    wide = max((len(str(row.rank)) for row in rows), default=1)
    position = max((len(_position(row)) for row in rows), default=0)
    found = [clip([("  rank", "head"), ("  calls with their marks", "head")], width)]
    for k, row in list(enumerate(rows))[seen]:
        lead = _lead(row, k == chosen, max(wide, 4))
        room = max(width - length(lead) - position - 1, 1)
        strip = _strip(row, _longest(rows), room)
        blanks = " " * (room - length(strip))
        line = [*lead, *strip, (f"{blanks} {_position(row).rjust(position)}", "label")]
        found.append(clip(line, width))
    return found


def _lead(row: RankRow, is_chosen: bool, wide: int) -> Line:
    style = "changed" if row.parts else "warn" if row.record is None else "strong"
    return [(">" if is_chosen else " ", "mark"), (f" {str(row.rank).ljust(wide)}  ", style)]


def _longest(rows: Sequence[RankRow]) -> int:
    return max(row.head for row in rows)


def _position(row: RankRow) -> str:
    return printable(row.problem) if row.place is None else f"{count(row.ident)}/{count(row.head)}"


def _cells(row: RankRow, is_chosen: bool) -> list[Piece]:
    mark: Piece = (">" if is_chosen else " ", "mark")
    record = row.record
    if record is None:
        return [mark, (str(row.rank), "warn"), *[("", "")] * len(_COLUMNS)]
    values = (
        count(record.call),
        _gradient(record),
        _delta(record),
        count(record.delta.beyond),
        _returned(record),
        _leaf(record),
    )
    cells = [
        (printable(value), "changed" if _parts_in(row, names) else "")
        for value, names in zip(values, _OF, strict=True)
    ]
    return [
        mark,
        (str(row.rank), "changed" if row.parts else "strong"),
        *cells,
        (printable(_first(row)), "changed"),
    ]


def _parts_in(row: RankRow, names: Sequence[str]) -> bool:
    return any(part.fact.startswith(name) for part in row.parts for name in names if name)


def _first(row: RankRow) -> str:
    if not row.parts:
        return ""
    more = f" and {len(row.parts) - 1} more" if len(row.parts) > 1 else ""
    return f"{row.parts[0].fact} {row.parts[0].b}{more}"


def _gradient(record: CallRecord) -> str:
    found = record.gradient
    if not found.present:
        return "none"
    bad = [f"{many:,} {name}" for many, name in ((found.nan, "NaN"), (found.inf, "Inf")) if many]
    return " ".join(bad) or number(found.norm)


def _delta(record: CallRecord) -> str:
    found = record.delta
    bad = [f"{many:,} {name}" for many, name in ((found.nan, "NaN"), (found.inf, "Inf")) if many]
    return " ".join(bad) or number(found.max_abs)


def _returned(record: CallRecord) -> str:
    if record.update.raised is not None:
        return record.update.raised.type
    return "created" if record.update.created else str(record.update.returned)


def _leaf(record: CallRecord) -> str:
    found = record.tensors.after.delta
    if found is None or found.is_leaf is None:
        return "-"
    if not found.is_leaf:
        return "no leaf"
    return "a leaf" if found.requires_grad else "leaf, no grad"


def _strip(row: RankRow, longest: int, cells: int) -> Line:
    """Draw the calls of a rank, as long as they are beside the longest."""
    if not row.head or row.marks is None:
        return []
    own = max(cells * row.head // longest, 1)
    try:
        bits = row.marks.cells(1, row.head, own)
    except PertdbgError as error:  # a damaged part of the recording
        return clip([(printable(str(error)), "warn")], cells)
    kinds = [kind_of(each) for each in bits]
    line: Line = [(_LINE, "dim") if kind is None else (kind.glyph, kind.style) for kind in kinds]
    if row.record is not None:
        here = cell_of(row.ident, row.head, own)
        line[here] = (_CURSOR if line[here][0] == _LINE else line[here][0], "cursor")
    return line
