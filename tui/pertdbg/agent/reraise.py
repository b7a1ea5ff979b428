"""Takes our frames out of the traceback of an exception that goes on to the target."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any


def going_on(error: BaseException, trace: types.TracebackType | None) -> None:
    """Give the exception that is handled this traceback, and `raise` it then without naming it.

    Such a `raise` adds no entry for its own frame again.
    """
    error.__traceback__ = trace
    if sys.version_info < (3, 11) and sys.exc_info()[1] is error:
        _interpreter()(type(error), error, trace)


@functools.lru_cache(1)
def _interpreter() -> Callable[[object, object, object], None]:
    """Give what tells Python 3.10, which keeps the traceback beside the exception, of another."""
    import ctypes

    python, reference = ctypes.pythonapi, ctypes.py_object
    # Prototypes of our own: those of `ctypes.pythonapi` belong to the whole process.
    keep: Any = ctypes.PYFUNCTYPE(None, reference)(("Py_IncRef", python))
    put: Any = ctypes.PYFUNCTYPE(None, *[reference] * 3)(("PyErr_SetExcInfo", python))

    def tell(*handled: object) -> None:
        for each in handled:  # `put` takes a reference to each
            keep(each)
        put(*handled)

    return tell
