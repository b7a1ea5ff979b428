"""Source panel inside a call: the lines that were run, with what each did beside it."""

from __future__ import annotations

from collections.abc import Iterable

from pertdbg.app.inside import HOW_TO_RECORD, Events, runs_of
from pertdbg.app.lines import Line, clip, length, wrap
from pertdbg.app.panels.source import coloured, docstring_rows
from pertdbg.event import LineEvent
from pertdbg.output.safe import printable
from pertdbg.output.words import several
from pertdbg.recording.parts import LayerSource

_BESIDE = 100
"""Width from which words stand beside the code, and not below it."""

_CODE = 0.55
"""Share of the width that code has at most where words stand beside it."""

_INDENT = 7


def lines_of(
    layer: LayerSource | None, events: Events, at: int | None, left_out: int, width: int
) -> tuple[list[Line], int]:
    """Draw the panel; gives its lines and the index of the current one.

    Args:
        layer: The layer of the call.
        events: The lines of the call that were recorded, at least one.
        at: Place of the current one; None where the call as a whole is shown.
        left_out: Lines that were run after these and not kept.
        width: Cells across.
    """
    upto = len(events) - 1 if at is None else at
    current = None if at is None else events[at]
    if current is not None and current.depth:
        return _called(events, at or 0, width)
    title = [clip([(_title(layer, events, at), "dim")], width)]
    if left_out:
        title += wrap(f"{left_out:,} more lines were run and not kept", width, "note")
    if layer is None or layer.source is None:
        return _listing(title, events, upto, width)
    last = {event.line: event for event in events[: upto + 1] if not event.depth}
    first = layer.first_line or 1
    folded = {first + row for row in docstring_rows(layer.source)} - set(last)
    lines, index = title, 0
    codes = coloured(layer.source)
    room = _room(codes, width)
    for number, code in enumerate(codes, first):
        if number in folded:
            continue
        here = current is not None and number == current.line
        index = len(lines) if here else index
        row: Line = [(f"{'>' if here else ' '}{number:4}  ", "mark" if here else "dim"), *code]
        runs = runs_of(events, number, upto) if number in last else 0
        lines += _with_words(row, last.get(number), runs, width, room, here=here)
    return lines, index


def how_to_get(width: int) -> list[Line]:
    """Say why there are no words beside the lines."""
    return wrap(f"no lines were recorded of this call: {HOW_TO_RECORD}", width, "dim")


def _title(layer: LayerSource | None, events: Events, at: int | None) -> str:
    place = "" if layer is None else f"{layer.cls}  {layer.file}"
    if at is None:
        return printable(f"{place}  {len(events)} lines were run")
    return printable(f"{place}:{events[at].line}  after {several(at + 1, 'line')}")


def _listing(title: list[Line], events: Events, upto: int, width: int) -> tuple[list[Line], int]:
    """List the lines as they were run, where the source is not known."""
    lines, index = title, 0
    room = _room(([(printable(event.source), "")] for event in events), width)
    for place, event in enumerate(events[: upto + 1]):
        index = len(lines)
        here = place == upto
        mark = ">" if here else " "
        code = printable("  " * event.depth + event.source)
        row: Line = [(f"{mark}{event.line:4}  ", "mark" if here else "dim"), (code, "")]
        lines += _with_words(row, event, 1, width, room, here=here)
    return lines, index


def _called(events: Events, at: int, width: int) -> tuple[list[Line], int]:
    """List the lines of a function that the update called, up to the current one."""
    current = events[at]
    begin = at
    while begin and events[begin - 1].depth >= current.depth:
        begin -= 1
    run = [event for event in events[begin : at + 1] if event.depth == current.depth]
    title = f"in {current.function}, called from the update (depth {current.depth})"
    return _listing([clip([(printable(title), "note")], width)], run, len(run) - 1, width)


def _with_words(
    row: Line, event: LineEvent | None, runs: int, width: int, room: int, *, here: bool
) -> list[Line]:
    """Put what a line did beside it, or below it where there is no room."""
    if event is None:
        return [clip(row, width)]
    said = printable(event.says) + (f"  ({runs} times)" if runs > 1 else "")
    style = "changed" if here else "note" if event.tensors or event.raised else "dim"
    left = room if room else _INDENT
    words = _words(said, width - left, style, whole=here) if _matters(event, here) else []
    if room and words:
        cut = clip(row, room - 1)
        rows = [[*cut, (" " * (room - length(cut)), ""), *words[0]]]
        words = words[1:]
    else:
        rows = [clip(row, width)]
    rows += [[(" " * left, ""), *line] for line in words]
    return [*rows, *(_operations(event, width) if here else [])]


def _words(said: str, width: int, style: str, *, whole: bool) -> list[Line]:
    """Lay out what a line did: whole, or what one line has room for."""
    return wrap(said, width, style) if whole else [clip([(said, style)], width)]


def _matters(event: LineEvent, here: bool) -> bool:
    """Say whether what a line did is worth words, so that those that did something stand out."""
    mode = event.gradients != event.gradients_before
    return here or bool(event.tensors or event.gone or event.raised or mode)


def _room(codes: Iterable[Line], width: int) -> int:
    """Give the cells of the code where words stand beside it; 0 where there is no room for them."""
    longest = max(map(length, codes), default=0) + _INDENT + 1
    return min(longest, int(width * _CODE)) if width >= _BESIDE else 0


def _operations(event: LineEvent, width: int) -> list[Line]:
    """List the operations of a line, each with what it did, and what is not known."""
    lines: list[Line] = []
    for operation in event.operations:
        for k, line in enumerate(wrap(printable(operation.says), width - _INDENT - 2)):
            lines.append([(" " * _INDENT + ("· " if k == 0 else "  "), "mark"), *line])
    for unknown in event.unknown:
        text = printable(f"{unknown.field}: unknown ({unknown.reason})")
        lines += [[(" " * _INDENT, ""), *line] for line in wrap(text, width - _INDENT, "dim")]
    return lines
