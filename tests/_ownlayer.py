"""A layer in a file of its own, `layer.py`, and the scenario that runs it, a `.toml` beside it."""

from __future__ import annotations

CLAMPED = """
import torch
from pertdbg import PerturbationLayer

class Layer(PerturbationLayer):
    def __init__(self, hidden_size, size=0.5):
        super().__init__(hidden_size)
        self.size = size

    def update_delta(self, requires_grad: bool = False) -> bool:
        if self.delta is None:
            delta = torch.full_like(self.input, 0.01)
        else:
            delta = self.delta + self.size * self.delta.grad.sign()
            delta = delta.clamp(-0.02, 0.02)
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.delta
        return True
"""
"""Begins at 0.01, moves by `size` along the gradient's sign, and is clamped to 0.02."""

CLAMP = CLAMPED.splitlines().index("            delta = delta.clamp(-0.02, 0.02)") + 1
"""The line that clamps."""

_SCENARIO = """
title = "A layer of the tests"
about = "For the tests."
[layer]
class = "layer.py:Layer"
arguments = { hidden_size = 8 }
[model]
kind = "perceptron"
width = 8
outputs = 3
[input]
distribution = "normal"
shape = [4, 8]
[loop]
calls = @
loss = "mse"
"""


def scenario(calls: int) -> str:
    """Give the text of the scenario."""
    return _SCENARIO.replace("@", str(calls))
