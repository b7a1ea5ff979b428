"""Loops with and without a fault in the gradient at delta; each function or class is one layer."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
X, Y = torch.randn(6, 8), torch.randint(0, 3, (6,))
NET = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).requires_grad_(False)
FAULTS, HEALTHY = {}, {}


def loss_of(x, net=NET, y=Y):
    return F.cross_entropy(net(x), y, reduction="sum")


def mean_free_after_asking(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        delta = delta - delta.mean(1, keepdim=True)
        loss_of(x + delta).backward()
        delta = delta.detach() + 0.1 * delta.grad.sign()


FAULTS["mean_free_after_asking"] = [("nonleaf-delta", 2, None), ("grad-missing", 2, "nonleaf")]


class Perturbation(nn.Module):
    """The loop of all layers below: a creation, then steps; `move` says what an update does."""

    def __init__(self, given=X):
        super().__init__()
        self.input = given
        self.delta = None
        self.perturbated_input = None

    def forward(self, x):
        return self.perturbated_input


def drive(layer, steps=3, loss=loss_of, **keywords):
    for _ in range(steps + 1):
        layer.update_delta()
        loss(layer(X), **keywords).backward()
    layer.update_delta()


class Cast(Perturbation):
    def update_delta(self):
        if self.delta is None:
            d = torch.rand(self.input.shape, dtype=torch.float64) * 0.1
        elif self.delta.grad is None:
            return True
        else:
            d = self.delta.detach().double() + 0.01 * self.delta.grad.sign()
        self.delta = d.requires_grad_().float()
        self.perturbated_input = self.input + self.delta
        return True


FAULTS["Cast"] = [("nonleaf-delta", 1, None), ("grad-missing", 2, "nonleaf")]


class Flattened(Perturbation):
    def update_delta(self):
        if self.delta is None:
            flat = torch.zeros(self.input.numel(), dtype=torch.bfloat16).normal_(0, 0.1)
        else:
            flat = self.delta.detach().flatten() + 0.1 * self.delta.grad.flatten()
        self.delta = flat.requires_grad_(True).view_as(self.input)
        self.perturbated_input = self.input + self.delta.float()


FAULTS["Flattened"] = [("nonleaf-delta", 1, None), ("grad-missing", 2, "nonleaf")]


class FlagForgotten(Perturbation):
    """Live weights, so that backward works although delta asks for nothing."""

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.full_like(self.input, 0.01).requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad).detach()
        self.perturbated_input = self.input + self.delta


FAULTS["FlagForgotten"] = [("grad-missing", 3, "requires-grad-off")]


class NeverAsked(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.randn(self.input.shape) * 0.1
        else:
            self.delta = self.delta + 0.1 * self.delta.grad.sign()
        self.perturbated_input = self.input + self.delta


FAULTS["NeverAsked"] = [("grad-missing", 2, "requires-grad-off")]


class AskedUnderCondition(Perturbation):
    """Declines quietly: it takes a missing gradient for nothing to do."""

    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.1).requires_grad_(self.training)
        elif self.delta.grad is not None:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["AskedUnderCondition"] = [("grad-missing", 2, "requires-grad-off")]


class NoBackwardPass(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros_like(self.input).uniform_(-0.1, 0.1).requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["NoBackwardPass"] = [("grad-missing", 2, "no-backward")]


class ClearedTooEarly(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros_like(self.input).uniform_(-0.1, 0.1).requires_grad_()
        else:
            g = self.delta.grad / self.delta.grad.norm()
            self.delta = (self.delta.detach() + 0.1 * g).requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["ClearedTooEarly"] = [("grad-missing", 3, "no-backward")]


class LogAtZero(Perturbation):
    """The entropy of a probability that is exactly zero."""

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros_like(self.input).requires_grad_()
        else:
            g = self.delta.grad
            self.delta = (self.delta.detach() + 0.1 * g / g.norm()).requires_grad_()
        self.perturbated_input = self.input + self.delta


def entropy(x):
    p = (x * 1e6).softmax(-1)
    return (p * p.log()).sum()


FAULTS["LogAtZero"] = [("grad-nonfinite", 2, "elements"), ("delta-nonfinite", 2, None)]


def inf_from_a_root(x):
    delta = torch.zeros_like(x)
    for _ in range(2):
        delta.requires_grad_()
        (grad,) = torch.autograd.grad(delta.abs().sum().sqrt() + (x + delta).sum(), delta)
        delta = (delta + 0.1 * grad.sign()).detach()
    return delta


FAULTS["inf_from_a_root"] = [("grad-nonfinite", 2, "elements")]


class HugeLoss(Perturbation):
    """Half precision: the norm of the gradient is infinite, and dividing by it moves nothing."""

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.full(self.input.shape, 0.125, dtype=torch.half).requires_grad_()
        else:
            g = self.delta.grad
            d = self.delta.detach() + 0.1 * g / g.norm()
            self.delta = d.requires_grad_()
        self.perturbated_input = self.input.half() + self.delta


FAULTS["HugeLoss"] = [("grad-nonfinite", 2, "norm-overflow")]


class GivesUp(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros(self.input.shape, dtype=torch.float64).requires_grad_()
        else:
            g, self.delta.grad = self.delta.grad, None
            if g.isnan().any():
                return False
            self.delta = (self.delta.detach() + 0.01 * g.sign()).requires_grad_()
        self.perturbated_input = self.input + self.delta
        return True


FAULTS["GivesUp"] = [("grad-nonfinite", 2, "elements"), ("update-refused", 2, None)]


class Saturated(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros_like(self.input).uniform_(-0.1, 0.1).requires_grad_()
        else:
            g = self.delta.grad
            d = self.delta.detach() + 0.1 * g / (g.norm() + 1e-12)
            self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["Saturated"] = [("grad-zero", 2, None)]


class Decorated(Perturbation):
    """The whole update stands under a decorator."""

    @torch.no_grad()
    def update_delta(self):
        d = torch.rand(self.input.shape) if self.delta is None else self.delta + self.delta.grad
        self.delta = d.requires_grad_()
        with torch.enable_grad():
            self.perturbated_input = self.input + self.delta


FAULTS["Decorated"] = [("grad-zero", 2, None)]


def dead_relu(x):
    delta = torch.zeros_like(x).requires_grad_()
    for _ in range(3):
        F.relu(x + delta - 100).sum().backward()
        delta = (delta + 0.1 * delta.grad.sign()).detach().requires_grad_()
    return delta


FAULTS["dead_relu"] = [("grad-zero", 2, None)]


def rounded_loss(x):
    adv = x + 0.01 * torch.randn_like(x)
    for _ in range(2):
        adv.requires_grad_()
        grad = torch.autograd.grad((adv * 4).round().sum(), adv)[0]
        adv = torch.clamp(adv + 0.1 * grad.sign(), -3, 3).detach()
    return adv


FAULTS["rounded_loss"] = [("grad-zero", 2, None)]


class TinyLoss(Perturbation):
    learning_rate = 0.01

    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.01).requires_grad_()
        else:
            g = self.delta.grad
            step = self.learning_rate * g / (g.abs().amax(-1, keepdim=True) + 1e-6)
            self.delta = (self.delta.detach() + step).requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["TinyLoss"] = [("guard-dominates", 2, None)]


class TinyLossDouble(Perturbation):
    """The guard has a name that the source of the update does not tell; the rate is declared."""

    EPS, lr = 1e-6, 0.3

    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape).double() * 0.01).requires_grad_()
        else:
            g = self.delta.grad
            step = self.lr * g / g.abs().amax(-1, keepdim=True).add(self.EPS)
            self.delta = (self.delta.detach() + step).requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["TinyLossDouble"] = [("guard-dominates", 2, None)]


class TinyLossWhole(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.01).requires_grad_()
        else:
            g = self.delta.grad
            self.delta = (self.delta.detach() + 0.1 * g / g.norm().clamp_min(1e-3)).requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["TinyLossWhole"] = [("guard-dominates", 2, None)]


# Healthy near misses.


def detached_at_the_start_of_a_pass(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1)
    for _ in range(3):
        delta = delta.detach().requires_grad_()
        loss_of(x + delta).backward()
        delta = delta + 0.1 * delta.grad.sign()
    return x + delta.detach()


def nonleaf_asked_by_grad(x):
    start = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    adv = x + start
    for _ in range(3):
        (grad,) = torch.autograd.grad(loss_of(adv), adv)
        adv = (adv + 0.1 * grad.sign()).detach().requires_grad_() * 1.0
    return adv


class Retained(Perturbation):
    """Made from a leaf in each step, and retains its gradient."""

    def update_delta(self):
        if self.delta is None:
            raw = torch.randn(self.input.shape) * 0.1
        else:
            raw = self.delta.detach() + 0.1 * self.delta.grad.sign()
        self.delta = raw.requires_grad_().clamp(-0.3, 0.3)
        self.delta.retain_grad()
        self.perturbated_input = self.input + self.delta


class NoiseOnly(Perturbation):
    """Draws anew in each call and never asks for a gradient."""

    def update_delta(self):
        self.delta = torch.randn(self.input.shape) * 0.1
        self.perturbated_input = self.input + self.delta


class WaitsForTwo(Perturbation):
    """Moves at every second call; between them no backward runs and nothing is missed."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def update_delta(self):
        self.count += 1
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.1).requires_grad_()
        elif self.count % 2:
            g, self.delta.grad = self.delta.grad, None
            self.delta = (self.delta.detach() + 0.1 * g.sign()).requires_grad_()
        self.perturbated_input = self.input + self.delta


class BySign(Perturbation):
    """Half precision; the norm overflows, but a step by sign never asks for it."""

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.full(self.input.shape, 0.125, dtype=torch.half).requires_grad_()
        else:
            d = self.delta.detach() + 0.125 * self.delta.grad.sign()
            self.delta = d.requires_grad_()
        self.perturbated_input = self.input.half() + self.delta


class LargeButFinite(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.full(self.input.shape, 0.125).requires_grad_()
        else:
            g, self.delta.grad = self.delta.grad, None
            if not g.norm().isfinite():
                return False
            self.delta = (self.delta.detach() + 0.1 * g / g.norm()).requires_grad_()
        self.perturbated_input = self.input + self.delta
        return True


def nan_elsewhere(x):
    """A NaN in the loss of another branch, which delta's gradient does not go through."""
    delta = torch.zeros_like(x)
    for _ in range(2):
        delta.requires_grad_()
        other = torch.full((), float("nan"))
        (loss_of(x + delta) + other).backward()
        delta = (delta + 0.1 * delta.grad.sign()).detach()
    return delta


class PartlyZero(Perturbation):
    """Only the first two columns matter; the other gradients are zero."""

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros_like(self.input).uniform_(-0.1, 0.1).requires_grad_()
        else:
            d = self.delta.detach() + 0.1 * self.delta.grad.sign()
            self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


class TinyBySign(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.01).requires_grad_()
        else:
            d = self.delta.detach() + 0.01 * self.delta.grad.sign()
            self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


class TinySmallGuard(Perturbation):
    learning_rate = 0.01

    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.01).requires_grad_()
        else:
            g = self.delta.grad
            step = self.learning_rate * g / (g.abs().amax(-1, keepdim=True) + 1e-20)
            self.delta = (self.delta.detach() + step).requires_grad_()
        self.perturbated_input = self.input + self.delta


class TinyPlain(Perturbation):
    """Plain ascent: nothing is normalised, so there is no guard that could dominate."""

    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.01).requires_grad_()
        else:
            self.delta = (self.delta.detach() + 1e5 * self.delta.grad).requires_grad_()
        self.perturbated_input = self.input + self.delta


_NAMES = (
    *("detached_at_the_start_of_a_pass", "nonleaf_asked_by_grad", "Retained", "NoiseOnly"),
    *("WaitsForTwo", "BySign", "LargeButFinite", "nan_elsewhere", "PartlyZero"),
    *("TinyBySign", "TinySmallGuard", "TinyPlain"),
)
HEALTHY.update({name: [] for name in _NAMES})


def run(work, *arguments, **keywords):
    with contextlib.suppress(Exception):
        work(*arguments, **keywords)


def main():
    run(mean_free_after_asking, X)
    run(drive, Cast())
    run(drive, Flattened())
    live = nn.Linear(8, 3)
    run(drive, FlagForgotten(), net=live)
    run(drive, NeverAsked(), net=live)
    run(drive, AskedUnderCondition().eval(), net=live)
    layer = NoBackwardPass()
    layer.update_delta()
    run(layer.update_delta)
    layer = ClearedTooEarly()
    layer.update_delta()
    loss_of(layer(X)).backward()
    layer.update_delta()
    run(layer.update_delta)
    run(drive, LogAtZero(), loss=entropy)
    run(inf_from_a_root, X)
    run(drive, HugeLoss(), loss=lambda x: (x.float() * 3e4).sum())
    run(drive, GivesUp(), loss=lambda x: (x - X).square().sum().sqrt())
    run(
        drive,
        Saturated(),
        loss=lambda x: torch.sigmoid(x.double().float() * 0 + 200).sum() + 0 * x.sum(),
    )
    run(drive, Decorated(), loss=lambda x: 0 * x.sum())
    run(dead_relu, X)
    run(rounded_loss, X)
    run(drive, TinyLoss(), loss=lambda x: 1e-7 * x.tanh().sum())
    run(drive, TinyLossDouble(), loss=lambda x: 3e-8 * x.square().sum())
    run(drive, TinyLossWhole(), loss=lambda x: 1e-7 * x.cos().sum())

    run(detached_at_the_start_of_a_pass, X)
    run(nonleaf_asked_by_grad, X)
    run(drive, Retained())
    run(drive, NoiseOnly(), net=live)
    layer = WaitsForTwo()
    for _ in range(5):
        layer.update_delta()
        layer.update_delta()
        loss_of(layer(X)).backward()
    run(drive, BySign(), loss=lambda x: (x.float() * 3e4).sum())
    run(drive, LargeButFinite(), loss=lambda x: (x * 3e4).sum())
    run(nan_elsewhere, X)
    run(drive, PartlyZero(), loss=lambda x: x[:, :2].square().sum())
    run(drive, TinyBySign(), loss=lambda x: 1e-9 * x.tanh().sum())
    run(drive, TinySmallGuard(), loss=lambda x: 1e-9 * x.tanh().sum())
    run(drive, TinyPlain(), loss=lambda x: 1e-7 * x.tanh().sum())


if __name__ == "__main__":
    main()
