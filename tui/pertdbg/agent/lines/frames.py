"""Whose a frame is: the target's, an operation's, torch's or ours."""

from __future__ import annotations

import functools
import types
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pertdbg.agent.lines.shim import is_shim
from pertdbg.agent.seams.plans import is_foreign
from pertdbg.agent.seams.source import name_of_code
from pertdbg.agent.tensors import is_tensor

if TYPE_CHECKING:
    from pertdbg.agent.lines.lines import Lines

_OURS = str(Path(__file__).parents[1])
_TORCH = str(Path(torch.__file__).parent)
_OF_OPERATIONS = tuple(
    f"{_TORCH}/{name}"
    for name in (
        *("_tensor.py", "functional.py", "overrides.py", "nn/functional.py", "_jit_internal.py"),
        *("autograd/__init__.py", "utils/_device.py", "_linalg_utils.py", "_VF.py"),
    )
)
"""Files of torch whose functions are operations themselves."""

_INLINE = frozenset({"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})
"""Code that belongs to the line in which it stands."""

_MODULE_CALL = torch.nn.Module._wrapped_call_impl.__code__


def is_ours(code: types.CodeType) -> bool:
    """Say whether code runs because of us."""
    return code.co_filename.startswith(_OURS) or is_shim(code)


def is_called(frame: types.FrameType, lines: Lines) -> bool:
    """Say whether a frame is a function that the innermost one calls, and no operation."""
    code, back = frame.f_code, frame.f_back
    while back is not None and back.f_code.co_name in _INLINE:
        back = back.f_back
    if back is not lines.frame or code.co_name in _INLINE:
        return False
    return not (is_ours(code) or code.co_filename in _OF_OPERATIONS)


def is_entered(frame: types.FrameType, lines: Lines) -> bool:
    """Say whether a frame is the function that somebody wanted to go into."""
    code = frame.f_code
    module = frame.f_globals.get("__name__")
    if not lines.into or code.co_name in _INLINE or code.co_flags & _GENERATORS:
        return False
    if is_ours(code) or not isinstance(module, str) or is_foreign(module, code.co_filename):
        return False
    back = frame.f_back
    for _ in range(_NEAR):
        if back is None or back is lines.frame:
            return back is not None
        back = back.f_back
    return False


_GENERATORS = 0x20 | 0x80 | 0x200
_NEAR = 12
"""Frames of torch that may stand between a line and what it calls: a module with hooks has 3."""


def called_name(frame: types.FrameType) -> str:
    """Name a function for people; empty for torch's own, but for modules that are called."""
    code = frame.f_code
    if code is _MODULE_CALL:
        owner = frame.f_locals.get("self")
        return "" if is_tensor(owner) else type(owner).__qualname__
    return "" if code.co_filename.startswith(_TORCH) else qualified(code)


def qualified(code: types.CodeType) -> str:
    """Give a function's name with that of its class."""
    name: str | None = getattr(code, "co_qualname", None)
    return _in_source(code.co_filename, code) if name is None else name


@functools.lru_cache(1024)
def _in_source(_filename: str, code: types.CodeType) -> str:
    """Find the name where code does not know it (3.10); it equals such code of another file."""
    return name_of_code(code)


def hide(trace: types.TracebackType | None, extra: set[int]) -> None:
    """Take frames out of a traceback that stand in it because of us; the first is never one."""
    while trace is not None:
        behind = trace.tb_next
        while behind is not None and (
            id(behind.tb_frame) in extra or is_ours(behind.tb_frame.f_code)
        ):
            behind = behind.tb_next
        trace.tb_next = behind
        trace = behind
    extra.clear()
