"""Projected gradient descent (Madry et al., 2018) on scikit-learn's handwritten digits."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from pertdbg.errors import PertdbgError


class PgdLayer(nn.Module):
    """Adds delta to images in 0..1; delta never leaves epsilon, nor the images their range."""

    input: Tensor
    perturbed: Tensor

    def __init__(self, epsilon: float, step_size: float) -> None:
        """Make a layer in clean mode."""
        super().__init__()
        self.epsilon = epsilon
        self.step_size = step_size
        self.delta: Tensor | None = None
        self.adversarial_mode = False

    def adversarial_(self, adversarial: bool = True) -> None:
        """Switch adversarial mode; off drops delta."""
        self.adversarial_mode = adversarial
        if not adversarial:
            self.delta = None

    def forward(self, images: Tensor) -> Tensor:
        """Return the images or, in adversarial mode, the perturbed ones."""
        if self.adversarial_mode:
            if self.delta is None:
                self.update_delta(requires_grad=True)
            return self.perturbed
        self.input = images
        return self.input

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Start anywhere within epsilon, or go a step along the gradient's sign."""
        if self.delta is None:
            delta = torch.empty_like(self.input).uniform_(-self.epsilon, self.epsilon)
        else:
            grad = self.delta.grad
            assert grad is not None
            delta = self.delta.detach()
            delta = delta + self.step_size * grad.sign()
        delta = (self.input + delta).clamp(0, 1) - self.input
        delta = delta.clamp(-self.epsilon, self.epsilon)  # last: rounding must not undo it
        self.delta = delta.requires_grad_(requires_grad)
        self.perturbed = self.input + self.delta
        return True


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    """Give the 1,797 images, as rows of 64 pixels in 0..1, and their labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise PertdbgError(
            "the digits come with scikit-learn, which is not installed; "
            "install it with: pip install 'pertdbg[digits]'"
        ) from error
    found = load_digits()
    return torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)


def build(layer: nn.Module, hidden: int, rounds: int) -> nn.Module:
    """Make a network behind the layer and teach it the digits."""
    images, labels = digits()
    head = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    parameters = list(head.parameters())
    for _ in range(rounds):
        loss = nn.functional.cross_entropy(head(images), labels)
        for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= 0.5 * grad  # torch.optim would do, and takes a second to import
    return nn.Sequential(layer, head)
