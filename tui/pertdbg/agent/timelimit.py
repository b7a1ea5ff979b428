"""A time limit for Python code on this thread, without signals and without a trace function.

A short-lived thread raises an exception in the thread that runs the code. It arrives between two
instructions of Python: one long call of C code can't be interrupted, only what comes after it.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
from collections.abc import Callable
from typing import TypeVar

_AGAIN = 0.05
"""Seconds after which the exception is raised again, where the code has swallowed it."""

_ARRIVING = 1000
"""Turns of a loop, in which what is on its way arrives."""

_LEAVING = 1.0
"""Most seconds to wait until the short-lived thread is gone."""

T = TypeVar("T")

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class TimeUp(BaseException):
    """The code inside took too long."""


def limited(seconds: float, work: Callable[[], T]) -> T:
    """Do some work for at most so many seconds of Python; then no exception is on its way.

    Raises:
        TimeUp: It took longer.
    """
    limit = _Limit(seconds)
    try:
        try:
            return work()
        finally:
            limit.end()
    except TimeUp:
        limit.end()  # it may have arrived when the end above had not yet begun
        raise


class _Limit:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._over = self._left = self._raised = False
        self._target = ctypes.c_ulong(_thread.get_ident())
        self._lock = _thread.RLock()
        self._ended, self._gone = _thread.allocate_lock(), _thread.allocate_lock()
        self._ended.acquire()
        self._gone.acquire()
        _thread.start_new_thread(self._watch, ())

    def end(self) -> None:
        """Raise no more, and let what has not arrived yet arrive here.

        To take it back instead would leave Python looking for it at every instruction (3.11).
        """
        while not self._over:
            try:
                with self._lock:
                    self._over = True
            except TimeUp:  # it arrived in these very lines
                self._over = False
        if self._raised:
            with contextlib.suppress(TimeUp):
                for _ in range(_ARRIVING):
                    pass
        if not self._left:
            self._left = True
            self._ended.release()
            self._gone.acquire(timeout=_LEAVING)

    def _watch(self) -> None:
        try:
            wait = self._seconds
            while not self._ended.acquire(timeout=wait):
                with self._lock:
                    if not self._over:
                        self._raised = True
                        _raise_in(self._target, ctypes.py_object(TimeUp))
                wait = _AGAIN
        finally:
            self._gone.release()
