"""How the target ended, as lines of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from pertdbg.output.safe import printable
from pertdbg.recording.meta import Meta
from pertdbg.recording.raised import Earlier, ScriptFrame, ScriptRaised
from pertdbg.recording.reader import Recording

WIDTH = 79

_HOW = {"cause": "raised from", "context": "raised while handling"}


def ended(recording: Recording) -> list[str]:
    """Say how the target ended, and where where an exception ended it; safe for a terminal."""
    raised = recording.raised
    if raised is None:
        return ["", *_wrapped(f"ENDED     {_words(recording.meta)}", 10)]
    lines = _wrapped(f"ENDED     {summary(raised)}", 10)
    for earlier in raised.chain:
        lines += _wrapped(chained(earlier), 10, indented=True)
    return ["", *lines, *traceback(raised)]


def summary(raised: ScriptRaised) -> str:
    """Say in one sentence what ended the target, and after which call."""
    after = f"after record {raised.after}" if raised.after else "before the first call"
    if raised.interrupted:
        return f"interrupted (Ctrl-C), {after}"
    return f"by an exception, {after}: {raised.says}"


def chained(earlier: Earlier) -> str:
    """Say which exception led to the one before it."""
    first = earlier.message.strip().partition("\n")[0]
    return f"{_HOW[earlier.how]} {earlier.type}" + (f": {first}" if first else "")


def traceback(raised: ScriptRaised) -> Iterator[str]:
    """Write the frames as Python does, the outermost first."""
    third = len(raised.frames) // 3
    for place, frame in enumerate(raised.frames):
        if place == third and raised.left_out:
            yield f"  ... {raised.left_out} more frames ..."
        yield from _frame(frame)


def _frame(frame: ScriptFrame) -> Iterator[str]:
    yield printable(f"  {frame.file}:{frame.line}, in {frame.function}")
    if frame.source:
        yield printable(f"    {frame.source}")


def _words(meta: Meta) -> str:
    status = "" if meta.exit_status is None else f"exit status {meta.exit_status}"
    words = ": ".join(part for part in (status, meta.exit_text or "") if part)
    if words or meta.clean_close:
        return words or "its exit status is not known"
    return "not closed by its writer: the target was killed, or still runs"


def _wrapped(text: str, hang: int, *, indented: bool = False) -> list[str]:
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=" " * hang if indented else "",
        subsequent_indent=" " * hang,
        break_on_hyphens=False,
    )
