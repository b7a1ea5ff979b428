"""A gradient that is not finite: in which rows, and what brought it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from _scripts import pertdbg

SCRIPT = """
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
X, Y = torch.randn(4, 6), torch.randint(0, 3, (4,))
NET = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).requires_grad_(False)
BROKEN = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).requires_grad_(False)
BROKEN[2].bias[1] = float("inf")


class Root(nn.Module):
    def forward(self, hidden):
        return (hidden - hidden.detach()).abs().sqrt()


def of_the_model(x):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(2):
        F.cross_entropy(BROKEN(x + delta), Y).backward()
        gradient, delta.grad = delta.grad, None
        if not gradient.norm().isfinite():
            continue
        delta = (delta + 0.05 * gradient.sign()).detach().requires_grad_()


def of_the_model_with_a_loss_module(x, loss_of=nn.CrossEntropyLoss()):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(2):
        loss_of(BROKEN(x + delta), Y).backward()
        gradient, delta.grad = delta.grad, None
        if not gradient.norm().isfinite():
            continue
        delta = (delta + 0.05 * gradient.sign()).detach().requires_grad_()


def of_the_loss(x):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(2):
        answer = NET(x + delta)
        ((answer - answer.detach()).pow(2).sum().log() * 0).backward()
        gradient, delta.grad = delta.grad, None
        if not gradient.norm().isfinite():
            continue
        delta = (delta + 0.05 * gradient.sign()).detach().requires_grad_()


def of_a_root_in_the_loss(x):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(2):
        (F.cross_entropy(NET(x + delta), Y) - delta.square().sum(1).sqrt().sum()).backward()
        gradient, delta.grad = delta.grad, None
        if not gradient.norm().isfinite():
            continue
        delta = (delta + 0.05 * gradient.sign()).detach().requires_grad_()


def of_a_root_in_the_model(x, net=nn.Sequential(nn.Linear(6, 8), Root(), nn.Linear(8, 3))):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(2):
        (gradient,) = torch.autograd.grad(net.requires_grad_(False)(x + delta).sum(), delta)
        delta = (delta + 0.05 * gradient.sign()).detach().requires_grad_()


def of_two_parts(x):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(2):
        F.cross_entropy(NET(x + delta), Y).backward()
        F.cross_entropy(BROKEN(x + delta), Y).backward()
        gradient, delta.grad = delta.grad, None
        if not gradient.norm().isfinite():
            continue
        delta = (delta + 0.05 * gradient.sign()).detach().requires_grad_()


def of_several_losses(x):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(2):
        losses = F.cross_entropy(BROKEN(x + delta), Y, reduction="none")
        losses.backward(torch.ones(4))
        gradient, delta.grad = delta.grad, None
        if not gradient.norm().isfinite():
            continue
        delta = (delta + 0.05 * gradient.sign()).detach().requires_grad_()


class Overflows(nn.Module):
    def __init__(self):
        super().__init__()
        self.input, self.delta, self.perturbated_input = X.half(), None, None

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.full(X.shape, 0.125, dtype=torch.half).requires_grad_()
        else:
            gradient, self.delta.grad = self.delta.grad, None
            if not gradient.norm().isfinite():
                return False
            self.delta = (self.delta + 0.1 * gradient).detach().requires_grad_()
        self.perturbated_input = self.input + self.delta
        return True


WEIGHTS = torch.full((4, 6), 3e3)
WEIGHTS[2] = torch.tensor([3e4, 4e4, 0, 49_984, 0, 0])
for loop in (of_the_model, of_the_model_with_a_loss_module, of_the_loss, of_a_root_in_the_loss,
             of_a_root_in_the_model, of_two_parts, of_several_losses):
    loop(X)
layer = Overflows()
for _ in range(2):
    layer.update_delta()
    (layer.perturbated_input * WEIGHTS.half()).float().sum().backward()
layer.update_delta()
"""

ORIGINS = {
    "of_the_model": "model",
    "of_the_model_with_a_loss_module": "model",
    "of_the_loss": "loss",
    "of_a_root_in_the_loss": "backward",
    "of_a_root_in_the_model": "backward",
    "of_two_parts": "model",
    "of_several_losses": None,
}
SAID = {
    "model": "What the model gave for the perturbed input was not finite already.",
    "loss": "What the model gave was finite and the loss was not",
    "backward": "The loss was finite, so the backward made it",
    None: "norm of the whole gradient useless. The first is at",
}

Found = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    path: Path = tmp_path_factory.mktemp("origins") / "origins.py"
    path.write_text(SCRIPT)
    done = pertdbg("check", path, "--format", "json", cwd=path.parent)
    assert done.returncode == 1, done.stderr
    layers: Found = {}
    for one in json.loads(done.stdout)["findings"]:
        layers.setdefault(one["layer"], {})[one["kind"]] = one
    return layers


@pytest.mark.parametrize("name", ORIGINS)
def test_what_brought_a_gradient_that_is_not_finite(name: str, found: Found) -> None:
    one = found[name]["grad-nonfinite"]
    assert (one["call"], one["reason"]) == (2, "elements")
    assert one["evidence"].get("origin") == ORIGINS[name]
    assert SAID[ORIGINS[name]] in one["message"]
    refused = found[name].get("update-refused")
    if refused is not None and ORIGINS[name] is not None:
        assert f"brought by the {ORIGINS[name]}" in refused["message"]


def test_where_the_norm_alone_overflows_the_row_that_does_it_is_named(found: Found) -> None:
    one = found["Overflows"]["grad-nonfinite"]
    assert (one["call"], one["reason"]) == (2, "norm-overflow")
    assert "origin" not in one["evidence"]
    assert one["evidence"]["stored.gradient.largest_row"] == 2
    # All three are multiples of the spacing that float16 has there.
    assert one["evidence"]["stored.gradient.norm_of_row"] == pytest.approx(
        math.hypot(3e4, 4e4, 49_984)
    )
    assert "Of 4 rows, row 2 has the largest norm, 7.07" in one["message"]
