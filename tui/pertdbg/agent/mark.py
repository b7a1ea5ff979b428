"""Whether a tensor still has the values that it had, told without a copy of a large one."""

from __future__ import annotations

import torch

from pertdbg.agent.base import is_inference, numpy, version_of
from pertdbg.agent.numbers import Plan, Raw
from pertdbg.agent.values import Pool, Values, copy_of, values_of

_COPIED = 32768
"""Elements up to which a tensor is copied."""
_SAMPLE = 512
"""About how many elements of a larger one are kept."""


class Mark:
    """Tells later whether a tensor still has the values that it has now.

    Small tensors are copied and compared whole. Of a large one on the CPU the version counter
    and a sample of elements are kept, and the tensor itself, alive: a write to a few elements
    through `.data` may pass unseen.
    """

    def __init__(self, tensor: torch.Tensor, values: Values, pool: Pool) -> None:
        self._tensor, self._version = tensor, _version(tensor)
        self._shape, self._step = values.shape, max(values.count // _SAMPLE, 1) | 1
        self._sample = self._copy = None
        if values.array is None or values.count <= _COPIED:
            self._copy = copy_of(values, pool)
        else:
            self._sample = values.array[:: self._step].copy()

    def compare(self, tensor: torch.Tensor, values: Values, plan: Plan) -> Raw:
        """Ask whether a tensor's values are those of the moment when this mark was made."""
        if values.shape != self._shape:
            return {"same": 0.0}
        if self._copy is not None:
            return plan.same(values, self._copy) if values.count else {"same": 1.0}
        if tensor is self._tensor:
            return {"same": float(self._holds(values))}
        original = values_of(self._tensor, None, use_numpy=True)
        return plan.same(values, original) if self._holds(original) else {"same": 0.0}

    def release(self, pool: Pool) -> None:
        """Give a copy's buffer back."""
        if self._copy is not None:
            pool.give(self._copy)

    def _holds(self, values: Values) -> bool:
        if values.shape != self._shape or _version(self._tensor) != self._version:
            return False
        sample = values.array[:: self._step]
        return bool(numpy.array_equal(sample, self._sample, equal_nan=True))


def _version(tensor: torch.Tensor) -> int | None:
    return None if is_inference(tensor) else int(version_of(tensor))
