"""What the tests of the probe share: a bare layer to observe, and numbers computed apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from pertdbg.agent.probe import Observation, Probe, Roles

PICTURES = frozenset({"histogram", "map"})

FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]

both_paths = pytest.mark.parametrize("use_numpy", [True, False], ids=["numpy", "torch"])


@dataclass
class Layer:
    """The three tensors that a layer would hold."""

    delta: Any = None
    input: Any = None
    perturbed_input: Any = None

    def roles(self) -> Roles:
        return Roles(self.delta, self.input, self.perturbed_input)


def observe(
    layer: Layer,
    update: Callable[[Layer], object] = lambda layer: None,
    *,
    facts: Any = "all",
    use_numpy: bool = True,
    pictures: frozenset[str] = frozenset(),
    probe: Probe | None = None,
    **entry: Any,
) -> Any:
    """Give the `Observation` of one update; the tests know which of its parts are there."""
    probe = probe or Probe(facts=facts, use_numpy=use_numpy)
    begun = probe.enter(layer.roles(), **entry)
    update(layer)
    return probe.leave(begun, layer.roles(), pictures=lambda count: pictures)


def reasons(seen: Observation) -> dict[str, str]:
    return {unknown.field: unknown.reason for unknown in seen.unknown}


def with_gradient(values: torch.Tensor, gradient: torch.Tensor | None) -> torch.Tensor:
    """Make a leaf that holds a gradient."""
    leaf = values.clone().requires_grad_()
    leaf.grad = gradient
    return leaf


def numbers(tensor: torch.Tensor) -> list[float]:
    """Give the elements as Python floats, which hold each of them exactly."""
    return tensor.detach().to(torch.float64).reshape(-1).tolist()


def norm(values: list[float]) -> float:
    """The L2 norm, in a way that cannot overflow: infinite where an element is, else scaled."""
    if any(map(math.isnan, values)):
        return math.nan
    largest = max(map(abs, values), default=0.0)
    if largest in (0.0, math.inf):
        return largest
    return largest * math.sqrt(math.fsum((value / largest) ** 2 for value in values))


def least(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else min(values)


def greatest(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values)


def close(expected: float, rel: float = 1e-12) -> Any:
    """Equal up to the rounding of a float64 sum; NaN equals NaN."""
    return pytest.approx(expected, rel=rel, abs=0.0, nan_ok=True)
