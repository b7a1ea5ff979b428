"""The values of a tensor in a form that can be computed with exactly."""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass
from typing import Any

import torch

from pertdbg.agent.base import (
    device_of,
    dtype_of,
    element_size,
    is_conj,
    is_contiguous,
    is_neg,
    is_quantized,
    numel,
    numpy,
    offset_of,
    shape_of,
    storage_of,
    stride_of,
)
from pertdbg.agent.quiet import NotKnown
from pertdbg.agent.tensors import Sight, layout_reason, storage_address, wrapping

_AS_THEY_ARE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_DENSE_LIMIT = 1 << 24
"""Elements up to which a sparse tensor is spread out to be measured."""


@dataclass(slots=True)
class Values:
    """A tensor's values, contiguous, in float32, float64 or their complex kin, none rounded.

    (Integers beyond 2**53 are: they become float64.)
    """

    tensor: torch.Tensor
    """May be the caller's own tensor: read it, and let it go when the call ends."""
    array: Any
    """The same memory as a flat, read-only numpy array; None for complex values, off the CPU and
    without numpy."""
    shape: tuple[int, ...]
    private: bool = False
    """The memory is ours, so that nobody will write to it."""

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def row(self) -> int:
        """Length of the last dimension."""
        return self.shape[-1] if self.shape else 1

    def is_complex(self) -> bool:
        """Say whether the values are complex, and so have no order."""
        return self.array is None and self.tensor.is_complex()


def values_of(tensor: torch.Tensor, sight: Sight | None, *, use_numpy: bool) -> Values:
    """Get at the values of a tensor, without a copy where its memory can be read as it is.

    Args:
        tensor: Any tensor.
        sight: What was seen of it just now.
        use_numpy: Whether numpy may be used where it can be imported.

    Raises:
        NotKnown: They can't be had; the reason says why.
    """
    if sight is not None and sight.memory is not None and use_numpy and numpy is not None:
        address, kind = sight.memory
        return Values(tensor, _array(address, kind, math.prod(sight.shape)), sight.shape)
    refuse_unreadable(tensor)
    dense = _dense(tensor)
    return _values(dense, private=dense is not tensor, use_numpy=use_numpy)


def copy_of(values: Values, pool: Pool) -> Values:
    """Make values safe from later writes of the caller: copy them, unless they are ours already."""
    if values.private:
        return values
    if values.array is None:
        copy = values.tensor.clone(memory_format=torch.contiguous_format)
        return Values(copy, None, values.shape, private=True)
    tensor, array = pool.take(values)
    numpy.copyto(array, values.array)
    return Values(tensor, array, values.shape, private=True)


def expanded(values: Values, shape: tuple[int, ...]) -> Values:
    """Repeat values to a larger shape, as broadcasting would.

    Raises:
        NotKnown: The shapes do not go together.
    """
    if values.shape == shape:
        return values
    try:
        dense = values.tensor.expand(shape).contiguous()
    except RuntimeError:
        raise NotKnown("shapes-differ") from None
    return _values(dense, private=True, use_numpy=values.array is not None)


class Pool:
    """Buffers for copies, used again from call to call: fresh memory costs more than the copy."""

    def __init__(self, spare: int = 3, sizes: int = 3) -> None:
        self._spare, self._sizes = spare, sizes
        self._free: dict[tuple[torch.dtype, int], list[tuple[torch.Tensor, Any]]] = {}

    def take(self, like: Values) -> tuple[torch.Tensor, Any]:
        """Give a buffer of the shape and dtype of values, and the flat array over it."""
        dtype = like.tensor.dtype
        try:
            tensor, array = self._free[dtype, like.count].pop()
        except (KeyError, IndexError):
            tensor = torch.empty(like.count, dtype=dtype, device="cpu")
            array = tensor.numpy()
        return tensor.view(like.shape), array

    def give(self, values: Values) -> None:
        """Take a buffer back; other values are only let go."""
        if values.array is None or not values.array.flags.writeable:
            return
        if len(self._free) > self._sizes:
            self._free = {}
        free = self._free.setdefault((values.tensor.dtype, values.count), [])
        if len(free) < self._spare:
            free.append((values.tensor.view(-1), values.array))


def _values(dense: torch.Tensor, *, private: bool, use_numpy: bool) -> Values:
    array, shape = None, tuple(shape_of(dense))
    readable = use_numpy and numpy is not None and dense.device.type == "cpu"
    if readable and not dense.is_complex() and numel(dense):
        kind = "f4" if dtype_of(dense) is torch.float32 else "f8"
        base = storage_address(dense, storage_of(dense))
        address = base + offset_of(dense) * element_size(dense)
        array = numpy.asarray(_Memory(address, kind, numel(dense), owner=dense))
    return Values(dense, array, shape, private)


def refuse_unreadable(tensor: torch.Tensor) -> None:
    """Say why a tensor's values can't be read.

    Raises:
        NotKnown: They can't.
    """
    reason = wrapping(tensor)
    if reason:
        raise NotKnown(reason)
    device = device_of(tensor)
    if device.type == "meta":
        raise NotKnown("meta")
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise NotKnown("stream-capturing")
    reason = layout_reason(tensor)
    if reason is None:
        _refuse_unallocated(tensor)
    elif numel(tensor) > _DENSE_LIMIT:
        raise NotKnown(f"{reason}, too large to spread out")


def _refuse_unallocated(tensor: torch.Tensor) -> None:
    """Refuse a tensor whose storage is gone or too small: a read there could crash the process."""
    if not numel(tensor):
        return
    storage = storage_of(tensor)
    steps = zip(shape_of(tensor), stride_of(tensor), strict=True)
    last = offset_of(tensor) + sum((size - 1) * stride for size, stride in steps)
    too_small = (last + 1) * element_size(tensor) > storage.nbytes()
    if too_small or not storage_address(tensor, storage):
        raise NotKnown("not-allocated")


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Give the values contiguously, in a dtype that holds them, on a device that has float64."""
    if device_of(tensor).type == "mps":
        tensor = tensor.cpu()  # there is no float64
    if layout_reason(tensor):
        tensor = tensor.to_dense()
    elif is_quantized(tensor):
        tensor = tensor.dequantize()
    if dtype_of(tensor) not in _AS_THEY_ARE:
        tensor = tensor.to(_wider(dtype_of(tensor)))
    if is_conj(tensor) or is_neg(tensor):
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if is_contiguous(tensor) else tensor.contiguous()


def _wider(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex64
    return torch.float32 if dtype.is_floating_point else torch.float64


class _Memory:
    """Memory of a tensor in the form that numpy reads.

    `Tensor.numpy` is not asked, since it forbids the storage to be resized ever after and turns
    a lazy clone into a real one.
    """

    def __init__(
        self, address: int, kind: str, count: int, owner: torch.Tensor | None = None
    ) -> None:
        order = "<" if sys.byteorder == "little" else ">"
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, True),
            "shape": (count,),
            "typestr": order + kind,
            "version": 3,
        }


@functools.lru_cache(maxsize=64)
def _array(address: int, kind: str, count: int) -> Any:
    """Give the array over memory that it does not own, for use while the tensor is held."""
    return numpy.asarray(_Memory(address, kind, count))
