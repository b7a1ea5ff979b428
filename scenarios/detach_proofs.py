"""What the documentation says of `Tensor.detach`, each statement as a layer to step through.

`source` is a tensor and `result` what came of it; the panels show them as the input and the
perturbed input. The loop around has nothing to do here: what it gets is the input as it was.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.autograd.forward_ad as forward
from torch import Tensor, nn


class Proof(nn.Module):
    """Makes delta and lets the loop run; a subclass states something in its update."""

    input: Tensor
    source: Tensor
    result: Tensor
    passed: Tensor

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
        """Keep and return the input; in adversarial mode, return it with a leaf for backward."""
        if not self.adversarial_mode:
            self.input = hidden
            return hidden
        if self.delta is None:
            self.update_delta(requires_grad=True)
        return self.passed

    def start(self, requires_grad: bool) -> Tensor:
        """Make a delta of zeros, and what the loop is to get."""
        self.delta = torch.zeros(self.input.shape, requires_grad=requires_grad)
        self.passed = self.input.detach() + torch.zeros((), requires_grad=True)
        return self.delta

    def update_delta(self, requires_grad: bool = False) -> bool:
        """State something of detach."""
        raise NotImplementedError


class SharesStorage(Proof):
    """The result is another tensor on the same memory."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Detach, and do nothing else."""
        self.start(requires_grad)
        self.source = self.input
        self.result = self.source.detach()
        return True


class Independent(Proof):
    """A clone of the result has memory of its own."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Write into a detached clone."""
        self.start(requires_grad)
        self.source = self.input
        self.result = self.source.detach().clone()
        self.result.add_(1)
        return True


class NeverRequiresGrad(Proof):
    """The result is a leaf that requires no gradient, whatever the source is."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Detach the result of an operation that has a graph."""
        delta = self.start(requires_grad)
        self.source = (delta + 1) * 3
        self.result = self.source.detach()
        return True


class NoTangent(Proof):
    """In forward mode the source carries a tangent and the result carries none."""

    level: Any = None

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Detach a dual tensor; its level stays open, so that it can be looked at."""
        self.start(requires_grad)
        if self.level is None:
            self.level = forward.enter_dual_level()  # type: ignore[no-untyped-call]
        plain = self.input.detach()
        self.source = forward.make_dual(plain, torch.ones_like(plain))  # type: ignore[no-untyped-call]
        self.result = self.source.detach()
        return True


class SeenBothWays(Proof):
    """A write into the result is a write into the source, and the other way round."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Write into both; each write counts a version more for both."""
        self.start(requires_grad)
        self.source = self.input.detach().clone()
        self.result = self.source.detach()
        self.result.add_(1)
        self.source.mul_(2)
        return True


class VersionError(Proof):
    """Backward needs what an operation saved, and finds that it was written to."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Write into the detached result of exp, whose backward needs that result."""
        delta = self.start(requires_grad)
        self.source = delta.exp()
        self.result = self.source.detach()
        self.result.mul_(4)
        self.source.sum().backward()  # type: ignore[no-untyped-call]
        return True


class SilentData(Proof):
    """The same through .data: no version is counted, and the gradient is wrong."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Make the gradient of exp at 0, which is 1, four times as large."""
        delta = self.start(requires_grad)
        self.source = delta.exp()
        self.result = self.source.data
        self.result.mul_(4)
        self.source.sum().backward()  # type: ignore[no-untyped-call]
        return True


class InPlace(Proof):
    """detach_ cuts the tensor itself off its graph."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Detach the result of an operation in place."""
        delta = self.start(requires_grad)
        self.source = (delta + 1) * 3
        self.result = self.source.detach_()
        return True


class InPlaceOnView(Proof):
    """A view can't be cut off in place: it would have to change its base."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Detach a row of the result of an operation in place."""
        delta = self.start(requires_grad)
        self.source = (delta + 1) * 3
        self.result = self.source[0]
        self.result.detach_()
        return True


class NoGrad(Proof):
    """no_grad is about operations: what is computed under it is new, and has no graph."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Compute under no_grad; the source stays what it was."""
        delta = self.start(requires_grad)
        self.source = (delta + 1) * 3
        with torch.no_grad():
            self.result = self.source * 1
        return True


class InferenceMode(Proof):
    """What is computed in inference mode has no version counter either."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Compute in inference mode; the source stays what it was."""
        delta = self.start(requires_grad)
        self.source = (delta + 1) * 3
        with torch.inference_mode():
            self.result = self.source * 1
        return True


class RequiresGradFalse(Proof):
    """requires_grad_(False) changes the tensor itself, and is for leaves only."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Freeze a leaf at the first call, and the result of an operation at the second."""
        first = self.delta is None
        delta = self.start(requires_grad)
        self.source = delta.detach().requires_grad_() if first else (delta + 1) * 3
        self.result = self.source.requires_grad_(False)
        return True


class Ninetynine(Proof):
    """Assigning to an element of the result assigns to the source."""

    def update_delta(self, requires_grad: bool = False) -> bool:
        """Write 99 into a row of what was detached from delta."""
        delta = self.start(requires_grad)
        self.source = self.input
        self.result = delta.detach()
        self.result[0] = 99
        return True
