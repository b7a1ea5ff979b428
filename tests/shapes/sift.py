"""A SiFT layer that lives in the closure of a pre-hook, so that no module holds it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from _shapes import Seen
from shapes.models import Words


class Perturbing(nn.Module):
    delta: Tensor | None
    input: Tensor
    perturbated_input: Tensor

    def __init__(self, width: int, init_perturbation: float = 0.02) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, 1e-7, elementwise_affine=False)
        self.init_perturbation, self.learning_rate = init_perturbation, 5e-3
        self.adversarial_mode, self.delta = False, None

    def adversarial_(self, on: bool = True) -> None:
        self.adversarial_mode = on
        if not on:
            self.delta = None

    def update_delta(self, requires_grad: bool = False) -> bool:
        limit = 2 * self.init_perturbation
        if self.delta is None:
            delta = self.init_perturbation * torch.randn_like(self.input)
            delta = delta.clamp(-limit, limit)
        else:
            gradient: Any = self.delta.grad
            self.delta.grad = None
            if not bool(gradient.norm().isfinite()):
                return False
            rows = gradient.abs().amax(-1, keepdim=True) + 1e-6
            delta = self.delta.detach() + self.learning_rate * gradient / rows
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.delta
        return True

    def forward(self, hidden: Tensor) -> Tensor:
        if self.adversarial_mode:
            if self.delta is None:
                self.update_delta(True)
            return self.perturbated_input
        self.input = self.norm(hidden)
        return self.input


def run(rounds: int, seen: Seen) -> None:
    model = Words()
    layer = Perturbing(12)
    model.register_forward_pre_hook(lambda _, args: (layer(args[0]),))
    seen.watch(model.head)
    for _ in range(rounds):
        ids, labels = torch.randint(1, 40, (4, 5)), torch.randint(0, 3, (4,))
        model(model.embedding(ids))
        layer.adversarial_()
        loss = functional.cross_entropy(model(model.embedding(ids)), labels)
        assert layer.delta is not None
        seen.made(layer.delta)
        loss.backward()  # type: ignore[no-untyped-call]
        gradient = layer.delta.grad
        layer.update_delta(requires_grad=True)
        seen.moved(layer.delta, gradient)
        seen.result(layer.delta, layer.perturbated_input, model.embedding.weight.grad)
        layer.adversarial_(False)
