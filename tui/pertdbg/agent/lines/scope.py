"""The tensors that the names of a running function stand for, and what a line changed of them."""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from pertdbg.agent.base import (
    dtype_of,
    grad_fn_of,
    grad_of,
    requires_grad,
    shape_of,
)
from pertdbg.agent.lines.reading import version
from pertdbg.agent.lines.storages import key_of
from pertdbg.agent.tensors import is_tensor, reads_grad

NAMES_LIMIT = 200
"""Names that are looked at."""

_KEEPS = frozenset({"locals", "vars", "eval", "exec", "dir"})
"""A function that uses one of these may hold on to its `f_locals`."""


@dataclass(slots=True)
class Held:
    """What a name stood for."""

    tensor: weakref.ref[Any]
    signature: tuple[Any, ...]
    key: int | None
    """Identity of its storage, as long as that is alive."""
    grad_key: int | None
    """That of its gradient's."""


@dataclass(slots=True)
class Names:
    """What the names of a function stood for at one moment; keeps no tensor alive."""

    held: dict[str, Held] = field(default_factory=dict)
    in_storage: dict[int, list[str]] = field(default_factory=dict)

    def of(self, tensor: Any, key: int | None, but: str = "") -> tuple[list[str], list[str]]:
        """Give the names of other tensors in a tensor's storage, and those of the tensor itself."""
        others: list[str] = []
        own: list[str] = []
        for name in self.in_storage.get(key, ()) if key is not None else ():
            if name != but:
                there = self.held[name].tensor()
                if there is not None:
                    (own if there is tensor else others).append(name)
        return others, own


Tensors = dict[str, Any]


def tensors_of(frame: types.FrameType) -> Tensors:
    """Give the tensors that locals and attributes of `self` stand for."""
    found: Tensors = {}
    for name, value in _named(frame):
        if is_tensor(value):
            found[name] = value
            if len(found) >= NAMES_LIMIT:
                break
    return found


def release(frame: types.FrameType) -> None:
    """Empty the copy of the locals that Python keeps with a frame, and which keeps tensors alive.

    Not for use inside a trace function before Python 3.13: what is taken out there is taken from
    the function.
    """
    code = frame.f_code
    if sys.version_info >= (3, 13) or not code.co_flags & inspect.CO_OPTIMIZED:
        return
    if not _KEEPS.intersection(code.co_names):
        frame.f_locals.clear()


def look(tensors: Tensors) -> Names:
    """Note what names stand for; wants `Quiet` around it."""
    names = Names()
    for name, tensor in tensors.items():
        key = key_of(tensor)
        signature, grad_key = _signature(tensor, key)
        names.held[name] = Held(weakref.ref(tensor), signature, key, grad_key)
        if key is not None:
            names.in_storage.setdefault(key, []).append(name)
    return names


def changes(
    before: Names, now: Names, tensors: Tensors, written: set[int | None]
) -> tuple[list[str], list[str], list[str]]:
    """Give the names that stand for another tensor, for a changed one, and for none any more."""
    made, changed = [], []
    for name, tensor in tensors.items():
        then, held = before.held.get(name), now.held[name]
        if then is None or then.tensor() is not tensor:
            made.append(name)
        elif then.signature != held.signature or not written.isdisjoint((held.key, held.grad_key)):
            changed.append(name)
    return made, changed, [name for name in before.held if name not in tensors]


def _named(frame: types.FrameType) -> Iterator[tuple[str, Any]]:
    values, code = frame.f_locals, frame.f_code
    for name, value in values.items():
        if not name.startswith("."):
            yield name, value
    own = code.co_varnames[:1]
    if own and code.co_argcount:
        owner = values.get(own[0])
        if _has_method(owner, code.co_name):
            for name, value in _attributes(owner):
                yield f"{own[0]}.{name}", value


def _has_method(owner: Any, name: str) -> bool:
    return not is_tensor(owner) and any(name in vars(cls) for cls in type(owner).__mro__[:-1])


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """Give what an object holds under names, without running code of its class."""
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        own = {}
    if isinstance(own, dict):
        yield from own.items()
        if isinstance(owner, torch.nn.Module):
            for table in ("_parameters", "_buffers"):
                entries = own.get(table)
                yield from entries.items() if isinstance(entries, dict) else ()
    for cls in type(owner).__mro__:
        for name, slot in vars(cls).items():
            if type(slot) is types.MemberDescriptorType:
                try:
                    yield name, slot.__get__(owner)
                except AttributeError:  # not set
                    continue


def _signature(tensor: Any, key: int | None) -> tuple[tuple[Any, ...], int | None]:
    """Give what tells a tensor from itself after a change, and its gradient's storage.

    Backward passes write into a gradient that is there: that too is a change of its tensor.
    """
    try:
        node = grad_fn_of(tensor)
        grad = grad_of(tensor) if reads_grad(tensor) else None
        signature = (
            version(tensor),
            requires_grad(tensor),
            None if node is None else node.name(),
            None if grad is None else (id(grad), version(grad)),
            key,
            tuple(shape_of(tensor)),
            dtype_of(tensor),
        )
        return signature, None if grad is None else key_of(grad)
    except Exception:  # noqa: BLE001 - a subclass may refuse anything
        return (), None
