"""The traceback of what ended the target, as a page over the panels."""

from __future__ import annotations

from pertdbg.app.lines import Line, fold, wrap
from pertdbg.output.ended import chained, summary
from pertdbg.output.safe import printable
from pertdbg.recording.raised import ScriptFrame, ScriptRaised


def raised_page(raised: ScriptRaised, width: int) -> list[Line]:
    """Lay the page out: what was raised, what led to it, then the frames, the innermost last."""
    style = "note" if raised.interrupted else "bad"
    lines = wrap(printable(summary(raised)), width, style)
    rest = raised.message.strip().partition("\n")[2].strip()
    for line in rest.splitlines():
        lines += wrap(printable(line), width)
    for earlier in raised.chain:
        lines += wrap(printable(chained(earlier)), width, "dim")
    third = len(raised.frames) // 3
    for place, frame in enumerate(raised.frames):
        if place == third and raised.left_out:
            lines += [[], [(f"… {raised.left_out} more frames …", "dim")]]
        lines += [[], *_frame(frame, width, last=place == len(raised.frames) - 1)]
    if raised.after:
        lines += [[], *wrap(f"The panels show record {raised.after}, the last one before.", width)]
    return lines


def _frame(frame: ScriptFrame, width: int, *, last: bool) -> list[Line]:
    place: Line = [
        (printable(frame.file), "label"),
        (f":{frame.line}", "label"),
        ("  in ", "dim"),
        (printable(frame.function), "strong"),
    ]
    code: Line = [("    " + printable(frame.source), "mark" if last else "")]
    return [*fold(place, width), *(fold(code, width) if frame.source else [])]
