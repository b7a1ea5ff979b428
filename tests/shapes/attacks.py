"""Attack objects: adversarial images without a delta, as torchattacks has them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from _shapes import Seen
from shapes.models import pictures


class Attack:
    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def get_logits(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        return logits

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        return self.forward(images, labels)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        raise NotImplementedError


class LinfSteps(Attack):
    def __init__(self, model: nn.Module, seen: Seen) -> None:
        super().__init__(model)
        self.seen, self.eps, self.alpha, self.steps = seen, 8 / 255, 3 / 255, 4

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        images = images.clone().detach()
        adv_images = images.clone().detach()
        adv_images = adv_images + torch.empty_like(adv_images).uniform_(-self.eps, self.eps)
        adv_images = torch.clamp(adv_images, min=0, max=1).detach()
        self.seen.made(adv_images - images)
        for _ in range(self.steps):
            adv_images.requires_grad = True
            cost = nn.functional.cross_entropy(self.get_logits(adv_images), labels)
            grad = torch.autograd.grad(cost, adv_images, retain_graph=False)[0]
            adv_images = adv_images.detach() + self.alpha * grad.sign()
            delta = torch.clamp(adv_images - images, min=-self.eps, max=self.eps)
            adv_images = torch.clamp(images + delta, min=0, max=1).detach()
            self.seen.moved(adv_images - images, grad)
        return adv_images


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    attack = LinfSteps(model, seen)
    for _ in range(rounds):
        seen.result(attack(images, labels), images)
