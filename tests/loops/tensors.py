"""Loops with and without a fault in memory, graph or what arrives; each one is one layer."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(2)
X, Y = torch.randn(6, 8), torch.randint(0, 3, (6,))
NET = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).requires_grad_(False)
FAULTS, HEALTHY = {}, {}


def loss_of(x, net=NET, y=Y):
    return F.cross_entropy(net(x.float()), y, reduction="sum")


class Perturbation(nn.Module):
    def __init__(self, given=X):
        super().__init__()
        self.input = given.clone()
        self.delta = None
        self.perturbated_input = None

    def forward(self, x):
        return self.perturbated_input

    def fresh(self, low=-0.1, high=0.1):
        return torch.zeros_like(self.input).uniform_(low, high)


def drive(layer, steps=3, loss=loss_of, **keywords):
    for _ in range(steps + 1):
        layer.update_delta()
        loss(layer(X), **keywords).backward()
    layer.update_delta()


# storage-shared, input-modified


class PlusEquals(Perturbation):
    """The perturbed input begins as a second name for the input."""

    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input.detach()
        self.perturbated_input += self.delta


FAULTS["PlusEquals"] = [("storage-shared", 1, None), ("input-modified", 1, None)]


class ViewOfTheInput(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        flat = self.input.view(-1).detach().add_(self.delta.flatten())
        self.perturbated_input = flat.view_as(self.input)


FAULTS["ViewOfTheInput"] = [("storage-shared", 1, None), ("input-modified", 1, None)]


class FirstColumnsOnly(Perturbation):
    """Double precision; writes to a slice, from the second call on."""

    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
            self.perturbated_input = self.input + self.delta
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
            whole = self.input.detach()
            whole[:, :4] += self.delta[:, :4]
            self.perturbated_input = whole


FAULTS["FirstColumnsOnly"] = [("storage-shared", 2, None), ("input-modified", 2, None)]


class StartsAsTheInput(Perturbation):
    """One storage at the start, and nobody writes to it."""

    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros_like(self.input).requires_grad_()
            self.perturbated_input = self.input.detach().requires_grad_()
        else:
            g = self.perturbated_input.grad if self.delta.grad is None else self.delta.grad
            self.delta = (self.delta + 0.1 * g.sign()).detach().requires_grad_()
            self.perturbated_input = self.input + self.delta


class CopyThenWrite(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input.detach().clone()
        self.perturbated_input += self.delta


class DeltaInPlace(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            with torch.no_grad():
                self.delta.add_(0.1 * self.delta.grad.sign()).clamp_(-0.3, 0.3)
            self.delta.grad = None
        self.perturbated_input = self.input + self.delta


class BufferOfBatches(Perturbation):
    """Each batch is copied into one buffer, and delta is made anew for it."""

    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input + self.delta


HEALTHY |= {"StartsAsTheInput": [], "CopyThenWrite": [], "DeltaInPlace": [], "BufferOfBatches": []}

# leaf-inplace


class AddsToTheLeaf(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta.add_(self.delta.grad, alpha=0.1)
        self.perturbated_input = self.input + self.delta


FAULTS["AddsToTheLeaf"] = [("leaf-inplace", 2, None)]


class WritesToARow(Perturbation):
    """A view of the leaf, half precision."""

    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().half().requires_grad_()
        else:
            for row in range(len(self.delta)):
                self.delta[row] += 0.1 * self.delta.grad[row].sign()
        self.perturbated_input = self.input + self.delta


FAULTS["WritesToARow"] = [("leaf-inplace", 2, None)]


class ClampsTheNewLeaf(Perturbation):
    def update_delta(self):
        self.delta = torch.randn(self.input.shape, dtype=torch.double).requires_grad_()
        self.delta.clamp_(-0.1, 0.1)
        self.perturbated_input = self.input + self.delta


FAULTS["ClampsTheNewLeaf"] = [("leaf-inplace", 1, None)]


class ByData(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta.data.add_(self.delta.grad.sign(), alpha=0.1)
            self.delta.grad.zero_()
        self.perturbated_input = self.input + self.delta


class BeforeAsking(Perturbation):
    def update_delta(self):
        if self.delta is None:
            d = torch.randn(self.input.shape)
        else:
            d = self.delta.detach().clone()
            d += 0.1 * self.delta.grad.sign()
        d.clamp_(-0.1, 0.1)
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


HEALTHY |= {"ByData": [], "BeforeAsking": []}

# graph-grows


class Accumulated(Perturbation):
    """The perturbed input is built on the one before."""

    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
            self.perturbated_input = self.input + self.delta
        else:
            d = (
                0.1
                * torch.autograd.grad(
                    loss_of(self.perturbated_input), self.delta, retain_graph=True
                )[0].sign()
            )
            self.delta = d.requires_grad_()
            self.perturbated_input = self.perturbated_input + self.delta


FAULTS["Accumulated"] = [("graph-grows", 3, None)]


class MomentumWithGraph(Perturbation):
    """A running mean that is never detached, double precision."""

    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().double().requires_grad_()
        else:
            g = self.delta.grad
            self.delta = 0.9 * self.delta + 0.1 * g.sign()
            self.delta.retain_grad()
        self.perturbated_input = self.input + self.delta


FAULTS["MomentumWithGraph"] = [
    *(("nonleaf-delta", 2, None), ("graph-grows", 3, None), ("backward-twice", 3, None))
]


class ClampedWithGraph(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = torch.clamp(self.delta - 0.1 * self.delta.grad, -0.2, 0.2)
            self.delta.retain_grad()
        self.perturbated_input = self.input + self.delta


FAULTS["ClampedWithGraph"] = [
    *(("nonleaf-delta", 2, None), ("graph-grows", 3, None), ("backward-twice", 3, None))
]


class DeepButConstant(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        out = self.input + self.delta
        for _ in range(6):
            out = out * 1.0
        self.perturbated_input = out


class DeeperOnce(Perturbation):
    """A cast is needed from the second call on."""

    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
            self.perturbated_input = self.input + self.delta
        else:
            d = (self.delta + 0.1 * self.delta.grad.sign()).detach().double()
            self.delta = d.requires_grad_()
            self.perturbated_input = (self.input + self.delta).float()


class UnrolledAndCut(Perturbation):
    """The graph of two steps, cut after each second one."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def update_delta(self):
        self.calls += 1
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        base = self.input + self.delta
        self.perturbated_input = base * 1.0 if self.calls % 2 else base


HEALTHY |= {"DeepButConstant": [], "DeeperOnce": [], "UnrolledAndCut": []}

# update-lost-in-rounding


class SmallStepHalf(Perturbation):
    def update_delta(self):
        if self.delta is None:
            d = torch.empty(self.input.shape).uniform_(-0.1, 0.1)
        else:
            d = self.delta.detach() + 1e-5 * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        self.perturbated_input = (self.input + self.delta).half()


FAULTS["SmallStepHalf"] = [("update-lost-in-rounding", 2, None)]


class SmallStepFloat(Perturbation):
    """Double delta, single precision input."""

    def update_delta(self):
        if self.delta is None:
            d = torch.empty(self.input.shape).double().uniform_(-0.1, 0.1)
        else:
            d = self.delta.detach() + 1e-10 * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta.float()


FAULTS["SmallStepFloat"] = [("update-lost-in-rounding", 2, None)]


class NothingShows(Perturbation):
    def update_delta(self):
        if self.delta is None:
            d = torch.empty(self.input.shape).uniform_(1e-5, 2e-5)
        else:
            d = self.delta.detach() + 1e-6 * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        base = self.input.sign().bfloat16()
        self.input = base
        self.perturbated_input = base + self.delta.bfloat16()


FAULTS["NothingShows"] = [("update-lost-in-rounding", 1, None)]


class LargeStepHalf(Perturbation):
    def update_delta(self):
        if self.delta is None:
            d = torch.empty(self.input.shape).uniform_(-0.1, 0.1)
        else:
            d = self.delta.detach() + 0.05 * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        self.perturbated_input = (self.input + self.delta).half()


class HiddenByTheRange(Perturbation):
    """Most values lie outside of the valid range, where a clamp hides every step."""

    def update_delta(self):
        if self.delta is None:
            d = torch.empty(self.input.shape).uniform_(-0.1, 0.1)
        else:
            d = self.delta.detach() + 0.02 * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        self.perturbated_input = (self.input + self.delta).clamp(-0.2, 0.2)


class FewMove(Perturbation):
    """Only some elements have a gradient, and these do arrive."""

    def update_delta(self):
        if self.delta is None:
            d = torch.empty(self.input.shape).uniform_(-0.1, 0.1)
        else:
            d = self.delta.detach() + 0.05 * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        self.perturbated_input = (self.input + self.delta).bfloat16()


HEALTHY |= {"LargeStepHalf": [], "HiddenByTheRange": [], "FewMove": []}

# not-perturbed


class NoBudget(Perturbation):
    eps = 0.0

    def update_delta(self):
        if self.delta is None:
            d = torch.zeros_like(self.input)
        else:
            d = (self.delta.detach() + 0.1 * self.delta.grad.sign()).clamp(-self.eps, self.eps)
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


FAULTS["NoBudget"] = [("not-perturbed", 2, "zero")]


class NotAdded(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = self.fresh().requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input + 0.0 * self.delta


FAULTS["NotAdded"] = [("not-perturbed", 1, "equal"), ("grad-zero", 2, None)]


class NoMatch:
    def __init__(self, model, words=("embedding", "emb")):
        self.model, self.words, self.backup = model, words, {}

    def attack(self, epsilon=0.5):
        for name, param in self.model.named_parameters():
            if param.requires_grad and any(word in name for word in self.words):
                self.backup[name] = param.data.clone()
                norm = torch.norm(param.grad)
                if norm != 0 and not torch.isnan(norm):
                    param.data.add_(epsilon * param.grad / norm)

    def restore(self):
        for name, param in self.model.named_parameters():
            if name in self.backup:
                param.data = self.backup[name]
        self.backup = {}


FAULTS["NoMatch.attack"] = [("not-perturbed", 1, "no-weight")]


class Match(NoMatch):
    def attack(self, epsilon=0.5):
        for name, param in self.model.named_parameters():
            if param.requires_grad and any(word in name for word in self.words):
                self.backup[name] = param.data.clone()
                norm = torch.norm(param.grad)
                if norm != 0 and not torch.isnan(norm):
                    param.data.add_(epsilon * param.grad / norm)

    def restore(self):
        for name, param in self.model.named_parameters():
            if name in self.backup:
                param.data = self.backup[name]
        self.backup = {}


class ZeroStart(Perturbation):
    def update_delta(self):
        if self.delta is None:
            self.delta = torch.zeros_like(self.input).requires_grad_()
        else:
            self.delta = (self.delta + 0.1 * self.delta.grad.sign()).detach().requires_grad_()
        self.perturbated_input = self.input + self.delta


class OneTokenOnly(Perturbation):
    """All but one row is masked."""

    def update_delta(self):
        mask = torch.zeros(6, 1)
        mask[3] = 1
        if self.delta is None:
            d = self.fresh() * mask
        else:
            d = (self.delta.detach() + 0.1 * self.delta.grad.sign()) * mask
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


HEALTHY |= {"Match.attack": [], "ZeroStart": [], "OneTokenOnly": []}


def train_with(adversary_of, table):
    model = nn.ModuleDict({table: nn.Embedding(20, 8), "out": nn.Linear(8, 3)})
    adversary = adversary_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids = torch.randint(0, 20, (6, 4))

    def loss():
        return F.cross_entropy(model["out"](model[table](ids).mean(1)), Y)

    for _ in range(2):
        optimizer.zero_grad()
        loss().backward()
        adversary.attack()
        loss().backward()
        adversary.restore()
        optimizer.step()


def run(work, *arguments, **keywords):
    with contextlib.suppress(Exception):
        work(*arguments, **keywords)


def main():
    for cls in (PlusEquals, ViewOfTheInput, StartsAsTheInput, CopyThenWrite, DeltaInPlace):
        run(drive, cls())
    run(drive, FirstColumnsOnly(X.double()))
    layer = BufferOfBatches()
    for shift in (0.0, 1.0, 2.0):
        layer.input.copy_(X + shift)
        layer.delta = None
        run(drive, layer, steps=1)
    for cls in (AddsToTheLeaf, WritesToARow, ClampsTheNewLeaf, ByData, BeforeAsking):
        run(drive, cls())
    layer = Accumulated()
    for _ in range(4):
        run(layer.update_delta)
    for cls in (MomentumWithGraph, ClampedWithGraph, DeepButConstant, DeeperOnce, UnrolledAndCut):
        run(drive, cls())
    for cls in (SmallStepHalf, SmallStepFloat, LargeStepHalf, HiddenByTheRange):
        run(drive, cls())
    run(drive, NothingShows())
    run(drive, FewMove(), loss=lambda x: x[:, 0].float().square().sum())
    for cls in (NoBudget, NotAdded, ZeroStart, OneTokenOnly):
        run(drive, cls())
    run(train_with, NoMatch, "words")
    run(train_with, Match, "emb")


if __name__ == "__main__":
    main()
