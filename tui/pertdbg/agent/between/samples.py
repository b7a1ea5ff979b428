"""A few of a tensor's values, kept to tell later whether they are the same."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from pertdbg.agent.base import is_cpu, is_inference, numel, shape_of, storage_of, version_of
from pertdbg.agent.tensors import is_tensor, layout_reason, wrapping

ELEMENTS = 128
"""About how many elements are kept of a tensor; a smaller one is kept whole."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Some values of a tensor, copied."""

    shape: tuple[int, ...]
    values: torch.Tensor

    def same(self, other: Sample) -> bool:
        """Say whether two are equal to the bit, and of tensors of one shape."""
        mine, theirs = self.values, other.values
        if self.shape != other.shape or mine.dtype != theirs.dtype:
            return False
        return bool(torch.equal(mine, theirs)) or _bytes(mine) == _bytes(theirs)

    def mostly(self, other: Sample) -> bool:
        """Say whether at least half of the values are equal, of tensors of one shape and type."""
        mine, theirs = self.values, other.values
        if self.shape != other.shape or mine.dtype != theirs.dtype or not mine.numel():
            return False
        return 2 * int(torch.count_nonzero(mine == theirs)) >= mine.numel()

    def close(self, values: torch.Tensor) -> bool:
        """Say whether other values of the same places are about equal."""
        mine, theirs = self.values.double(), values.double()
        return mine.shape == theirs.shape and bool(torch.allclose(mine, theirs, 1e-2, 1e-6))


def sample(tensor: Any) -> Sample | None:
    """Copy some values of a tensor; None where that would wait for a device, or can't be."""
    if not at_hand(tensor):
        return None
    count = numel(tensor)
    return Sample(tuple(shape_of(tensor)), torch.take(tensor, _places(count)))


def at_hand(tensor: Any) -> bool:
    """Say whether something is a tensor whose values can be read without waiting for a device."""
    if not is_tensor(tensor) or not is_cpu(tensor) or layout_reason(tensor):
        return False
    return wrapping(tensor) is None


def is_parameter(tensor: Any) -> bool:
    """Say whether a tensor is a parameter, by its type alone."""
    return issubclass(type(tensor), torch.nn.Parameter)


def version(tensor: torch.Tensor) -> int | None:
    """Give a tensor's version; None for one that has none."""
    return None if is_inference(tensor) else int(version_of(tensor))


def address(tensor: Any) -> int | None:
    """Give where a tensor's storage begins; None where it has no memory of its own."""
    if not is_tensor(tensor) or layout_reason(tensor) or wrapping(tensor):
        return None
    return storage_of(tensor).data_ptr() or None


@functools.lru_cache(maxsize=256)
def _places(count: int) -> torch.Tensor:
    """Choose places over the whole length; an odd step, so that no column is all there is."""
    return torch.arange(0, count, max(count // ELEMENTS, 1) | 1)


def _bytes(values: torch.Tensor) -> bytes:
    return bytes(values.view(torch.uint8).tolist()) if values.numel() else b""
