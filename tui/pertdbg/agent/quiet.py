"""Reading tensors unnoticed: no mode, transform, tracer or autograd sees our operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

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

    __slots__ = ("_guards", "_trace")

    def __enter__(self) -> None:
        guards: list[Any] = [C.DisableTorchFunction(), C._ExcludeDispatchKeyGuard(_KEYS)]
        if numpy is not None:
            guards.append(numpy.errstate(all="ignore"))
        for guard in guards:
            guard.__enter__()
        self._guards, self._trace = guards, C._get_tracing_state()
        if self._trace is not None:
            C._set_tracing_state(None)

    def __exit__(self, *error: object) -> None:
        if self._trace is not None:
            C._set_tracing_state(self._trace)
        for guard in reversed(self._guards):
            guard.__exit__(*error)


class Ungraded:
    """Make no graph and no tangents inside.

    The dispatch keys of autograd stay: without them torch's conversion of a compressed sparse
    tensor counts as a write to it (torch 2.13).
    """

    __slots__ = ("_backward", "_forward")

    def __enter__(self) -> None:
        self._backward, self._forward = torch.is_grad_enabled(), C._is_fwd_grad_enabled()
        try:
            C._set_grad_enabled(False)
            C._set_fwd_grad_enabled(False)
        except BaseException:  # Ctrl-C in between: `with` leaves only what was entered
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        C._set_fwd_grad_enabled(self._forward)
        C._set_grad_enabled(self._backward)


class _Refuse(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotKnown(f"computed by __torch_dispatch__ ({func})")


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Refuse, inside `Quiet`, whatever a tensor subclass would answer by its `__torch_dispatch__`.

    Reading as little as the shape of a wrapper can run its code: a mode of ours on top of the
    stack is asked first, and raises `NotKnown`.
    """
    key = C.DispatchKey
    with (
        C._SetExcludeDispatchKeyGuard(key.Python, False),
        C._SetExcludeDispatchKeyGuard(key.PythonTLSSnapshot, False),
        _Refuse(),  # type: ignore[no-untyped-call]
    ):
        yield
