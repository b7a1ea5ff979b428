"""Lines of styled text: what a panel returns and what a widget paints.

A line is a list of pieces, a piece is a text with the name of a style (`ok`, `warn`, `label`…,
turned into colours by the style sheet) or a rich style. Nothing here reads markup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.style import Style

Piece = tuple[str, str | Style]
"""A text and the name of its style."""

Line = list[Piece]
"""Pieces from left to right."""

CUT = "…"
"""What stands where a text was cut."""

_GAP = 2
_LEAST = 8
"""Cells that a column of names keeps."""


def plain(lines: Iterable[Line]) -> str:
    """Give lines as text without styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def length(line: Line) -> int:
    """Count the cells of a line."""
    return sum(cell_len(text) for text, _ in line)


def cut(text: str, width: int) -> str:
    """Shorten a text to a width, with `CUT` as its last cell."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + CUT if width > 0 else ""


def wrap(text: str, width: int, style: str | Style = "") -> list[Line]:
    """Break a text between words; a word longer than a line is broken where it must be."""
    lines: list[str] = []
    for paragraph in text.splitlines() or [""]:
        lines.extend(_wrapped(paragraph, max(width, 1)))
    return [[(line, style)] for line in lines]


def _wrapped(paragraph: str, width: int) -> list[str]:
    lines = [""]
    for word in paragraph.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
            continue
        parts = _chopped(word, width)
        lines[-1:] = [lines[-1], *parts] if lines[-1] else parts
    return lines


def _chopped(text: str, width: int) -> list[str]:
    parts, size = [""], 0
    for character in text:
        cells = cell_len(character)
        if size + cells > width:
            parts.append("")
            size = 0
        parts[-1] += character
        size += cells
    return parts


def fold(line: Line, width: int) -> list[Line]:
    """Break a line at a width, wherever that falls, and keep its styles."""
    if length(line) <= width:
        return [line]
    folded: list[Line] = [[]]
    room = width
    for text, style in line:
        for character in text:
            cells = cell_len(character)
            if cells > room:
                folded.append([])
                room = width
            last = folded[-1]
            if last and last[-1][1] is style:
                last[-1] = (last[-1][0] + character, style)
            else:
                last.append((character, style))
            room -= cells
    return folded


def clip(line: Line, width: int) -> Line:
    """Shorten a line to a width, with `CUT` as its last cell."""
    if length(line) <= width:
        return line
    clipped: Line = []
    room = width
    for text, style in line:
        size = cell_len(text)
        if size >= room:
            return [*clipped, (cut(text if size > room else text + " ", room), style)]
        clipped.append((text, style))
        room -= size
    return clipped


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Fill a text with blanks up to a width."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def pairs(items: Sequence[tuple[str, Piece]], width: int) -> list[Line]:
    """Lay labelled values out in as many aligned columns as fit, row by row."""
    for columns in range(len(items), 0, -1):
        widths = [_pair_width(items[column::columns]) for column in range(columns)]
        if sum(left + 1 + right for left, right in widths) + _GAP * (columns - 1) <= width:
            break
    rows = [items[start : start + columns] for start in range(0, len(items), columns)]
    return [clip(_pair_row(row, widths), width) for row in rows] if items else []


def _pair_width(items: Sequence[tuple[str, Piece]]) -> tuple[int, int]:
    return max(cell_len(label) for label, _ in items), max(cell_len(v[0]) for _, v in items)


def _pair_row(row: Sequence[tuple[str, Piece]], widths: Sequence[tuple[int, int]]) -> Line:
    line: Line = []
    for (label, (text, style)), (left, right) in zip(row, widths, strict=False):
        line.append((padded(label, left) + " ", "label"))
        line.append((padded(text, right), style))
        line.append((" " * _GAP, ""))
    return line[:-1]


def table(
    rows: Sequence[Sequence[Piece]], width: int, flexible: Collection[int] = ()
) -> list[Line]:
    """Align rows in columns; the flexible columns shrink, then the last columns go.

    Args:
        rows: Rows of the same number of cells, the header included.
        width: Cells to fit into.
        flexible: Columns whose texts may be cut (names, no long numbers).
    """
    widths = [max(cell_len(row[c][0]) for row in rows) for c in range(len(rows[0]))]
    while len(widths) > 1 and _table_width(widths) > width:
        wide = [c for c in flexible if c < len(widths) and widths[c] > _LEAST]
        if wide:
            widths[max(wide, key=widths.__getitem__)] -= 1
        else:
            widths.pop()
    roomy = _table_width(widths) + len(widths) - 1 <= width
    return [_row(row, widths, flexible, width, " " * (1 + roomy)) for row in rows]


def _table_width(widths: Sequence[int]) -> int:
    return sum(widths) + len(widths) - 1


def _row(
    row: Sequence[Piece], widths: Sequence[int], flexible: Collection[int], width: int, gap: str
) -> Line:
    line: Line = []
    for column, ((text, style), size) in enumerate(zip(row, widths, strict=False)):
        shown = cut(text, size) if column in flexible else text
        line.append((padded(shown, size) + gap, style))
    return clip([*line[:-1], (line[-1][0].rstrip(), line[-1][1])], width)
