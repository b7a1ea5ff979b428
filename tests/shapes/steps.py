"""The steps of an attack as an object, and a loop in a function inside a method: robustness."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from _shapes import Seen
from shapes.models import pictures


class LinfStep:
    def __init__(self, orig_input: Tensor, eps: float, step_size: float) -> None:
        self.orig_input, self.eps, self.step_size = orig_input, eps, step_size

    def project(self, x: Tensor) -> Tensor:
        diff = torch.clamp(x - self.orig_input, -self.eps, self.eps)
        return torch.clamp(diff + self.orig_input, 0, 1)

    def step(self, x: Tensor, g: Tensor) -> Tensor:
        return x + torch.sign(g) * self.step_size

    def random_perturb(self, x: Tensor) -> Tensor:
        return torch.clamp(x + 2 * (torch.rand_like(x) - 0.5) * self.eps, 0, 1)


class Attacker:
    def __init__(self, model: nn.Module, seen: Seen) -> None:
        self.model, self.seen = model, seen

    def attack(self, x: Tensor, target: Tensor, iterations: int = 4) -> Tensor:
        orig_input = x.detach()
        step = LinfStep(orig_input, eps=0.05, step_size=0.02)

        def get_adv_examples(x: Tensor) -> Tensor:
            x = step.random_perturb(x)
            self.seen.made(x - orig_input)
            for _ in range(iterations):
                x = x.clone().detach().requires_grad_(True)
                losses = nn.functional.cross_entropy(self.model(x), target, reduction="none")
                (grad,) = torch.autograd.grad(torch.mean(losses), [x])
                with torch.no_grad():
                    x = step.step(x, grad)
                    x = step.project(x)
                self.seen.moved(x - orig_input, grad)
            return x.clone().detach()

        return get_adv_examples(x)


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    attacker = Attacker(model, seen)
    for _ in range(rounds):
        seen.result(attacker.attack(images, labels))
