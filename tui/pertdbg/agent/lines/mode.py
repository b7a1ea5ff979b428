"""The function mode that sees torch operations, and its place among the target's own modes."""

from __future__ import annotations

import sys
import threading
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function
from torch.utils._device import DeviceContext

from pertdbg.agent.lines.shim import caller, calling
from pertdbg.agent.reraise import going_on

_HANDLE = handle_torch_function.__code__


class Watcher(Protocol):
    """What is told of operations. Neither method raises."""

    def before(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Look at what an operation is given; None where it is not worth looking at."""

    def after(self, seen: Any, result: Any, error: BaseException | None) -> None:
        """Look at what it gave, or at what it raised."""


class OperationMode(TorchFunctionMode):
    """Shows each torch operation of one thread to a watcher, and changes nothing of it.

    It stands at the bottom of the stack of modes, where the target's own ones never take it for
    theirs, but above a default device: torch wants that one to be the lowest.
    """

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self._watcher = watcher
        self._thread = threading.get_ident()
        self.extra: set[int] = set()
        """Identities of frames that stand in the newest exception's traceback because of us."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, with a look at it before and after."""
        frame = sys._getframe(1)
        call, seen = calling(caller(frame)), None
        if threading.get_ident() == self._thread:
            seen = self._watcher.before(func, args, kwargs)
        try:
            result = call(func, args, kwargs or {})
        except BaseException as error:
            self._hide(error, frame)
            if seen is not None:
                self._watcher.after(seen, None, error)
            raise
        if seen is not None:
            self._watcher.after(seen, result, None)
        return result

    def _hide(self, error: BaseException, frame: Any) -> None:
        """Take this frame and the one below out of a traceback; note those that are still to come.

        A function of torch that is written in Python asks for modes first, and is then run a
        second time: its first frame, and that of the asking, would not be there without us.
        """
        trace = error.__traceback__
        for _ in range(2):
            trace = None if trace is None else trace.tb_next
        going_on(error, trace)
        self.extra.clear()
        if frame.f_code is _HANDLE and frame.f_back is not None:
            self.extra.update((id(frame), id(frame.f_back)))

    def insert(self) -> None:
        """Let it see operations from now on."""
        above = []
        while (mode := _top()) is not None and not isinstance(mode, DeviceContext):
            above.append(_pop())
        for mode in (self, *reversed(above)):
            _push(mode)

    def remove(self) -> None:
        """Let it see none; where somebody else has taken it out that is all right."""
        above = []
        while _top() is not None:
            mode = _pop()
            if mode is self:
                break
            above.append(mode)
        for mode in reversed(above):
            _push(mode)


_C: Any = torch._C
_push, _pop = _C._push_on_torch_function_stack, _C._pop_torch_function_stack


def _top() -> Any:
    count = _C._len_torch_function_stack()
    return _C._get_function_stack_at(count - 1) if count else None
