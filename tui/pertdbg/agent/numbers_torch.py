"""Numbers by torch's own operations: off the CPU, for complex values, and where there is no numpy.

Nothing here waits for a device: each number stays a tensor until `numbers.settle` fetches all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from pertdbg.agent.values import Values

if TYPE_CHECKING:
    from pertdbg.agent.numbers import Raw, Want


def _double(x: Values) -> torch.Tensor:
    wide = torch.complex128 if x.tensor.is_complex() else torch.float64
    return x.tensor.to(wide)


def _scale(largest: torch.Tensor) -> torch.Tensor:
    """Give what to divide by so that squares neither overflow nor vanish."""
    fits = torch.isfinite(largest) & (largest > 0)
    return torch.where(fits, largest, torch.ones_like(largest))


def level(x: Values, want: Want) -> Raw:
    """See `Plan.level`."""
    wide = _double(x)
    size = wide.abs()
    largest = size.amax()
    scale = _scale(largest)
    nan = torch.isnan(wide)
    raw: Raw = {"max_abs": largest, "nan": nan.sum(), "inf": (torch.isinf(wide) & ~nan).sum()}
    if want.norm:
        raw["norm"] = (size / scale).square().sum().sqrt() * scale
    if not x.is_complex():
        raw["min"], raw["max"] = wide.amin(), wide.amax()
        if want.moments:
            raw.update(_moments(wide, scale))
    if want.zeros:
        raw["zeros"] = (wide == 0).sum()
    if want.guard is not None:
        raw.update(_rows(size.reshape(-1, x.row), want.guard))
    if want.bound is not None:
        raw["beyond"] = (size > want.bound).sum()
        if want.at_bound:
            raw["at"] = (size == want.bound).sum()
    return raw


def _moments(wide: torch.Tensor, scale: torch.Tensor) -> Raw:
    low, high = wide.amin(), wide.amax()
    scaled = wide / scale
    mean = scaled.sum() / wide.numel()
    std = ((scaled - mean).square().sum() / wide.numel()).sqrt() * scale
    constant = low == high
    return {
        "mean": torch.where(constant, low, mean * scale),
        "std": torch.where(constant & torch.isfinite(low), torch.zeros_like(std), std),
    }


def _rows(table: torch.Tensor, guard: float) -> Raw:
    largest = table.amax(dim=1)
    live = largest != 0
    return {"live": live.sum(), "low": (live & (largest < guard)).sum()}


def differ(a: Values, b: Values) -> Raw:
    """See `Plan.differ`."""
    return {"max": (_double(a) - _double(b)).abs().amax(), **unequal(a, b)}


def unequal(a: Values, b: Values) -> Raw:
    """See `Plan.unequal`."""
    return {"count": (_double(a) != _double(b)).sum()}


def same(a: Values, b: Values) -> Raw:
    """See `Plan.same`."""
    x, y = _double(a), _double(b)
    return {"same": ((x == y) | (torch.isnan(x) & torch.isnan(y))).all()}


def turn(a: Values, a0: Values, b: Values, b0: Values) -> Raw:
    """See `Plan.turn`."""
    u, v = _double(a) - _double(a0), _double(b) - _double(b0)
    u, v = (change / _scale(change.abs().amax()) for change in (u, v))
    return {
        "aa": (u * u.conj()).sum().real,
        "bb": (v * v.conj()).sum().real,
        "ab": (u * v.conj()).sum().real,
    }
