"""The values of a live tensor as bytes, taken unnoticed."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

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
    offset_of,
    shape_of,
    storage_of,
)
from pertdbg.agent.quiet import NotKnown, Quiet, Ungraded
from pertdbg.agent.tensors import is_tensor, layout_reason, name_of, storage_address
from pertdbg.agent.values import refuse_unreadable
from pertdbg.recording.dtypes import DTYPES


@dataclass(frozen=True, slots=True)
class TensorCopy:
    """What `Recorder.tensor` takes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    """Row by row, little endian."""


def copy_tensor(tensor: object) -> TensorCopy:
    """Copy a tensor's values, bit for bit, as it is at this moment.

    Nothing of it changes: no value, version, gradient, graph, mode or random state, and a lazy
    clone stays one. A sparse tensor is spread out, a quantized one becomes float32.

    Raises:
        NotKnown: They can't be had; `reason` says why.
    """
    if not is_tensor(tensor):
        raise NotKnown(f"not a tensor: {type(tensor).__name__}")
    with Quiet(), Ungraded():
        try:
            return _copy(tensor)
        except (RuntimeError, MemoryError) as error:  # such as no room on the device
            text = str(error).partition("\n")[0][:200]
            raise NotKnown(f"error: {type(error).__name__}: {text}") from error


def _copy(tensor: torch.Tensor) -> TensorCopy:
    refuse_unreadable(tensor)
    if layout_reason(tensor):
        tensor = tensor.to_dense()
    elif is_quantized(tensor):
        tensor = tensor.dequantize()
    dtype = name_of(dtype_of(tensor))
    if dtype not in DTYPES:
        raise NotKnown(f"dtype: {dtype}")
    if is_conj(tensor) or is_neg(tensor):
        tensor = tensor.resolve_conj().resolve_neg()
    if not is_contiguous(tensor):
        tensor = tensor.contiguous()
    if device_of(tensor).type != "cpu":
        tensor = tensor.cpu()
    if sys.byteorder == "big":
        raise NotKnown("big-endian")
    nbytes = numel(tensor) * element_size(tensor)
    address = storage_address(tensor, storage_of(tensor)) + offset_of(tensor) * element_size(tensor)
    data = ctypes.string_at(address, nbytes) if nbytes else b""
    return TensorCopy(dtype, tuple(shape_of(tensor)), data)
