"""SMART: noise on an embedding; the last turn of the endless loop only returns."""

from __future__ import annotations

from itertools import count

import torch
from torch import Tensor
from torch.nn import functional

from _shapes import Seen
from shapes.models import Words


class Smoothness:
    def __init__(self, model: Words, seen: Seen, steps: int = 3, step_size: float = 1e-2) -> None:
        self.model, self.seen, self.steps, self.step_size = model, seen, steps, step_size

    def divergence(self, a: Tensor, b: Tensor) -> Tensor:
        return functional.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="sum")

    def forward(self, embed: Tensor, reference: Tensor) -> Tensor:
        noise = torch.randn_like(embed, requires_grad=True) * 1e-3
        self.seen.made(noise)
        for turn in count():
            moved = self.model(embed + noise)
            if turn == self.steps:
                return self.divergence(moved, reference)
            gap = self.divergence(moved, reference.detach())
            (gradient,) = torch.autograd.grad(gap, noise)
            step = noise + self.step_size * gradient
            noise = step / (step.abs().amax(-1, keepdim=True) + 1e-6)
            noise = noise.detach().requires_grad_()
            self.seen.moved(noise, gradient)
        raise AssertionError


def run(rounds: int, seen: Seen) -> None:
    model = Words()
    seen.watch(model)
    smoothness = Smoothness(model, seen)
    for _ in range(rounds):
        embedded = model.embedding(torch.randint(1, 40, (4, 5)))
        loss = smoothness.forward(embedded, model(embedded))
        loss.backward()  # type: ignore[no-untyped-call]
        seen.result(loss, model.embedding.weight.grad, model.head[0].weight.grad)
