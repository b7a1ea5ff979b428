"""One tensor at one moment inside a call, as facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from pertdbg.agent.base import dtype_of, numel, version_of
from pertdbg.agent.lines.storages import Storages
from pertdbg.agent.measure import CORE
from pertdbg.agent.numbers import Plan, Raw, Want, settle
from pertdbg.agent.quiet import Notes, NotKnown, Ungraded
from pertdbg.agent.tensors import Sight, see
from pertdbg.agent.values import Pool, Values, copy_of, values_of
from pertdbg.event import LineTensor

VALUES_LIMIT = 1 << 26
"""Elements whose values are read inside one call; beyond it flags and storages alone are."""

COPY_LIMIT = 1 << 22
"""Elements of a tensor up to which it is copied before an operation writes to it."""

_NUMBERS = Want(norm=True)
_OVER = "more values than are read inside one call"

Numbers = tuple[float | None, float | None]
"""Norm and max |x|."""


class Reader:
    """Reads tensors inside one call. All of it wants `Quiet` around it."""

    def __init__(self, storages: Storages, *, core: bool, use_numpy: bool = True) -> None:
        self.storages = storages
        self._core, self._use_numpy = core, use_numpy
        self._left = VALUES_LIMIT
        self._known: dict[tuple[Any, ...], Numbers] = {}
        """By the storage, which `storages` tells from any later one, and the place in it."""
        self._pool = Pool()

    def forget(self) -> None:
        """Forget the values that were read: somebody may have written since."""
        self._known.clear()

    def read(
        self, tensor: torch.Tensor, path: str, notes: Notes, names: Iterable[Iterable[str]] = ()
    ) -> LineTensor:
        """Give the facts of a tensor.

        Args:
            tensor: Any tensor.
            path: Where the facts will stand in the event.
            notes: Takes what can't be had.
            names: Names of other tensors in its storage, and other names of the tensor itself.
        """
        sight = see(tensor, path, notes)
        if sight is None:
            return LineTensor((), "unknown", "unknown", *(None,) * 6)
        shape, dtype, device, _, leaf, requires, _, grad_fn, has_grad, _, version, _ = sight.front
        label = None if sight.storage is None else self.storages.label(sight.storage)
        norm, largest = self._numbers(tensor, sight, path, notes)
        facts = (shape, dtype, device, leaf, requires, grad_fn, has_grad, version, label)
        return LineTensor(*facts, norm, largest, *(tuple(each) for each in names))

    def copy(self, tensor: torch.Tensor) -> Values | None:
        """Keep the values of a tensor that is about to be written to, if it is not too large."""
        if self._core or numel(tensor) > COPY_LIMIT:
            return None
        with Notes().attempting(""), Ungraded():
            return copy_of(self._values(tensor, numel(tensor)), self._pool)
        return None

    def give(self, values: Values | None) -> None:
        """Take a copy back."""
        if values is not None:
            self._pool.give(values)

    def unequal(self, a: Values | torch.Tensor, b: torch.Tensor) -> int | None:
        """Count the elements that differ; None where that can't be had."""
        if self._core:
            return None
        with Notes().attempting(""), Ungraded():
            first = a if isinstance(a, Values) else self._values(a, numel(a))
            second = self._values(b, numel(b))
            if first.count != second.count or first.is_complex() != second.is_complex():
                return None
            if not first.count:
                return 0
            plan = Plan()
            raw = plan.unequal(first, second)
            plan.run()
            return int(settle([raw])[0]["count"])
        return None

    def _numbers(self, tensor: torch.Tensor, sight: Sight, path: str, notes: Notes) -> Numbers:
        shape, dtype, *_, version, _ = sight.front
        stored = None if sight.storage is None else sight.storage._cdata
        key = stored, shape, dtype, version, *sight.back[:2]
        known = self._known.get(key)
        if known is not None and stored is not None:
            return known
        numbers: Numbers = (None, None)
        with notes.attempting(path, "norm", "max_abs"):
            numbers = self._known[key] = self._computed(tensor, sight)
        return numbers

    def _computed(self, tensor: torch.Tensor, sight: Sight) -> Numbers:
        if self._core:
            raise NotKnown(CORE)
        with Ungraded():
            values = self._values(tensor, numel(tensor), sight)
            if not values.count:
                return 0.0, None
            plan = Plan()
            raw: Raw = plan.level(values, _NUMBERS)
            plan.run()
            (found,) = settle([raw])
        return found["norm"], found["max_abs"]

    def _values(self, tensor: torch.Tensor, count: int, sight: Sight | None = None) -> Values:
        """Get at values, as far as the budget of the call goes."""
        if count > self._left:
            raise NotKnown(_OVER)
        self._left -= count
        return values_of(tensor, sight, use_numpy=self._use_numpy)


def is_number(tensor: torch.Tensor) -> bool:
    """Say whether comparing values with those of another dtype makes sense."""
    dtype = dtype_of(tensor)
    return bool(dtype.is_floating_point or dtype.is_complex)


def version(tensor: torch.Tensor) -> int | None:
    """Give the version counter; inference tensors have none."""
    try:
        found: int = version_of(tensor)
    except RuntimeError:
        return None
    return found
