"""VAT by power iterations: the next direction is the old gradient, normalised in place."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax, softmax

from _shapes import Seen


def _l2_normalize(d: Tensor) -> Tensor:
    d /= d.flatten(1).norm(dim=1, keepdim=True) + 1e-8
    return d


class VirtualLoss:
    def __init__(self, seen: Seen, xi: float = 0.1, eps: float = 1.0, ip: int = 2) -> None:
        self.seen, self.xi, self.eps, self.ip = seen, xi, eps, ip

    def forward(self, model: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            pred = softmax(model(x), dim=1)
        d = torch.rand(x.shape).sub(0.5)
        d = _l2_normalize(d)
        self.seen.made(d)
        for _ in range(self.ip):
            d.requires_grad_()
            pred_hat = model(x + self.xi * d)
            adv_distance = kl_div(log_softmax(pred_hat, dim=1), pred, reduction="batchmean")
            adv_distance.backward()  # type: ignore[no-untyped-call]
            assert d.grad is not None
            gradient = d.grad.clone()
            d = _l2_normalize(d.grad)
            model.zero_grad()
            self.seen.moved(d, gradient)
        r_adv = d * self.eps
        pred_hat = model(x + r_adv)
        return kl_div(log_softmax(pred_hat, dim=1), pred, reduction="batchmean")


def run(rounds: int, seen: Seen, dropout: float = 0.2) -> None:
    model = nn.Sequential(nn.Linear(8, 20), nn.ReLU(), nn.Dropout(dropout), nn.Linear(20, 3))
    seen.watch(model)
    loss_of = VirtualLoss(seen)
    for _ in range(rounds):
        loss = loss_of.forward(model, torch.randn(6, 8))
        loss.backward()  # type: ignore[no-untyped-call]
        seen.result(loss, model[0].weight.grad, model[3].weight.grad)
