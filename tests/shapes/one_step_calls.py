"""Each step is a call of a one-step attack, which takes the gradient of a copy: cleverhans."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from _shapes import Seen
from shapes.models import pictures


def fast_gradient_method(model_fn: nn.Module, x: Tensor, eps: float, y: Tensor) -> Tensor:
    x = x.clone().detach().to(torch.float).requires_grad_(True)
    loss = nn.functional.cross_entropy(model_fn(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return x + eps * x.grad.sign()


def clip_eta(eta: Tensor, eps: float) -> Tensor:
    return torch.clamp(eta, -eps, eps)


def projected_gradient_descent(
    model_fn: nn.Module, x: Tensor, y: Tensor, seen: Seen, eps: float = 0.06, nb_iter: int = 4
) -> Tensor:
    norm, eps_iter = float("inf"), 0.02
    eta = torch.zeros_like(x).uniform_(-eps, eps)
    eta = clip_eta(eta, eps)
    adv_x = x + eta
    adv_x = torch.clamp(adv_x, 0, 1)
    seen.made(adv_x - x)
    i = 0
    while i < nb_iter:
        adv_x = fast_gradient_method(model_fn, adv_x, eps_iter, y)
        eta = adv_x - x
        eta = clip_eta(eta, eps)
        adv_x = x + eta
        adv_x = torch.clamp(adv_x, 0, 1)
        i += 1
        seen.moved(adv_x - x, None)
    assert norm > 0
    return adv_x


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    for _ in range(rounds):
        seen.result(projected_gradient_descent(model, images, labels, seen))
        model.zero_grad()
