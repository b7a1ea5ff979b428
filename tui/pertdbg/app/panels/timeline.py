"""Timeline: all calls, or a window on them, in one line, with marks at what matters."""

from __future__ import annotations

from pertdbg.app.lines import Line, clip, length
from pertdbg.app.marks import Marks, kind_of
from pertdbg.app.numbers import count
from pertdbg.app.seek import Only
from pertdbg.output.safe import printable
from pertdbg.recording.timeline import cell_of, last_place

_LINE = "─"
_CURSOR = "┃"

Window = tuple[int, int]
"""The first and the last call that are shown."""


def id_at(cell: int, window: Window, cells: int) -> int:
    """Give the call nearest to a cell, so that `cell_of` leads back where calls are denser."""
    n = window[1] - window[0] + 1
    nearest = (cell + 1) * n // cells if n >= cells else round((cell + 1) * n / cells)
    return window[0] - 1 + min(max(nearest, 1), n)


def track(head: int, width: int) -> int:
    """Give the cells that the calls share; the position follows at the right."""
    return max(width - 2 * len(count(head)) - 6, 1)


def timeline(
    marks: Marks,
    cursor: int,
    head: int,
    window: Window,
    width: int,
    height: int,
    *,
    open_end: bool,
    only: Only | None = None,
) -> list[Line]:
    """Draw the line, and a legend with counts where there is a second line.

    Args:
        marks: Marks of the calls.
        cursor: Id of the call that is shown.
        head: Id of the last call.
        window: The calls that the line shows.
        width: Cells across.
        height: Lines.
        open_end: Whether the target may make more calls.
        only: The calls that are walked through; the others leave gaps.
    """
    cells = track(head, width)
    if not head:
        return [[(" " + _LINE * cells, "dim"), ("  no calls yet", "label")]]
    left = (" ", "") if window[0] == 1 else ("<", "mark")
    end = ("…" if open_end else "┤", "dim") if window[1] == head else (">", "mark")
    line: Line = [left, *_track(marks, cursor, window, cells, only), end]
    position = f" {count(cursor)}/{count(head)}"
    line.append((position.rjust(width - cells - 3), "strong"))
    return [line] if height < 2 else [line, _legend(marks, window, head, width, only)]


def _track(marks: Marks, cursor: int, window: Window, cells: int, only: Only | None) -> Line:
    line: Line = []
    n = window[1] - window[0] + 1
    for cell, bits in enumerate(marks.cells(*window, cells)):
        if only is not None and not only.any(*_calls_of(cell, window, cells)):
            line.append((" ", ""))
            continue
        kind = kind_of(bits)
        line.append((_LINE, "dim") if kind is None else (kind.glyph, kind.style))
    if not window[0] <= cursor <= window[1]:
        return line
    here = cell_of(cursor - window[0] + 1, n, cells)
    glyph = line[here][0]
    line[here] = (_CURSOR if glyph == _LINE else glyph, "cursor")
    if 3 * n <= cells:
        for cell, bracket in ((here - 1, "["), (here + 1, "]")):
            if 0 <= cell < cells:
                line[cell] = (bracket, "cursor")
    return line


def _calls_of(cell: int, window: Window, cells: int) -> Window:
    """Give the calls that a cell stands for; the last one may be before the first."""
    n = window[1] - window[0] + 1
    return window[0] + cell * n // cells, window[0] - 1 + last_place(cell, n, cells)


def _legend(marks: Marks, window: Window, head: int, width: int, only: Only | None) -> Line:
    line: Line = [(" ", "")]
    if only is not None:
        upto = "" if only.upto >= head else f" of {count(only.upto)} looked at"
        line.append((f"only {printable(only.words)}: {count(len(only.ids))}{upto}  ", "note"))
    if window != (1, head):
        line.append((f"calls {count(window[0])} to {count(window[1])}  ", "strong"))
    for kind, calls in reversed(marks.counts(*window)):
        number = "" if calls is None else f" {count(calls)}"
        item: Line = [(kind.glyph, kind.style), (f" {kind.words}{number}  ", "label")]
        if length(line + item) - 2 > width:
            break
        line += item
    return clip(line, width)
