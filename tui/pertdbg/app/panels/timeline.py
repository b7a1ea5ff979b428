"""Timeline: all calls in one line, with marks at what matters and the cursor."""

from __future__ import annotations

from pertdbg.app.lines import Line, clip, length
from pertdbg.app.marks import Marks, kind_of
from pertdbg.app.numbers import count

_LINE = "─"
_CURSOR = "┃"


def cell_of(id_: int, head: int, cells: int) -> int:
    """Give the cell of a call."""
    return (id_ * cells - 1) // head


def id_at(cell: int, head: int, cells: int) -> int:
    """Give the call nearest to a cell, so that `cell_of` leads back where calls are denser."""
    nearest = (cell + 1) * head // cells if head >= cells else round((cell + 1) * head / cells)
    return min(max(nearest, 1), head)


def track(head: int, width: int) -> int:
    """Give the cells that the calls share; the position follows at the right."""
    return max(width - 2 * len(count(head)) - 6, 1)


def timeline(
    marks: Marks, cursor: int, head: int, width: int, height: int, *, open_end: bool
) -> list[Line]:
    """Draw the line, and a legend with counts where there is a second line.

    Args:
        marks: Marks of the calls.
        cursor: Id of the call that is shown.
        head: Id of the last call.
        width: Cells across.
        height: Lines.
        open_end: Whether the target may make more calls.
    """
    cells = track(head, width)
    if not head:
        return [[(" " + _LINE * cells, "dim"), ("  no calls yet", "label")]]
    line: Line = [(" ", ""), *_track(marks, cursor, head, cells)]
    line.append(("…" if open_end else "┤", "dim"))
    position = f" {count(cursor)}/{count(head)}"
    line.append((position.rjust(width - cells - 3), "strong"))
    return [line, _legend(marks, width)][:height]


def _track(marks: Marks, cursor: int, head: int, cells: int) -> Line:
    line: Line = []
    for bits in marks.cells(head, cells):
        kind = kind_of(bits)
        line.append((_LINE, "dim") if kind is None else (kind.glyph, kind.style))
    if not cursor:
        return line
    here = cell_of(cursor, head, cells)
    glyph = line[here][0]
    line[here] = (_CURSOR if glyph == _LINE else glyph, "cursor")
    if 3 * head <= cells:
        for cell, bracket in ((here - 1, "["), (here + 1, "]")):
            if 0 <= cell < cells:
                line[cell] = (bracket, "cursor")
    return line


def _legend(marks: Marks, width: int) -> Line:
    line: Line = [(" ", "")]
    for kind, calls in reversed(marks.counts()):
        item: Line = [(kind.glyph, kind.style), (f" {kind.words} {count(calls)}  ", "label")]
        if length(line + item) - 2 > width:
            break
        line += item
    return clip(line, width)
