"""Keeps `torch.compile` off our functions: they run in between the target's compiled ones.

While compiled code runs, torch looks at every Python function that is called and compiles it, ours
too, with warnings about what it finds there. All calls here go to functions of C: one of Python
would be looked at itself. Before torch is imported they do nothing.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

off: Callable[[], Any] = bool
"""Compile nothing from here on, on this thread; gives what to hand to `on`."""

on: Callable[[Any], Any] = bool
"""Go on as before."""

_entered: list[types.CodeType] = []
"""Functions of ours that the target's code, or Python for it, calls first."""


def arm() -> None:
    """Begin, now that torch is there."""
    global off, on
    engine: Any
    with contextlib.suppress(ImportError, AttributeError):
        from torch._C._dynamo import eval_frame as engine

        off, on = functools.partial(engine.set_eval_frame, None), engine.set_eval_frame
        for code in _entered:
            _skip(engine, code)


def entered(function: F) -> F:
    """Note a function of ours that is called first; what it does stands between `off` and `on`."""
    _entered.append(function.__code__)
    return function


def _skip(engine: Any, code: types.CodeType) -> None:
    if hasattr(engine, "skip_code"):  # up to torch 2.6
        engine.skip_code(code)
    else:
        action = engine._FrameAction
        strategy = engine._FrameExecStrategy(action.SKIP, action.DEFAULT)
        engine.set_code_exec_strategy(code, strategy)
