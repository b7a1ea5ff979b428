"""Output panel: what the target printed, as a terminal would show it, and nothing it commands."""

from __future__ import annotations

import functools
import re

from rich.ansi import AnsiDecoder

from pertdbg.app.lines import Line, Piece, fold
from pertdbg.output.safe import printable

_CONTROL = re.compile(
    r"""
    \x1b\[[0-?]*[ -/]*(?!m)[@-~]             # control sequences, those of colour excepted
  | \x1b\[[<-?][0-?]*[ -/]*m                 # private ones that end as colour does
  | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)   # titles, links, pictures
  | \x1b[ -/]+[0-~]                          # character sets
  | \x1b(?!\[)[ -~]?                         # the rest of the two-letter ones
    """,
    re.VERBOSE | re.MULTILINE,
)

_LINES = 500
"""Lines of each stream that are kept."""


def output(stdout: bytes, stderr: bytes, width: int) -> list[Line]:
    """Draw the panel: stdout, then stderr under a line of its own where there is any."""
    lines = [part for line in text(stdout) for part in fold(line, width)]
    errors = [part for line in text(stderr) for part in fold(line, width)]
    if errors:
        lines += [[("stderr".center(min(width, 24), "─"), "dim")], *errors]
    return lines or [[("nothing printed, or not recorded", "dim")]]


@functools.lru_cache(maxsize=8)
def text(data: bytes) -> list[Line]:
    """Turn printed bytes into lines: colours kept, overwritten lines replaced, the rest gone."""
    written = data.decode(errors="replace").replace("\r\n", "\n")
    written = _CONTROL.sub("", written).replace("\x9b", "")
    lines = written.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    decoder = AnsiDecoder()
    return [_pieces(decoder, _last_written(line)) for line in lines[-_LINES:]]


def _last_written(line: str) -> str:
    """Give what a line showed last: a carriage return starts it anew."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def _pieces(decoder: AnsiDecoder, line: str) -> Line:
    if "\x1b" not in line:
        return [(printable(line.expandtabs()), "")] if line else []
    decoded = decoder.decode_line(line)
    pieces: Line = []
    end = 0
    for start, stop, style in decoded.spans:
        pieces += _piece(decoded.plain[end:start])
        pieces.append((printable(decoded.plain[start:stop].expandtabs()), style))
        end = stop
    return pieces + _piece(decoded.plain[end:])


def _piece(part: str) -> list[Piece]:
    return [(printable(part.expandtabs()), "")] if part else []
