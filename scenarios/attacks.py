"""Six ways to perturb, done right: SMART, FreeLB, VAT, PGD, FGM and AWP, as layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Attack(nn.Module):
    """Keeps the input of the clean pass and returns it; in adversarial mode, perturbed."""

    input: Tensor
    perturbed: Tensor

    def __init__(self) -> None:
        """Make a layer in clean mode."""
        super().__init__()
        self.adversarial_mode = False
        self.delta: Tensor | None = None

    def adversarial_(self, adversarial: bool = True) -> None:
        """Switch adversarial mode; off drops delta."""
        self.adversarial_mode = adversarial
        if not adversarial:
            self.delta = None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the input or, in adversarial mode, the perturbed one."""
        if not self.adversarial_mode:
            self.input = hidden
            return hidden
        if self.delta is None:
            self.update_delta(requires_grad=True)
        return self.perturbed

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Make delta, or move it along its gradient."""
        raise NotImplementedError


class SmartLayer(Attack):
    """SMART (Jiang and others, 2020): a small random start, steps normalised by the largest."""

    def __init__(self, noise: float = 1e-3, step_size: float = 1e-3, epsilon: float = 1e-6) -> None:
        """Make a layer."""
        super().__init__()
        self.noise = noise
        self.step_size = step_size
        self.epsilon = epsilon

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Draw noise, or go a step and normalise the whole by its largest element in a row."""
        if self.delta is None:
            delta = torch.randn_like(self.input) * self.noise
        else:
            gradient = self.delta.grad
            assert gradient is not None
            norm = gradient.norm()
            if torch.isnan(norm) or torch.isinf(norm):
                return False
            delta = self.delta.detach()
            step = gradient / (gradient.abs().amax(-1, keepdim=True) + self.epsilon)
            delta = delta + self.step_size * step
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbed = self.input.detach() + self.delta
        return True


class FreeLbLayer(Attack):
    """FreeLB (Zhu and others, 2020): L2 steps in a ball around the embedding of each row."""

    def __init__(self, radius: float = 0.3, step_size: float = 0.1, init: float = 0.1) -> None:
        """Make a layer."""
        super().__init__()
        self.radius = radius
        self.step_size = step_size
        self.init = init

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Draw delta by the size of a row, or go a step of fixed length and project."""
        if self.delta is None:
            delta = torch.zeros_like(self.input).uniform_(-1, 1)
            delta = delta * self.init / self.input[0].numel() ** 0.5
        else:
            gradient = self.delta.grad
            assert gradient is not None
            norm = gradient.flatten(1).norm(dim=1).clamp(min=1e-8)
            delta = self.delta + self.step_size * gradient / norm.view(-1, 1, 1)
            length = delta.flatten(1).norm(dim=1)
            scale = (self.radius / (length + 1e-8)).clamp(max=1)
            delta = delta * scale.view(-1, 1, 1)
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbed = self.input.detach() + self.delta
        return True


class VatLayer(Attack):
    """Virtual adversarial training (Miyato and others, 2018): power iteration by gradients."""

    def __init__(self, xi: float = 1e-2) -> None:
        """Make a layer."""
        super().__init__()
        self.xi = xi

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Take the gradient as the next direction, and put it at the small distance xi."""
        if self.delta is None:
            direction = torch.randn_like(self.input)
        else:
            gradient = self.delta.grad
            assert gradient is not None
            direction = gradient.clone()
            self.delta.grad = None
        with torch.no_grad():
            length = direction.flatten(1).norm(dim=1) + 1e-12
            delta = self.xi * direction / length.view(-1, 1, 1)
        self.delta = delta.requires_grad_(requires_grad)
        self.perturbed = self.input.detach() + self.delta
        return True


class PgdLayer(Attack):
    """Projected gradient descent (Madry and others, 2018) within a box of epsilon."""

    def __init__(self, radius: float = 0.05, step_size: float = 0.01) -> None:
        """Make a layer."""
        super().__init__()
        self.radius = radius
        self.step_size = step_size

    @torch.no_grad()
    def update_delta(self, requires_grad: bool = False) -> bool:
        """Start anywhere in the box, or go a step along the sign and clip."""
        if self.delta is None:
            delta = torch.empty_like(self.input).uniform_(-self.radius, self.radius)
        else:
            gradient = self.delta.grad
            assert gradient is not None
            delta = self.delta + self.step_size * gradient.sign()
        delta = torch.clamp(delta, -self.radius, self.radius)
        self.delta = delta.requires_grad_(requires_grad)
        with torch.enable_grad():
            self.perturbed = self.input.detach() + self.delta
        return True


class FgmLayer(Attack):
    """The fast gradient method (Miyato and others, 2017): one step of L2 length epsilon."""

    def __init__(self, radius: float = 0.5) -> None:
        """Make a layer."""
        super().__init__()
        self.radius = radius

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Start at nothing, then go all the way at once."""
        if self.delta is None:
            delta = torch.zeros(self.input.shape, dtype=self.input.dtype)
        else:
            gradient = self.delta.grad
            assert gradient is not None
            norm = torch.norm(gradient)
            if norm == 0 or torch.isnan(norm):
                return False
            delta = self.radius * gradient / norm
            self.delta.grad = None
        self.delta = delta
        self.delta.requires_grad = requires_grad
        self.perturbed = self.input.data + self.delta
        return True


class AwpLayer(Attack):
    """Adversarial weight perturbation (Wu and others, 2020): delta is added to a weight."""

    def __init__(self, width: int, gamma: float = 0.02) -> None:
        """Make a linear layer whose weight is perturbed."""
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gamma = gamma

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the layer with its weight or, in adversarial mode, with the perturbed one."""
        self.input = self.linear.weight
        if not self.adversarial_mode:
            return functional.linear(hidden, self.input, self.linear.bias)
        if self.delta is None:
            self.update_delta(requires_grad=True)
        return functional.linear(hidden, self.perturbed, self.linear.bias)

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Start at nothing, then go up by a share of the weight's own norm."""
        if self.delta is None:
            delta = torch.zeros_like(self.input, requires_grad=False)
        else:
            gradient = self.delta.grad
            assert gradient is not None
            with torch.no_grad():
                scale = self.input.norm() / (gradient.norm() + 1e-12)
                delta = self.delta + self.gamma * scale * gradient
                limit = self.gamma * self.input.norm()
                delta = delta * (limit / (delta.norm() + 1e-12)).clamp(max=1)
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbed = self.input.detach() + self.delta
        return True
