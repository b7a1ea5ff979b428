"""Reading tensors unnoticed: no mode, transform, tracer or autograd sees our operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from pertdbg.agent.base import C, numpy
from pertdbg.record import Unknown

T = TypeVar("T")

_HIDDEN = (
    "Python",
    "PythonTLSSnapshot",
    "PythonDispatcher",
    "PreDispatch",
    "Functionalize",
    "FuncTorchDynamicLayerFrontMode",
    "FuncTorchDynamicLayerBackMode",
    "FuncTorchVmapMode",
)


def _hidden_keys() -> Any:
    """Give the dispatch keys by which modes, transforms and autocast would see an operation."""
    members = C.DispatchKey.__members__
    names = [n for n in members if n in _HIDDEN or n.startswith("Autocast")]
    keys = C.DispatchKeySet(C.DispatchKey.Undefined)
    for name in names:
        keys = keys | C.DispatchKeySet(members[name])
    return keys


_KEYS = _hidden_keys()


def _numpy_errors() -> tuple[Any, Any]:
    """Give the variable that holds numpy's error state, from numpy 2 on, and what ignores all."""
    umath = getattr(getattr(numpy, "_core", None), "umath", None)
    variable = getattr(umath, "_extobj_contextvar", None)
    if variable is None:
        return None, None
    with numpy.errstate(all="ignore"):
        return variable, variable.get()


_ERRORS, _IGNORED = _numpy_errors()
"""`numpy.errstate` is written in Python: Ctrl-C in there would leave what it has set."""


class Notes:
    """Collects the fields that are not known, with their reasons."""

    def __init__(self) -> None:
        self._unknown: list[Unknown] = []

    def add(self, field: str, reason: str) -> None:
        """Note that a field is not known."""
        self._unknown.append(Unknown(field, reason))

    def attempting(self, part: str, *fields: str) -> Attempt:
        """Give a context that notes a failure for these fields of a part, or for the part."""
        return Attempt(self, part, fields)

    def attempt(self, field: str, read: Callable[[], T]) -> T | None:
        """Give what `read` returns, or note why it could not be had."""
        with Attempt(self, field, ()):
            return read()
        return None

    def all(self) -> tuple[Unknown, ...]:
        """Give what was noted, in order."""
        return tuple(self._unknown)


class Attempt:
    """Turns an exception in its block into notes: a fact that fails must not fail the target."""

    __slots__ = ("_fields", "_notes", "_part")

    def __init__(self, notes: Notes, part: str, fields: tuple[str, ...]) -> None:
        self._notes, self._part, self._fields = notes, part, fields

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is not None:
            leave_all(error)
        if not isinstance(error, Exception):
            return False
        reason = error.reason if isinstance(error, NotKnown) else _told(error)
        for path in [f"{self._part}.{name}" for name in self._fields] or [self._part]:
            self._notes.add(path, reason)
        return True


class NotKnown(Exception):
    """A value can't be had; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _told(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"error: {type(error).__name__}: {lines[0][:200]}"


class Quiet:
    """Hide what runs inside from modes, functorch, autocast, a jit trace and numpy's error state.

    A torch-function mode (`torch.set_default_device` is one) sees nothing, and no dispatch mode.
    """

    __slots__ = ("_before", "_errors", "_functions", "_keys", "_token", "_trace")

    def __enter__(self) -> None:
        self._functions = C.DisableTorchFunction()
        self._functions.__enter__()
        self._keys = C._ExcludeDispatchKeyGuard(_KEYS)
        self._keys.__enter__()
        if _ERRORS is not None:
            self._before = _ERRORS.get()
            self._token = _ERRORS.set(_IGNORED)
        elif numpy is not None:
            self._errors = numpy.errstate(all="ignore")
            self._errors.__enter__()
        self._trace = C._get_tracing_state()
        if self._trace is not None:
            C._set_tracing_state(None)

    def __exit__(
        self, kind: object = None, error: BaseException | None = None, trace: object = None
    ) -> None:
        if error is not None:
            leave_all(error)
        if self._trace is not None:
            C._set_tracing_state(self._trace)
        if _ERRORS is not None:
            _ERRORS.reset(self._token)
        elif numpy is not None:
            self._errors.__exit__(kind, error, trace)
        self._keys.__exit__(kind, error, trace)
        self._functions.__exit__(kind, error, trace)

    def undo(self) -> None:
        """Leave what was entered; what is left already takes no harm."""
        if getattr(self, "_trace", None) is not None:
            C._set_tracing_state(self._trace)
            self._trace = None
        if hasattr(self, "_token"):
            with contextlib.suppress(RuntimeError):  # it is used up
                _ERRORS.reset(self._token)
            del self._token, self._before
        elif hasattr(self, "_before"):
            _ERRORS.set(self._before)
            del self._before
        _undo(self, "_errors", "_keys", "_functions")


class Graphless:
    """Make no graph inside; much as `torch.no_grad`, see `leave_all`."""

    __slots__ = ("_backward",)

    def __enter__(self) -> None:
        self._backward = torch.is_grad_enabled()
        C._set_grad_enabled(False)

    def __exit__(
        self, kind: object = None, error: BaseException | None = None, trace: object = None
    ) -> None:
        if error is not None:
            leave_all(error)
        C._set_grad_enabled(self._backward)

    def undo(self) -> None:
        """Leave it if it was entered; what is left already takes no harm."""
        if hasattr(self, "_backward"):
            C._set_grad_enabled(self._backward)
            del self._backward


class Ungraded:
    """Make no graph and no tangents inside.

    The dispatch keys of autograd stay: without them torch's conversion of a compressed sparse
    tensor counts as a write to it (torch 2.13).
    """

    __slots__ = ("_backward", "_forward")

    def __enter__(self) -> None:
        self._backward, self._forward = torch.is_grad_enabled(), C._is_fwd_grad_enabled()
        C._set_grad_enabled(False)
        C._set_fwd_grad_enabled(False)

    def __exit__(
        self, kind: object = None, error: BaseException | None = None, trace: object = None
    ) -> None:
        if error is not None:
            leave_all(error)
        C._set_fwd_grad_enabled(self._forward)
        C._set_grad_enabled(self._backward)

    def undo(self) -> None:
        """Leave it if it was entered; what is left already takes no harm."""
        if hasattr(self, "_backward") and hasattr(self, "_forward"):
            C._set_fwd_grad_enabled(self._forward)
            C._set_grad_enabled(self._backward)
            del self._backward


class _Refuse(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotKnown(f"computed by __torch_dispatch__ ({func})")


class Refusing:
    """Refuse, inside `Quiet`, whatever a tensor subclass would answer by its `__torch_dispatch__`.

    Reading as little as the shape of a wrapper can run its code: a mode of ours on top of the
    stack is asked first, and raises `NotKnown`.
    """

    __slots__ = ("_mode", "_python", "_snapshot")

    def __enter__(self) -> None:
        key = C.DispatchKey
        self._python = C._SetExcludeDispatchKeyGuard(key.Python, False)
        self._python.__enter__()
        self._snapshot = C._SetExcludeDispatchKeyGuard(key.PythonTLSSnapshot, False)
        self._snapshot.__enter__()
        self._mode: Any = _Refuse()  # type: ignore[no-untyped-call]
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(
        self, kind: object = None, error: BaseException | None = None, trace: object = None
    ) -> None:
        if error is not None:
            leave_all(error)
        self._mode.__exit__(kind, error, trace)
        self._snapshot.__exit__(kind, error, trace)
        self._python.__exit__(kind, error, trace)

    def undo(self) -> None:
        """Leave what was entered; what is left already takes no harm."""
        if _get_current_dispatch_mode() is getattr(self, "_mode", self):
            self._mode.__exit__(None, None, None)
        _undo(self, "_snapshot", "_python")


def leave_all(error: BaseException) -> None:
    """Leave the contexts above that an exception from outside has kept from being left.

    Python runs signal handlers between a call and the first line of the function that is called,
    and behind each call of C. So Ctrl-C may arrive in an `__exit__` that has not done anything yet,
    or in an `__enter__` that has: `with` asks neither again. The frame then stands in the
    traceback. Whatever lets an exception out of us, or swallows it, is to ask for this first.
    """
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if id(frame.f_code) in _CROSSED:
            frame.f_locals["self"].undo()
        trace = trace.tb_next


def _undo(context: object, *names: str) -> None:
    """Leave guards if they are there, each once more at most."""
    for name in names:
        guard = getattr(context, name, None)
        if guard is not None:
            with contextlib.suppress(RuntimeError, TypeError):  # numpy's, that was not entered
                guard.__exit__(None, None, None)
            delattr(context, name)


_CROSSED = frozenset(
    id(function.__code__)
    for cls in (Quiet, Graphless, Ungraded, Refusing)
    for function in (cls.__enter__, cls.__exit__)
)
