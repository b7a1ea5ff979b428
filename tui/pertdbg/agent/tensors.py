"""What can be said of one tensor without reading its values."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch.autograd import forward_ad

from pertdbg.agent.base import (
    C,
    device_of,
    dtype_of,
    element_size,
    grad_fn_of,
    grad_of,
    is_contiguous,
    is_inference,
    is_leaf,
    is_view,
    layout_of,
    numel,
    offset_of,
    requires_grad,
    retains_grad,
    shape_of,
    storage_of,
    stride_of,
    version_of,
)
from pertdbg.agent.quiet import Graphless, Notes, NotKnown, Refusing
from pertdbg.record import TensorFacts

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_OF_MEMORY = ("data_ptr", "storage", "storage_offset", "stride", "nbytes", "contiguous")
_KINDS = {torch.float32: "f4", torch.float64: "f8"}

_dispatch_keys = C._dispatch_keys
_data_address = getattr(C, "_data_address", None)
_build = functools.lru_cache(maxsize=256)(TensorFacts)
"""Builds facts; allocators reuse addresses, so that the same ones come again and again."""


@dataclass(slots=True)
class Sight:
    """A tensor's facts as read at one moment, and its storage, held so that it stays this one."""

    front: tuple[Any, ...]
    """The facts of `TensorFacts` up to `data_ptr`."""
    back: tuple[Any, ...]
    """Those after `storage`."""
    storage: torch.UntypedStorage | None = None
    nbytes: int = 0
    """Of the storage."""
    address: int | None = None
    """Of the storage; None where it has none."""
    no_address: str = ""
    """Why it has none."""
    memory: tuple[int, str] | None = None
    """Address and kind of the elements, where they can be read there in order as they are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        shape: tuple[int, ...] = self.front[0]
        return shape

    def facts(self, label: str | None) -> TensorFacts:
        """Build the tensor's facts, with the label that its storage got."""
        return _build(*self.front, label, *self.back)


@dataclass(frozen=True, slots=True)
class _Nature:
    """What the dispatch keys of a tensor say of it."""

    wrapping: str | None
    """What stands between it and its values: `vmap`, `fake` and so on."""
    python: bool
    """Operations on it run code of a subclass."""
    direct: bool
    """It lies on the CPU, dense, and its memory holds its values as they are."""


_natures: dict[object, _Nature] = {}
_names: dict[object, str] = {}


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Say whether a value is a tensor, by its type alone: proxies may lie about their class."""
    return issubclass(type(value), torch.Tensor)


def name_of(value: object) -> str:
    """Give the short name of a dtype, layout or device."""
    name = _names.get(value)
    if name is None:
        name = _names[value] = str(value).removeprefix("torch.")
    return name


def reads_grad(tensor: torch.Tensor) -> bool:
    """Say whether `.grad` may be read: for other tensors torch warns."""
    return bool(is_leaf(tensor) or retains_grad(tensor))


def wrapping(tensor: torch.Tensor) -> str | None:
    """Say what stands between a tensor and its values in memory; None for an ordinary one."""
    nature = _nature(tensor)
    if nature.python:
        fake = any(cls.__name__ == "FakeTensor" for cls in type(tensor).__mro__)
        return "fake" if fake else f"subclass: {type(tensor).__name__}"
    return nature.wrapping


def layout_reason(tensor: torch.Tensor) -> str | None:
    """Say why a tensor's layout has no single storage; None for a strided one."""
    layout = layout_of(tensor)
    if layout is torch.strided:
        return None
    name = name_of(layout)
    return "sparse" if name.startswith("sparse") else f"layout: {name}"


def storage_address(tensor: torch.Tensor, storage: torch.UntypedStorage) -> int:
    """Give where a storage begins, 0 for nowhere, without making a lazy clone real."""
    if _data_address is not None:
        address: int = _data_address(tensor)
        return address
    return storage.data_ptr()


def see(tensor: torch.Tensor, path: str, notes: Notes) -> Sight | None:
    """Read a tensor's facts.

    Args:
        tensor: Any tensor.
        path: Where the facts will stand, such as ``tensors.after.delta``.
        notes: Takes the fields that can't be had.
    """
    with notes.attempting(path):
        if type(tensor) in _PLAIN and layout_of(tensor) is torch.strided:
            nature = _nature(tensor)
            if nature.wrapping is None and not nature.python:
                return _see_plain(tensor, path, notes, nature)
        return _see_odd(tensor, path, notes)
    return None


def _nature(tensor: torch.Tensor) -> _Nature:
    keys = _dispatch_keys(tensor)
    known = keys.raw_repr()
    nature = _natures.get(known)
    if nature is None:
        nature = _natures[known] = _nature_of(keys)
    return nature


def _nature_of(keys: Any) -> _Nature:
    key = C.DispatchKey
    reasons = {
        "vmap": key.FuncTorchBatched,
        "functorch": key.FuncTorchGradWrapper,
        "functionalized": key.Functionalize,
        "nested": key.NestedTensor,
    }
    wrapped = next((reason for reason, key_ in reasons.items() if keys.has(key_)), None)
    altered = any(keys.has(each) for each in (key.Conjugate, key.Negative, key.ZeroTensor))
    return _Nature(wrapped, keys.has(key.Python), keys.has(key.CPU) and not altered)


def _see_plain(tensor: torch.Tensor, path: str, notes: Notes, nature: _Nature) -> Sight:
    shape, dtype, count = tuple(shape_of(tensor)), dtype_of(tensor), numel(tensor)
    offset, size = offset_of(tensor), element_size(tensor)
    stride, contiguous = stride_of(tensor), is_contiguous(tensor)
    storage = storage_of(tensor)
    base, nbytes = storage_address(tensor, storage), storage.nbytes()
    data_ptr, no_address, memory = base + offset * size, "", None
    if not (base and count):
        no_address = _no_address(tensor, count)
        notes.add(f"{path}.data_ptr", no_address)
        data_ptr = None
    elif nature.direct and contiguous and dtype in _KINDS and (offset + count) * size <= nbytes:
        memory = data_ptr, _KINDS[dtype]
    device = "cpu" if nature.direct else name_of(device_of(tensor))
    front = (shape, name_of(dtype), device, "strided", *_autograd(tensor, path, notes), data_ptr)
    back = (offset, stride, count * size, is_view(tensor), contiguous)
    return Sight(front, back, storage, nbytes, base or None, no_address, memory)


def _no_address(tensor: torch.Tensor, count: int) -> str:
    if device_of(tensor).type == "meta":
        return "meta"
    return "not-allocated" if count else "empty"


def _autograd(tensor: torch.Tensor, path: str, notes: Notes) -> tuple[Any, ...]:
    leaf, retains = is_leaf(tensor), retains_grad(tensor)
    name, has_grad, version = None, None, None
    tangent: bool | None = False
    if not leaf:
        with notes.attempting(path, "grad_fn"):
            name = grad_fn_of(tensor).name()
    if leaf or retains:
        has_grad = grad_of(tensor) is not None
    if forward_ad._current_level >= 0:
        tangent = _has_tangent(tensor, path, notes)
    if is_inference(tensor):
        notes.add(f"{path}.version", "inference")
    else:
        version = version_of(tensor)
    return leaf, requires_grad(tensor), retains, name, has_grad, tangent, version


def _has_tangent(tensor: torch.Tensor, path: str, notes: Notes) -> bool | None:
    with notes.attempting(path, "has_tangent"), Graphless():
        if wrapping(tensor) is not None:
            raise NotKnown("wrapped")
        dual = torch._VF._unpack_dual(tensor, level=forward_ad._current_level)
        return dual.tangent is not None
    return None


def _see_odd(tensor: torch.Tensor, path: str, notes: Notes) -> Sight:
    nature = _nature(tensor)
    reason = wrapping(tensor) or layout_reason(tensor)
    if nature.python and reason != "fake":
        with Refusing():
            return _see_wrapped(tensor, path, notes, reason or "subclass")
    if reason is None and torch.nn.parameter.is_lazy(tensor):
        raise NotKnown("uninitialized")
    if reason is None:
        return _see_plain(tensor, path, notes, nature)
    return _see_wrapped(tensor, path, notes, reason)


def _see_wrapped(tensor: torch.Tensor, path: str, notes: Notes, reason: str) -> Sight:
    """Read the facts of a tensor that has no storage of its own, or none that means anything."""
    shape = tuple(shape_of(tensor))
    if not all(type(size) is int for size in shape):
        raise NotKnown("symbolic-shape")
    names = name_of(dtype_of(tensor)), name_of(device_of(tensor)), name_of(layout_of(tensor))
    front = (shape, *names, *_autograd(tensor, path, notes), None)
    strided = layout_of(tensor) is torch.strided
    for field in ("data_ptr", "storage") if strided else _OF_MEMORY:
        notes.add(f"{path}.{field}", reason)
    back: tuple[Any, ...] = (None, None, None, is_view(tensor), None)
    if strided:
        nbytes, contiguous = numel(tensor) * element_size(tensor), is_contiguous(tensor)
        back = (offset_of(tensor), stride_of(tensor), nbytes, is_view(tensor), contiguous)
    return Sight(front, back, no_address=reason)
