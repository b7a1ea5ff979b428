"""Reading what names stand for in a running function, and leaving no copy of it behind."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterable
from typing import Any


def read_locals(
    frame: types.FrameType, names: frozenset[str], *, traced: bool = False
) -> dict[str, Any]:
    """Read chosen names of a running function: its locals, else its globals.

    Before Python 3.13, `f_locals` of a function is a copy that stays with the frame and keeps
    what it holds alive. It is emptied here, except inside a trace function (`traced`): what is
    taken out there is taken from the function. There the next line renews it.
    """
    values = frame.f_locals
    found = {name: values[name] for name in names if name in values}
    optimized = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    copied = sys.version_info < (3, 13) and optimized
    if copied and not (traced and sys.version_info < (3, 12)):
        values.clear()
    for name in names - found.keys():
        if name in frame.f_globals:
            found[name] = frame.f_globals[name]
    return found


def is_method_of(frame: types.FrameType, methods: Iterable[str]) -> bool:
    """Say whether a function runs as a method of an object whose class has these methods."""
    first = frame.f_code.co_varnames[:1]
    if not first or not frame.f_code.co_argcount:
        return False
    owner = read_locals(frame, frozenset(first), traced=True).get(first[0])
    held: set[str] = set()
    for cls in type(owner).__mro__:
        held.update(vars(cls))
    return held.issuperset(methods)
