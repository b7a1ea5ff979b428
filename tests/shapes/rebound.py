"""Attacks of one step, which give the moved image another name or none at all."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from _shapes import Seen
from shapes.models import pictures


def named(model: nn.Module, x: Tensor, y: Tensor, eps: float, seen: Seen) -> Tensor:
    x = x.clone().requires_grad_()
    functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    x_adv = x + eps * x.grad.sign()
    x_adv = torch.clamp(x_adv, 0, 1).detach()
    seen.made(x_adv - x, "named", x.grad)
    return x_adv


def returned(model: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(functional.cross_entropy(model(x), y), x)
    size = slope.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    return (x + eps * slope.div(size)).detach()


def bent(image: Tensor, epsilon: float, gradient: Tensor) -> Tensor:
    return (image + epsilon * gradient.sign()).clamp(0, 1)


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(rounds):
        seen.result(named(model, images, labels, 0.03, seen))
        model.zero_grad()
        found = returned(model, images, labels, 0.5)
        seen.made(found - images, "returned")
        seen.result(found)
        x = images.clone().requires_grad_()
        functional.cross_entropy(model(x), labels).backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        data_grad = x.grad.data
        adversarial = bent(x, 0.04, data_grad)
        seen.made(adversarial - x, "run", data_grad)
        optimizer.zero_grad()
        functional.cross_entropy(model(adversarial.detach()), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seen.result(adversarial, *model.parameters())
