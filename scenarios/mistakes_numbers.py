"""Mistakes about numbers: steps, bounds, types and sizes; each time one thing is wrong.

Compare each update with `pertdbg.PerturbationLayer.update_delta`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pertdbg import PerturbationLayer


class Mistake(PerturbationLayer):
    """What the mistakes have in common, done right."""

    def first(self) -> Tensor:
        """Draw a delta within its bound."""
        bound = 2 * self.init_perturbation
        return (torch.randn_like(self.input) * self.init_perturbation).clamp(-bound, bound).detach()

    def step(self) -> Tensor:
        """Give the step along the gradient: in each row the largest element is the rate."""
        grad = self.gradient()
        return self.learning_rate * grad / (1e-6 + grad.abs().amax(-1, keepdim=True))

    def gradient(self) -> Tensor:
        """Give delta's gradient."""
        assert self.delta is not None
        assert self.delta.grad is not None
        return self.delta.grad

    def keep(self, delta: Tensor, requires_grad: bool) -> bool:
        """Make delta a leaf and perturb the input."""
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbated_input = (self.input.detach() + self.delta).to(self.input)
        return True


class NanLetThrough(Mistake):
    """Takes any gradient, be it NaN."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Do not look at the norm."""
        delta = self.first() if self.delta is None else self.delta + self.step()
        return self.keep(delta, requires_grad)


class NothingInTheDenominator(Mistake):
    """Divides by the largest element of a row, be it 0."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Leave out the small number that guards the division."""
        if self.delta is None:
            return self.keep(self.first(), requires_grad)
        grad = self.gradient()
        step = self.learning_rate * grad / grad.abs().amax(-1, keepdim=True)
        return self.keep(self.delta + step, requires_grad)


class BallAroundTheLast(Mistake):
    """Clamps the step and not its sum."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Put the box around the last delta, so that it wanders with it."""
        bound = 2 * self.init_perturbation
        if self.delta is None:
            return self.keep(self.first(), requires_grad)
        step = (0.01 * self.gradient().sign()).clamp(-bound, bound)
        return self.keep(self.delta + step, requires_grad)


class StartsAtZero(Mistake):
    """Starts where the divergence has its least value, and so no slope."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Make the first delta of zeros."""
        zeros = torch.zeros_like(self.input)
        delta = zeros if self.delta is None else self.delta + self.step()
        return self.keep(delta, requires_grad)


class HalfDelta(Mistake):
    """Keeps delta in the type of the model."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Add steps to a number that is too coarse for them."""
        delta = self.first() if self.delta is None else self.delta + self.step()
        return self.keep(delta.to(self.input), requires_grad)


class OneRow(Mistake):
    """Makes one row of delta for a whole batch."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Let broadcasting hide that the shape is another."""
        delta = self.first()[:1] if self.delta is None else self.delta + self.step()
        return self.keep(delta, requires_grad)


class NothingAdded(Mistake):
    """Multiplies by a strength that is zero."""

    strength = 0

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Perturb by nothing."""
        delta = self.first() if self.delta is None else self.delta + self.step()
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.strength * self.delta
        return True


class NotCastBack(Mistake):
    """Hands a float32 tensor to a model in another type."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Leave out the cast at the end."""
        delta = self.first() if self.delta is None else self.delta + self.step()
        self.delta = delta.float().detach().requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.delta
        return True


class StepLost(Mistake):
    """Computes the new delta and does not keep it."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Call add where add_ was meant."""
        delta = self.first() if self.delta is None else self.delta.detach()
        if self.delta is not None:
            delta.add(self.step())
        return self.keep(delta, requires_grad)


class DrawnAnew(Mistake):
    """Draws a new delta for every step, so that none is ever improved."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Add the step to noise that the gradient does not belong to."""
        delta = self.first() if self.delta is None else self.first() + self.step()
        return self.keep(delta, requires_grad)
