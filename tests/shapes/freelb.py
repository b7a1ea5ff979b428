"""FreeLB inside one long training function, with both norms, and a backward behind a wrapper."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from _shapes import Seen
from shapes.models import Words


class Optimizer:
    """Hides the backward pass, as optimizers for mixed precision do."""

    def __init__(self, parameters: Any) -> None:
        self.inner = torch.optim.SGD(parameters, lr=0.05)

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def step(self) -> None:
        self.inner.step()
        self.inner.zero_grad()


def train(
    model: Words, optimizer: Optimizer, seen: Seen, batches: int, norm_type: str, adv_steps: int = 3
) -> None:
    adv_lr, adv_init_mag, adv_max_norm = 0.05, 0.04, 0.06
    for _ in range(batches):
        ids, labels = torch.randint(1, 40, (4, 5)), torch.randint(0, 3, (4,))
        embeds_init = model.embedding(ids)
        if norm_type == "l2":
            delta = torch.zeros_like(embeds_init).uniform_(-1, 1)
            size = torch.tensor(embeds_init[0].numel()).sqrt()
            delta = (delta * adv_init_mag / size).detach()
        else:
            delta = torch.zeros_like(embeds_init).uniform_(-adv_init_mag, adv_init_mag)
        seen.made(delta)
        for astep in range(adv_steps):
            delta.requires_grad_()
            embeds_init = model.embedding(ids)
            loss = functional.cross_entropy(model(embeds_init + delta), labels) / adv_steps
            optimizer.backward(loss)
            assert delta.grad is not None
            delta_grad = delta.grad.clone().detach()
            if astep == adv_steps - 1:
                seen.moved(delta, delta_grad)
                break
            if norm_type == "l2":
                denorm = delta_grad.view(4, -1).norm(dim=1).view(-1, 1, 1).clamp(min=1e-8)
                delta = (delta + adv_lr * delta_grad / denorm).detach()
                over = delta.view(4, -1).norm(dim=1).view(-1, 1, 1) / adv_max_norm
                delta = (delta / over.clamp(min=1)).detach()
            else:
                denorm = delta_grad.abs().amax((1, 2), keepdim=True).clamp(min=1e-8)
                delta = (delta + adv_lr * delta_grad / denorm).detach()
                delta = torch.clamp(delta, -adv_max_norm, adv_max_norm).detach()
            seen.moved(delta, delta_grad)
        optimizer.step()
        seen.result(delta, model.embedding.weight)


def run(rounds: int, seen: Seen) -> None:
    model: nn.Module = Words()
    assert isinstance(model, Words)
    seen.watch(model)
    optimizer = Optimizer(model.parameters())
    train(model, optimizer, seen, rounds, "l2")
    train(model, optimizer, seen, rounds, "linf")
