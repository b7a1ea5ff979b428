"""Calling a function as if the target's own line called it.

A warning is told to stand where its caller stands, and is shown once for each such place: called
from a frame of ours it would name our file, and the target's would come again.
"""

from __future__ import annotations

import types
from typing import Any

from torch.overrides import handle_torch_function

_HANDLE = handle_torch_function.__code__
_SPARE = 4096
"""Places that are remembered."""

_codes: dict[tuple[types.CodeType, int], types.CodeType] = {}


_CALL = compile("lambda func, args, kwargs: func(*args, **kwargs)", __file__, "eval").co_consts[0]
"""Stands on one line, which can be any."""


def is_shim(code: types.CodeType) -> bool:
    """Say whether this is code of `calling`'s functions."""
    return code.co_consts is _CALL.co_consts and code.co_code == _CALL.co_code


def caller(frame: types.FrameType) -> types.FrameType:
    """Give the frame that called an operation, given the one that called the mode."""
    if frame.f_code is _HANDLE and frame.f_back is not None and frame.f_back.f_back is not None:
        return frame.f_back.f_back
    return frame


def calling(frame: types.FrameType) -> Any:
    """Give ``call(func, args, kwargs)`` that calls as the line at which a frame stands does."""
    place = frame.f_code, frame.f_lineno
    code = _codes.get(place)
    if code is None:
        if len(_codes) >= _SPARE:
            _codes.clear()
        code = _codes[place] = _CALL.replace(
            co_filename=frame.f_code.co_filename,
            co_firstlineno=frame.f_lineno or frame.f_code.co_firstlineno,
            co_name=frame.f_code.co_name,
        )
    return types.FunctionType(code, frame.f_globals)
