"""The reference layer: the perturbation layer of scale-invariant fine-tuning (SiFT)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class PerturbationLayer(nn.Module):
    """Adds a small learned perturbation, delta, to a normalised input.

    A clean pass normalises its input, keeps it as `input` and returns it. In adversarial mode
    the layer returns `perturbated_input`, that is `input` plus `delta`, whatever its argument is.
    `update_delta` makes delta, and later moves it along its gradient.

    The names and the numbers, bit for bit, are those of the layer in DeBERTa's SiFT.
    """

    input: Tensor
    """The normalised input of the last clean pass, with its graph."""
    perturbated_input: Tensor
    """`input` plus `delta`, in the dtype of `input`."""

    def __init__(
        self, hidden_size: int, learning_rate: float = 1e-4, init_perturbation: float = 1e-2
    ) -> None:
        """Make a layer without a delta, in clean mode.

        Args:
            hidden_size: Length of the last dimension of the input.
            learning_rate: Largest step of an element of delta in one update.
            init_perturbation: Standard deviation of the first delta; it is clamped at twice that.
        """
        super().__init__()
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=1e-7, elementwise_affine=False)
        self.learning_rate = learning_rate
        self.init_perturbation = init_perturbation
        self.adversarial_mode = False
        self.delta: Tensor | None = None

    def adversarial_(self, adversarial: bool = True) -> None:
        """Switch adversarial mode on, or off; off drops delta."""
        self.adversarial_mode = adversarial
        if not adversarial:
            self.delta = None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the normalised input or, in adversarial mode, the perturbed one."""
        if self.adversarial_mode:
            if self.delta is None:
                self.update_delta(requires_grad=True)
            return self.perturbated_input
        self.input = self.LayerNorm(hidden)
        return self.input

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Make delta if there is none, else move it along its gradient.

        The first delta is clamped to ``2 * init_perturbation``; later ones are not. In each row
        (last dimension) the largest element of the step is `learning_rate`, unless the gradient
        there is as small as the guard, 1e-6, in the denominator.

        Args:
            requires_grad: Whether a backward is to fill the new delta's gradient.

        Returns:
            False if the gradient's norm is NaN or infinite: delta stays, its gradient is gone.

        Raises:
            AttributeError: There is a delta but no gradient: no backward filled it.
        """
        if not self.adversarial_mode:
            return True
        if self.delta is None:
            bound = 2 * self.init_perturbation
            noise = torch.empty_like(self.input, requires_grad=False)
            noise.normal_(0, self.init_perturbation)
            delta = noise.float()
            delta = delta.clamp(-bound, bound)
        else:
            delta = self.delta
            grad: Any = delta.grad
            delta.grad = None
            norm = grad.norm()
            if torch.isnan(norm) or torch.isinf(norm):
                return False
            with torch.no_grad():
                row_max = grad.abs().max(-1, keepdim=True)[0]
                step = self.learning_rate * grad / (1e-6 + row_max)
                delta = delta + step
        delta = delta.float()
        delta = delta.detach()
        self.delta = delta.requires_grad_(requires_grad)
        source = self.input.to(self.delta)
        source = source.detach()
        perturbed = source + self.delta
        self.perturbated_input = perturbed.to(self.input)
        return True
