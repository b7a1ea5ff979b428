"""Mistakes about leaves, graphs and memory: the reference layer, each time with one thing wrong.

Compare each update with `pertdbg.PerturbationLayer.update_delta`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pertdbg import PerturbationLayer


class Mistake(PerturbationLayer):
    """The parts that the mistakes have in common, done right."""

    def first(self) -> Tensor:
        """Draw a delta within its bound."""
        bound = 2 * self.init_perturbation
        return (torch.randn_like(self.input) * self.init_perturbation).clamp(-bound, bound).detach()

    def step(self, grad: Tensor) -> Tensor:
        """Give the step along a gradient: in each row the largest element is the learning rate."""
        return self.learning_rate * grad / (1e-6 + grad.abs().amax(-1, keepdim=True))

    def moved(self) -> Tensor:
        """Give delta after its step, without a graph."""
        assert self.delta is not None
        grad = self.delta.grad
        return self.delta.detach() + self.step(grad)  # type: ignore[arg-type]


class ClampedTooLate(Mistake):
    """Asks for a gradient first and clamps then, so that delta is no leaf."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Keep the result of clamp."""
        delta = self.first() if self.delta is None else self.moved()
        self.delta = delta.requires_grad_(requires_grad).clamp(-1, 1)
        self.perturbated_input = self.input.detach() + self.delta
        return True


class PathCut(Mistake):
    """Detaches the perturbed input, and with it the path to delta."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Detach once too often."""
        delta = self.first() if self.delta is None else self.moved()
        self.delta = delta.requires_grad_(requires_grad)
        self.perturbated_input = (self.input + self.delta).detach()
        return True


class NoGradientAsked(Mistake):
    """Forgets that a new tensor requires no gradient."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Ignore what the loop asks for."""
        del requires_grad
        self.delta = self.first() if self.delta is None else self.moved()
        self.perturbated_input = self.input.detach() + self.delta
        return True


class InputAttached(Mistake):
    """Leaves the graph of the clean pass behind the input."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Add delta to the input as it is."""
        delta = self.first() if self.delta is None else self.moved()
        self.delta = delta.requires_grad_(requires_grad)
        self.perturbated_input = self.input + self.delta
        return True


class GraphGrows(Mistake):
    """Builds each delta on the one before, graph and all."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Make the gradient of a non-leaf available, and so hide that it is none."""
        if self.delta is None:
            self.delta = self.first().requires_grad_(requires_grad)
        else:
            grad = self.delta.grad
            self.delta = self.delta + self.step(grad)  # type: ignore[arg-type]
            self.delta.retain_grad()
        self.perturbated_input = self.input.detach() + self.delta
        return True


class LeafInPlace(Mistake):
    """Writes to a leaf that requires a gradient."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Add the step with an augmented assignment."""
        if self.delta is None:
            self.delta = self.first().requires_grad_(requires_grad)
        else:
            grad = self.delta.grad
            self.delta += self.step(grad)  # type: ignore[arg-type]
        self.perturbated_input = self.input.detach() + self.delta
        return True


class WrongGradient(Mistake):
    """Asks the perturbed input for its gradient; it is no leaf, and has none."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Read .grad where there is nothing to read."""
        if self.delta is None:
            delta = self.first()
        else:
            grad = self.perturbated_input.grad
            delta = self.delta.detach() + self.step(grad)  # type: ignore[arg-type]
        self.delta = delta.requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.delta
        return True


class GradientKept(Mistake):
    """Moves one delta in place for ever and never clears its gradient."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Step along the sum of all gradients so far."""
        if self.delta is None:
            self.delta = self.first().requires_grad_(requires_grad)
        else:
            grad = self.delta.grad
            self.delta.data.add_(self.step(grad))  # type: ignore[arg-type]
        self.perturbated_input = self.input.detach() + self.delta
        return True


class NotPerturbedAnew(Mistake):
    """Moves delta and goes on with the old perturbed input."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Make the perturbed input once."""
        if self.delta is None:
            self.delta = self.first().requires_grad_(requires_grad)
            self.perturbated_input = self.input.detach() + self.delta
            return True
        grad = self.delta.grad
        self.delta.grad = None
        self.delta.data = self.delta.data + self.step(grad)  # type: ignore[arg-type]
        return True


class BestKeptByDetach(Mistake):
    """Keeps a delta by detach and then moves it in place: what is kept moves, too."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Keep the first delta, or so it seems, as `best`."""
        if self.delta is None:
            self.delta = self.first().requires_grad_(requires_grad)
            self.best = self.delta.detach()
        else:
            grad = self.delta.grad
            self.delta.grad = None
            with torch.no_grad():
                self.delta.add_(self.step(grad))  # type: ignore[arg-type]
        self.perturbated_input = self.input.detach() + self.delta
        return True
