"""The reference layer once more, written another way, to compare the shipped one with."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class OtherLayer(nn.Module):
    """Keeps what it knows in one dictionary and goes through functions; no line is shared."""

    def __init__(self, width: int, rate: float = 1e-4, start: float = 1e-2) -> None:
        super().__init__()
        self.width, self.rate, self.start = width, rate, start
        self.state: dict[str, Any] = {"on": False, "delta": None}

    def adversarial_(self, adversarial: bool = True) -> None:
        self.state.update(on=adversarial, delta=self.state["delta"] if adversarial else None)

    @property
    def delta(self) -> Tensor:
        found: Tensor = self.state["delta"]
        return found

    def forward(self, hidden: Tensor) -> Tensor:
        if not self.state["on"]:
            self.state["clean"] = torch.layer_norm(hidden, (self.width,), eps=1e-7)
        elif self.state["delta"] is None:
            self.update_delta(True)
        found: Tensor = self.state["perturbed" if self.state["on"] else "clean"]
        return found

    def update_delta(self, requires_grad: bool = False) -> bool:
        if not self.state["on"]:
            return True
        values = self._first() if self.state["delta"] is None else self._moved()
        if values is None:
            return False
        leaf = torch.empty(values.shape, dtype=torch.float32, requires_grad=requires_grad)
        leaf.data.copy_(values)
        clean = self.state["clean"].data
        self.state["delta"] = leaf
        self.state["perturbed"] = torch.add(leaf, clean.type(torch.float32)).type(clean.dtype)
        return True

    def _first(self) -> Tensor:
        clean: Tensor = self.state["clean"]
        noise = torch.normal(0.0, self.start, tuple(clean.shape), dtype=clean.dtype)
        limit = torch.tensor(2 * self.start, dtype=torch.float32)
        return torch.minimum(torch.maximum(noise.type(torch.float32), -limit), limit)

    def _moved(self) -> Tensor | None:
        delta: Tensor = self.state["delta"]
        gradient, delta.grad = delta.grad, None
        assert gradient is not None
        if not math.isfinite(torch.linalg.vector_norm(gradient).item()):
            return None
        rows = torch.amax(torch.abs(gradient), dim=-1, keepdim=True)
        return delta.data + torch.div(torch.mul(gradient, self.rate), torch.add(rows, 1e-6))
