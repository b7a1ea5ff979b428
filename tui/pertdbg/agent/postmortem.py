"""What ended the target, as facts: the exception, the frames that it came through, what led to it.

Nothing of it is kept alive: an exception holds its frames, and they hold tensors.
"""

from __future__ import annotations

import linecache
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pertdbg.recording.raised import (
    CHAIN_LIMIT,
    FRAMES_LIMIT,
    Earlier,
    How,
    ScriptFrame,
    ScriptRaised,
)

_OURS = str(Path(__file__).parent) + os.sep


def is_ours(filename: str) -> bool:
    """Say whether a file is a part of what observes, not of what is observed."""
    return filename.startswith(_OURS)


def message_of(error: BaseException) -> str:
    """Give an exception's message; a `__str__` of the target's may fail."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - as Python's own traceback printing does
        return "<exception str() failed>"


def describe(error: BaseException, trace: types.TracebackType | None, after: int) -> ScriptRaised:
    """Describe the exception that ends the target.

    Args:
        error: The exception.
        trace: Its traceback; while it is on its way, the exception itself need not have all of it.
        after: Id of the last record.
    """
    frames = list(_frames(trace))
    outer = frames[: FRAMES_LIMIT // 3]
    inner = frames[len(outer) :][-(FRAMES_LIMIT - len(outer)) :]
    shown = tuple(_frame(trace) for trace in (*outer, *inner))
    left_out = len(frames) - len(shown)
    return ScriptRaised(
        _type(error), message_of(error), after, shown, left_out, tuple(_earlier(error))
    )


def without_ours(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Leave the frames of the agent out of a traceback."""
    kept: types.TracebackType | None = None
    for each in reversed(list(_frames(trace))):
        kept = types.TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return kept


def _frames(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code.co_filename):
            yield trace
        trace = trace.tb_next


def _frame(trace: types.TracebackType) -> ScriptFrame:
    code: Any = trace.tb_frame.f_code
    line = trace.tb_lineno or 0
    source = linecache.getline(code.co_filename, line, trace.tb_frame.f_globals).strip()
    function = getattr(code, "co_qualname", code.co_name)  # from Python 3.11 on
    return ScriptFrame(code.co_filename, line, function, source)


def _earlier(error: BaseException) -> Iterator[Earlier]:
    seen = {id(error)}
    for _ in range(CHAIN_LIMIT):
        how: How = "context" if error.__cause__ is None else "cause"
        before = error.__cause__
        if before is None and not error.__suppress_context__:
            before = error.__context__
        if before is None or id(before) in seen:
            return
        seen.add(id(before))
        yield Earlier(_type(before), message_of(before), how)
        error = before


def _type(error: BaseException) -> str:
    """Name the type as Python does in a traceback."""
    kind = type(error)
    own = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
