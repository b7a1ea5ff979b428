"""Gradient descent over a wrapper of tensors, as foolbox does over eagerpy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from _shapes import Seen
from shapes.models import pictures


class Wrapped:
    __slots__ = ("_raw",)

    def __init__(self, raw: Tensor) -> None:
        self._raw = raw

    @property
    def raw(self) -> Tensor:
        return self._raw

    def __add__(self, other: Wrapped) -> Wrapped:
        return Wrapped(self.raw + other.raw)

    def __sub__(self, other: Wrapped) -> Wrapped:
        return Wrapped(self.raw - other.raw)

    def __mul__(self, factor: float) -> Wrapped:
        return Wrapped(self.raw * factor)

    def sign(self) -> Wrapped:
        return Wrapped(self.raw.sign())

    def clip(self, low: float, high: float) -> Wrapped:
        return Wrapped(self.raw.clamp(low, high))


LossFn = Callable[[Wrapped], Wrapped]


def _value_and_grad(f: LossFn, x: Wrapped) -> tuple[Wrapped, Wrapped]:
    x = Wrapped(x.raw.clone().requires_grad_())
    loss = f(x).raw
    loss.backward()  # type: ignore[no-untyped-call]
    assert x.raw.grad is not None
    return Wrapped(loss.detach()), Wrapped(x.raw.grad)


class LinfDescent:
    def __init__(self, seen: Seen) -> None:
        self.seen, self.steps, self.rel_stepsize = seen, 4, 0.3

    def value_and_grad(self, loss_fn: LossFn, x: Wrapped) -> tuple[Wrapped, Wrapped]:
        return _value_and_grad(loss_fn, x)

    def project(self, x: Wrapped, x0: Wrapped, epsilon: float) -> Wrapped:
        return x0 + (x - x0).clip(-epsilon, epsilon)

    def run(self, model: nn.Module, inputs: Tensor, labels: Tensor, *, epsilon: float) -> Tensor:
        x0 = Wrapped(inputs)

        def loss_fn(x: Wrapped) -> Wrapped:
            return Wrapped(nn.functional.cross_entropy(model(x.raw), labels))

        stepsize = self.rel_stepsize * epsilon
        noise = Wrapped(torch.empty_like(inputs).uniform_(-epsilon, epsilon))
        x = x0 + noise
        x = x.clip(0, 1)
        self.seen.made(x.raw - x0.raw)
        for _ in range(self.steps):
            _, gradients = self.value_and_grad(loss_fn, x)
            kept = gradients
            gradients = gradients.sign()
            x = x + gradients * stepsize
            x = self.project(x, x0, epsilon)
            x = x.clip(0, 1)
            self.seen.moved(x.raw - x0.raw, kept.raw)
        return x.raw


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    attack = LinfDescent(seen)
    for _ in range(rounds):
        seen.result(attack.run(model, images, labels, epsilon=0.05), images)
        model.zero_grad()
