"""Loops with and without a fault in delta itself; each function or class is one layer."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)
X, Y = torch.randn(6, 8), torch.randint(0, 3, (6,))
IMAGES = torch.rand(4, 1, 5, 5)
NET = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).requires_grad_(False)
CONV = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3))
CONV.requires_grad_(False).eval()
FAULTS, HEALTHY = {}, {}


def loss_of(x, net=NET, y=Y):
    return F.cross_entropy(net(x), y[: len(x)], reduction="sum")


class Perturbation(nn.Module):
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


# delta-nonfinite


def row_norms(x):
    delta = torch.zeros_like(x)
    for _ in range(2):
        delta.requires_grad_()
        loss_of((x + delta) * (torch.arange(6) > 0)[:, None]).backward()
        g = delta.grad
        delta = (delta + 0.1 * g / g.norm(dim=-1, keepdim=True)).detach()
    return delta


FAULTS["row_norms"] = [("delta-nonfinite", 2, None), ("grad-nonfinite", 3, "elements")]


class StepTooLarge(Perturbation):
    """Half precision: the step alone is above 65504."""

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.full(self.input.shape, 0.5, dtype=torch.half).requires_grad_()
        else:
            d = self.delta.detach() + 3e4 * (4 * self.delta.grad.sign())
            self.delta = d.requires_grad_()
        self.perturbated_input = self.input + 1e-5 * self.delta.float()


FAULTS["StepTooLarge"] = [("delta-nonfinite", 2, None), ("grad-nonfinite", 3, "elements")]


class BornOfZero(Perturbation):
    """The start is scaled by the norm of an input that has a row of zeros."""

    def update_delta(self):
        if self.delta is None:
            unit = self.input / self.input.norm(dim=1, keepdim=True)
            self.delta = (0.1 * unit).requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["BornOfZero"] = [("delta-nonfinite", 1, None), ("grad-nonfinite", 2, "elements")]


def guarded_norms(x):
    delta = torch.zeros_like(x)
    for _ in range(2):
        delta.requires_grad_()
        loss_of((x + delta) * (torch.arange(6) > 0)[:, None]).backward()
        g = delta.grad
        delta = (delta + 0.1 * g / g.norm(dim=-1, keepdim=True).clamp_min(1e-12)).detach()
    return delta


class NearlyTooLarge(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.full(self.input.shape, 0.5, dtype=torch.half).requires_grad_()
        else:
            self.delta = (3e4 * self.delta.grad.sign()).requires_grad_()
        self.perturbated_input = self.input + 1e-5 * self.delta.float()


def nan_replaced(x):
    delta = torch.zeros_like(x)
    for _ in range(2):
        delta.requires_grad_()
        loss_of((x + delta) * (torch.arange(6) > 0)[:, None]).backward()
        g = delta.grad
        delta = (delta + 0.1 * (g / g.norm(dim=-1, keepdim=True)).nan_to_num(0.0)).detach()
    return delta


HEALTHY |= {"guarded_norms": [], "NearlyTooLarge": [], "nan_replaced": []}

# delta-out-of-bound


def around_the_last(images, labels, eps=0.1, alpha=0.06):
    adv = images.clone()
    for _ in range(4):
        adv.requires_grad_()
        grad = torch.autograd.grad(F.cross_entropy(CONV(adv), labels), adv)[0]
        step = (alpha * grad.sign()).clamp(-eps, eps)
        adv = (adv.detach() + step).clamp(0, 1)
    return adv


FAULTS["around_the_last"] = [("delta-out-of-bound", 3, None)]


def clipped_before_the_step(images, labels, epsilon=0.05, step_size=0.02):
    delta = torch.zeros_like(images)
    for _ in range(4):
        delta.requires_grad_()
        F.cross_entropy(CONV(images + delta), labels).backward()
        delta = delta.detach().clamp(-epsilon, epsilon) + 2 * step_size * delta.grad.sign()
    return images + delta


FAULTS["clipped_before_the_step"] = [("delta-out-of-bound", 3, None)]


def ball_in_the_wrong_norm(x, radius=0.2, lr=0.2):
    delta = torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_()
        loss_of(x + delta).backward()
        delta = (delta + lr * delta.grad.sign()).detach()
        delta = delta * (radius / delta.abs().amax(1, keepdim=True)).clamp(max=1)
    return x + delta, delta.norm(dim=1)


FAULTS["ball_in_the_wrong_norm"] = [("delta-out-of-bound", 2, "norm")]


def within_the_ball(images, labels, eps=8 / 255, alpha=2 / 255):
    """The usual attack; the recomputed difference is off by an ulp of the image."""
    adv = (images + torch.empty_like(images).uniform_(-eps, eps)).clamp(0, 1).detach()
    for _ in range(6):
        adv.requires_grad_()
        grad = torch.autograd.grad(F.cross_entropy(CONV(adv), labels), adv)[0]
        adv = adv.detach() + alpha * grad.sign()
        delta = torch.clamp(adv - images, min=-eps, max=eps)
        adv = torch.clamp(images + delta, 0, 1).detach()
    return adv


def grey_levels(images, labels, eps=8.0, alpha=2.0):
    """Images from 0 to 255."""
    adv = images.clone()
    for _ in range(6):
        adv.requires_grad_()
        grad = torch.autograd.grad(F.cross_entropy(CONV(adv / 255), labels), adv)[0]
        adv = adv.detach() + alpha * grad.sign()
        adv = torch.min(torch.max(adv, images - eps), images + eps).clamp(0, 255)
    return adv


def half_ball(images, labels, eps=0.03, alpha=0.01):
    images = images.half()
    delta = torch.zeros_like(images)
    for _ in range(5):
        delta.requires_grad_()
        F.cross_entropy(CONV((images + delta).float()), labels).backward()
        delta = (delta.detach() + alpha * delta.grad.sign()).clamp(-eps, eps)
    return images + delta


HEALTHY |= {"within_the_ball": [], "grey_levels": [], "half_ball": []}

# random-start-dominates


def normalised_sum(x, step_size=1e-3, noise_var=1e-5):
    noise = (torch.randn_like(x) * noise_var).requires_grad_()
    clean = NET(x)
    for _ in range(2):
        loss = (NET(x + noise) - clean).square().sum()
        (grad,) = torch.autograd.grad(loss, noise)
        noise = noise + step_size * grad
        noise = (noise / (noise.norm() + 1e-12)).detach().requires_grad_()
    return noise


FAULTS["normalised_sum"] = [("random-start-dominates", 2, None)]


class UnitAfterAdding(Perturbation):
    lr = 0.01

    def update_delta(self):
        if self.delta is None:
            d = torch.randn(self.input.shape, dtype=torch.float64) * 1e-6
        else:
            d = self.delta.detach() + self.lr * self.delta.grad
            d = d / d.abs().amax(-1, keepdim=True)
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["UnitAfterAdding"] = [("random-start-dominates", 2, None)]


class ScaledToRadius(Perturbation):
    learning_rate = 1e-4

    def update_delta(self):
        if self.delta is None:
            d = torch.empty(self.input.shape).uniform_(-1e-3, 1e-3)
        else:
            d = self.delta.detach() + self.learning_rate * self.delta.grad
            d = 2.0 * d / d.flatten(1).norm(dim=1, keepdim=True)
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["ScaledToRadius"] = [("random-start-dominates", 2, None)]


def power_method(x, xi=1e-6, step_size=1e-3):
    """The gradient alone gives the new direction; the start only says where it is taken."""
    noise = torch.randn_like(x) * 1e-5
    clean = NET(x)
    for _ in range(2):
        noise.requires_grad_()
        loss = (NET(x + noise) - clean).square().sum()
        (grad,) = torch.autograd.grad(loss, noise)
        noise = (step_size * grad / (grad.abs().amax(-1, keepdim=True) + 1e-20)).detach()
    return noise


class GradientFirst(Perturbation):
    lr = 0.01

    def update_delta(self):
        if self.delta is None:
            d = torch.randn(self.input.shape) * 1e-5
        else:
            g = self.delta.grad
            d = self.delta.detach() + self.lr * g / g.abs().amax(-1, keepdim=True)
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


class LargeStep(Perturbation):
    """Summed before it is normalised, but the gradient outweighs the start."""

    lr = 1.0

    def update_delta(self):
        if self.delta is None:
            d = torch.randn(self.input.shape) * 1e-3
        else:
            d = self.delta.detach() + self.lr * self.delta.grad
            d = d / d.abs().amax(-1, keepdim=True)
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


HEALTHY |= {"power_method": [], "GradientFirst": [], "LargeStep": []}

# stale-delta


class Kept(Perturbation):
    """Keeps delta as long as nobody drops it."""

    def take(self, x):
        self.input = x

    def update_delta(self):
        if self.delta is None:
            d = torch.randn(self.input.shape) * 0.01
        else:
            d = self.delta.detach() + 0.01 * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


class KeptOverBatches(Kept):
    def update_delta(self):
        return super().update_delta()


class KeptWhenLoaded(Kept):
    """The next batch is copied into the buffer of the last one."""

    def take(self, x):
        if self.input is X:
            self.input = torch.empty_like(X)
        self.input.copy_(x)

    def update_delta(self):
        return super().update_delta()


class KeptOneRow(Kept):
    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(1, 8) * 0.01).requires_grad_()
        else:
            d = self.delta.detach() + 0.01 * self.delta.grad.sign()
            self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


class CleanPassRepeated(Kept):
    """The same batch, normalised anew before each step."""

    def update_delta(self):
        return super().update_delta()


class DroppedPerBatch(Kept):
    def take(self, x):
        self.input, self.delta = x, None

    def update_delta(self):
        return super().update_delta()


def batches(layer, given):
    for x in given:
        layer.take(x)
        layer.update_delta() if layer.delta is None else None
        for _ in range(2):
            loss_of(layer.input + layer.delta).backward()
            layer.update_delta()


# shape-mismatch


class MaskOfAnotherLength(Perturbation):
    def update_delta(self):
        mask = torch.ones(5, 1)
        self.delta = (torch.randn(self.input.shape) * 0.01 * mask).requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["MaskOfAnotherLength"] = [("shape-mismatch", 1, None)]


class OneSampleManyDeltas(Kept):
    """One sample is given; delta of six rows spreads it."""

    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(6, 8) * 0.01).requires_grad_()
        self.perturbated_input = self.input + self.delta
        return True


FAULTS["OneSampleManyDeltas"] = [("shape-mismatch", 1, None)]


class LastBatchIsSmall(Kept):
    def update_delta(self):
        return super().update_delta()


FAULTS["LastBatchIsSmall"] = [("shape-mismatch", 4, None), ("stale-delta", 4, None)]


class OneRowForAll(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(8) * 0.01).requires_grad_()
        else:
            self.delta = (self.delta + 0.01 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input + self.delta


class OtherFailure(Perturbation):
    """The update fails on something else than shapes."""

    def update_delta(self):
        if self.delta is None:
            self.delta = (torch.randn(self.input.shape) * 0.01).requires_grad_()
            self.perturbated_input = self.input + self.delta
        else:
            raise ValueError("size of the learning rate is wrong")


class NewShapeEachBatch(Kept):
    def take(self, x):
        self.input, self.delta = x, None

    def update_delta(self):
        return super().update_delta()


FAULTS |= {
    "KeptOverBatches": [("stale-delta", 4, None)],
    "KeptWhenLoaded": [("stale-delta", 4, None)],
}
HEALTHY |= {
    "KeptOneRow": [],
    "CleanPassRepeated": [],
    "DroppedPerBatch": [],
    "OneRowForAll": [],
    "OtherFailure": [],
    "NewShapeEachBatch": [],
}


def run(work, *arguments, **keywords):
    with contextlib.suppress(Exception):
        work(*arguments, **keywords)


def main():
    labels = torch.randint(0, 3, (4,))
    run(row_norms, X)
    run(drive, StepTooLarge())
    zeros = X.clone()
    zeros[2] = 0
    run(drive, BornOfZero(zeros))
    run(guarded_norms, X)
    run(drive, NearlyTooLarge())
    run(nan_replaced, X)
    run(around_the_last, IMAGES, labels)
    run(clipped_before_the_step, IMAGES, labels)
    run(within_the_ball, IMAGES, labels)
    run(grey_levels, (IMAGES * 255).round(), labels)
    run(half_ball, IMAGES, labels)
    run(normalised_sum, X)
    run(drive, UnitAfterAdding(), loss=lambda x: NET(x.float()).square().mean() * 1e-3)
    run(drive, ScaledToRadius())
    run(power_method, X)
    run(drive, GradientFirst())
    run(drive, LargeStep())
    for cls in (KeptOverBatches, KeptWhenLoaded, KeptOneRow, DroppedPerBatch):
        run(batches, cls(), [X, X + 1.0, X - 2.0])
    layer = CleanPassRepeated()
    for _ in range(4):
        layer.take(F.layer_norm(X, (8,)))
        layer.update_delta()
        loss_of(layer.perturbated_input).backward()
    run(MaskOfAnotherLength().update_delta)
    layer = OneSampleManyDeltas(X[:1])
    run(layer.update_delta)
    layer = LastBatchIsSmall()
    batches(layer, [X])
    loss_of(layer.perturbated_input).backward()
    layer.take(X[:4])
    run(layer.update_delta)
    run(ball_in_the_wrong_norm, X)
    run(drive, OneRowForAll())
    run(drive, OtherFailure())
    run(batches, NewShapeEachBatch(), [X, X[:4], X[:2]])


if __name__ == "__main__":
    main()
