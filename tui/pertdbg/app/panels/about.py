"""What a scenario shows and what to look for; the screen before the first call."""

from __future__ import annotations

from pertdbg.app.lines import Line, wrap
from pertdbg.output.safe import printable


def about(title: str, text: str, progress: str, width: int) -> list[Line]:
    """Write title, text and progress, each paragraph on its own."""
    lines: list[Line] = wrap(printable(title), width, "strong") if title else []
    for paragraph in text.strip().splitlines():
        if lines and not paragraph.strip():
            lines.append([])
        elif paragraph.strip():
            lines += wrap(printable(paragraph), width)
    if progress:
        lines += [[], *wrap(printable(progress), width, "note")]
    return lines
