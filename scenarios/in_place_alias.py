"""A perturbation layer that adds in place, and so perturbs what it keeps as the clean input."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class AliasLayer(nn.Module):
    """Like the reference layer, but for one underscore."""

    input: Tensor
    perturbed: Tensor

    def __init__(self, width: int, learning_rate: float = 1e-4, limit: float = 0.02) -> None:
        """Make a layer in clean mode."""
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.learning_rate = learning_rate
        self.limit = limit
        self.adversarial_mode = False
        self.delta: Tensor | None = None

    def adversarial_(self, adversarial: bool = True) -> None:
        """Switch adversarial mode; off drops delta."""
        self.adversarial_mode = adversarial
        if not adversarial:
            self.delta = None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the normalised input or, in adversarial mode, the perturbed one."""
        if self.adversarial_mode:
            if self.delta is None:
                self.update_delta(requires_grad=True)
            return self.perturbed
        self.input = self.norm(hidden)
        return self.input

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Make delta, or move it along its gradient."""
        if self.delta is None:
            delta = torch.randn(self.input.shape) * self.limit / 2
            delta = delta.clamp(-self.limit, self.limit)
        else:
            grad = self.delta.grad
            assert grad is not None
            delta = self.delta.detach()
            delta = delta + self.learning_rate * grad / (1e-6 + grad.abs().amax(-1, keepdim=True))
        self.delta = delta.requires_grad_(requires_grad)
        self.perturbed = self.input.detach().add_(self.delta)  # the same memory as self.input
        return True
