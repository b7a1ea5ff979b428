"""One delta all along, written through `.data`, as advertorch does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from _shapes import Seen
from shapes.models import pictures


def perturb_iterative(
    xvar: Tensor,
    yvar: Tensor,
    predict: nn.Module,
    nb_iter: int,
    eps: float,
    eps_iter: float,
    seen: Seen,
) -> Tensor:
    ord = float("inf")  # noqa: A001 - the name that the public loop has
    delta = torch.zeros_like(xvar)
    delta.uniform_(-eps, eps)
    seen.made(delta)
    delta.requires_grad_()
    for _ in range(nb_iter):
        outputs = predict(xvar + delta)
        nn.functional.cross_entropy(outputs, yvar).backward()  # type: ignore[no-untyped-call]
        assert delta.grad is not None
        grad_sign = delta.grad.data.sign()
        gradient = delta.grad.clone()
        delta.data = delta.data + eps_iter * grad_sign
        delta.data = torch.clamp(delta.data, -eps, eps)
        delta.data = torch.clamp(xvar.data + delta.data, 0, 1) - xvar.data
        seen.moved(delta, gradient)
        delta.grad.data.zero_()
    assert ord > 0
    return torch.clamp(xvar + delta, 0, 1)


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    for _ in range(rounds):
        seen.result(perturb_iterative(images, labels, model, 4, 0.05, 0.02, seen))
        model.zero_grad()
