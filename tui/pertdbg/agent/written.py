"""The code of a function as it was written, behind what decorates it."""

from __future__ import annotations

import inspect
import types


def written(function: types.FunctionType) -> types.CodeType:
    """Give the code behind decorators such as `torch.no_grad()`, else the function's own."""
    try:
        code = getattr(inspect.unwrap(function), "__code__", None)
    except ValueError:  # it wraps itself
        code = None
    return code if isinstance(code, types.CodeType) else function.__code__
