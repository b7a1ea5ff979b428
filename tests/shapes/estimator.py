"""Projected gradient steps over an estimator, numpy in and out, as the robustness toolbox has."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from _shapes import Seen
from shapes.models import pictures


class Estimator:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.loss = model, nn.CrossEntropyLoss()

    def loss_gradient(self, x: Tensor, y: Tensor) -> Tensor:
        x_grad = x.clone().detach().requires_grad_(True)
        loss = self.loss(self.model(x_grad), y)
        self.model.zero_grad()
        loss.backward()
        assert x_grad.grad is not None
        return x_grad.grad


class Projected:
    def __init__(self, estimator: Estimator, seen: Seen, norm: Any, eps: float) -> None:
        self.estimator, self.seen, self.norm, self.eps = estimator, seen, norm, eps
        self.eps_step, self.max_iter = eps / 3, 4
        self.gradient: Tensor | None = None

    def generate(self, x: np.ndarray[Any, Any], y: Tensor) -> np.ndarray[Any, Any]:
        adv_x = x.astype(np.float32)
        adv_x[:] = self._generate_batch(torch.from_numpy(x), y, self.eps, self.eps_step)
        return adv_x

    def _generate_batch(
        self, x: Tensor, targets: Tensor, eps: float, eps_step: float
    ) -> np.ndarray[Any, Any]:
        inputs = x.to("cpu")
        adv_x = torch.clone(inputs)
        self.seen.made(adv_x - inputs)
        for i_max_iter in range(self.max_iter):
            adv_x = self._compute_pytorch(
                adv_x, inputs, targets, eps, eps_step, random_init=i_max_iter == 0
            )
            self.seen.moved(adv_x - inputs, self.gradient)
        return adv_x.detach().numpy()

    def _compute_pytorch(
        self,
        x: Tensor,
        x_init: Tensor,
        y: Tensor,
        eps: float,
        eps_step: float,
        *,
        random_init: bool,
    ) -> Tensor:
        x_adv = x
        if random_init:
            x_adv = x + torch.empty_like(x).uniform_(-eps, eps) / 50
        perturbation = self._compute_perturbation_pytorch(x_adv, y)
        x_adv = self._apply_perturbation_pytorch(x_adv, perturbation, eps_step)
        perturbation = self._projection(x_adv - x_init, eps)
        return perturbation + x_init

    def _compute_perturbation_pytorch(self, x: Tensor, y: Tensor) -> Tensor:
        grad = self.estimator.loss_gradient(x=x, y=y)
        self.gradient = grad
        if self.norm in ("inf", np.inf):
            return grad.sign()
        size = grad.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        return grad.div(size + 1e-7)

    def _apply_perturbation_pytorch(
        self, x: Tensor, perturbation: Tensor, eps_step: float
    ) -> Tensor:
        return torch.clamp(x + eps_step * perturbation, 0, 1)

    def _projection(self, values: Tensor, eps: float) -> Tensor:
        if self.norm in ("inf", np.inf):
            return values.clamp(-eps, eps)
        size = values.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        return values * torch.clamp(eps / (size + 1e-7), max=1)


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    for norm, eps in ((np.inf, 0.05), (2, 0.4)):
        attack = Projected(Estimator(model), seen, norm, eps)
        for _ in range(rounds):
            seen.result(torch.from_numpy(attack.generate(images.numpy(), labels)))
