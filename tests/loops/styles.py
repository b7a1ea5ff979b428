"""Loops in the many styles that people write, each with its near miss; each name is one layer."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
X, Y = torch.randn(6, 8), torch.randint(0, 3, (6,))
BATCHES = [(torch.randn(6, 8), torch.randint(0, 3, (6,))) for _ in range(4)]
FAULTS, HEALTHY = {}, {}


def perceptron(dropout=0.0):
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3))


NET = perceptron().requires_grad_(False)


class Reader(nn.Module):
    """Reads text by its ids, or by embeddings that are given instead."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(50, 12, padding_idx=0)
        self.body = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Dropout(dropout))
        self.head = nn.Linear(12, 3)

    def forward(self, ids=None, inputs_embeds=None, mask=None):
        embedded = self.embedding(ids) if inputs_embeds is None else inputs_embeds
        kept = mask[..., None].float()
        return self.head((self.body(embedded) * kept).sum(1) / kept.sum(1))


def text():
    ids = torch.randint(1, 50, (4, 7))
    ids[0, 4:] = 0
    ids[1, 5:] = 0
    return ids, (ids != 0).long(), torch.randint(0, 3, (4,))


def fault(*found):
    def note(loop):
        FAULTS[loop.__name__] = list(found)
        return loop

    return note


def healthy(loop):
    HEALTHY[loop.__name__] = []
    return loop


# Text: FreeLB and its kin.


@healthy
def two_batches_for_one_step(model, optimizer, lr=0.1, longest=0.3):
    for k in range(4):
        ids, mask, labels = text()
        embedded = model.embedding(ids)
        delta = torch.zeros_like(embedded).uniform_(-0.1, 0.1) * mask[..., None]
        for step in range(3):
            delta.requires_grad_()
            answer = model(inputs_embeds=embedded + delta, mask=mask)
            (F.cross_entropy(answer, labels) / 6).backward()
            if step == 2:
                break
            gradient = delta.grad.clone().detach()
            size = gradient.flatten(1).norm(dim=1).view(-1, 1, 1).clamp(min=1e-8)
            delta = (delta + lr * gradient / size).detach()
            size = delta.flatten(1).norm(dim=1).view(-1, 1, 1)
            delta = torch.where(size > longest, delta * longest / size, delta).detach()
            embedded = model.embedding(ids)
        if k % 2:
            optimizer.step()
            optimizer.zero_grad()


@fault(("padding-perturbed", 1, None))
def forgets_the_mask(model, optimizer, lr=0.1):
    for _ in range(2):
        ids, mask, labels = text()
        embedded = model.embedding(ids)
        delta = torch.zeros_like(embedded).uniform_(-0.1, 0.1)
        for _ in range(2):
            delta.requires_grad_()
            answer = model(inputs_embeds=embedded + delta, mask=mask)
            F.cross_entropy(answer, labels).backward(retain_graph=True)
            delta = (delta + lr * delta.grad / delta.grad.norm()).detach()
        optimizer.step()
        optimizer.zero_grad()


@fault(("gradient-leaks", 2, None))
def leaks_into_the_embedding(model, lr=0.1):
    ids, mask, _ = text()
    embedded = model.embedding(ids)
    clean = model(inputs_embeds=embedded, mask=mask).detach()
    delta = torch.randn_like(embedded) * 0.1 * mask[..., None]
    for _ in range(2):
        delta.requires_grad_()
        answer = model(inputs_embeds=embedded + delta, mask=mask)
        F.mse_loss(answer, clean).backward(retain_graph=True)
        delta = ((delta + lr * delta.grad / delta.grad.norm()) * mask[..., None]).detach()


@healthy
def made_before_its_batch(model, optimizer, adv_lr=0.05, adv_max_norm=0.06):
    """Delta is made by a fixed shape; what it is added to is computed inside the steps."""
    for _ in range(3):
        ids, mask = torch.randint(1, 50, (4, 7)), torch.ones(4, 7)
        delta = torch.zeros(4, 7, 12).uniform_(-0.04, 0.04)
        for _ in range(3):
            delta.requires_grad_()
            embeds_init = model.embedding(ids)
            answer = model(inputs_embeds=embeds_init + delta, mask=mask)
            (F.cross_entropy(answer, torch.zeros(4).long()) / 3).backward()
            delta = (delta + adv_lr * delta.grad.sign()).detach()
            delta = torch.clamp(delta, -adv_max_norm, adv_max_norm).detach()
        optimizer.step()
        optimizer.zero_grad()


# Small types, with no name for the sum of input and delta.


@fault(("update-lost-in-rounding", 2, None))
def cast_where_it_is_used(x, net):
    x, delta = 4 * x.bfloat16(), torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_()
        F.cross_entropy(net((x + delta).bfloat16()).float(), Y).backward()
        delta = (delta + 1e-3 * delta.grad.sign()).detach()


@fault(("update-lost-in-rounding", 2, None))
def one_step_in_half(x, net):
    x, delta = 64 * x.half(), torch.full(x.shape, 0.125)
    for _ in range(2):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(net((x + delta).half()).float().sum(), delta)
        delta = (delta + 1e-3 * gradient.sign()).detach()


@healthy
def steps_that_show(x, net):
    x, delta = 4 * x.bfloat16(), torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_()
        F.cross_entropy(net((x + delta).bfloat16()).float(), Y).backward()
        delta = (delta + 0.25 * delta.grad.sign()).detach()


@healthy
def saturated_images(x, net):
    """Most pixels are at an end of their range, where no step shows."""
    x, delta = (100 * x).clamp(0, 1), torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_()
        F.cross_entropy(net((x + delta).clamp(0, 1)), Y).backward()
        delta = (delta + 0.02 * (2 * x - 1)).detach()


# Numbers whose name is not what they are.


@healthy
def guard_called_eps(x, radius=0.1, eps=1e-8):
    momentum, delta = torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(NET(x + delta), Y), delta)
        momentum = 0.9 * momentum + gradient / (gradient.abs().mean(1, keepdim=True) + eps)
        delta = (delta + 0.05 * momentum.sign()).detach()
        delta = torch.max(torch.min(delta, torch.full_like(x, radius)), torch.full_like(x, -radius))


@healthy
def least_value_called_eps(x, eps=1e-12):
    delta = 0.1 * torch.randn_like(x)
    for _ in range(3):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(NET(x + delta), Y), delta)
        size = gradient.norm(dim=1, keepdim=True).clamp(min=eps)
        delta = (delta + 0.5 * gradient / size).detach()


@fault(("delta-out-of-bound", 3, "norm"))
def limit_called_eps(x, eps=0.5):
    delta = torch.zeros_like(x)
    for _ in range(5):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(NET(x + delta), Y), delta)
        size = gradient.norm(dim=1, keepdim=True)
        delta = (delta + 0.3 * gradient / (size + 1e-8)).detach()


# Images and vectors.


@fault(("storage-shared", 2, None), ("input-modified", 2, None))
def moves_its_own_input(x):
    adv = x.detach()
    for _ in range(3):
        adv.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(NET(adv), Y), adv)
        with torch.no_grad():
            adv += 0.05 * gradient.sign()


@healthy
def momentum_by_signs(x, eps=0.1, steps=3):
    adv = x.clone().detach()
    momentum = torch.zeros_like(x)
    for _ in range(steps):
        adv.requires_grad = True
        gradient = torch.autograd.grad(nn.CrossEntropyLoss()(NET(adv), Y), adv)[0]
        momentum = momentum + gradient / gradient.abs().mean(dim=1, keepdim=True)
        adv = adv.detach() + eps / steps * momentum.sign()
        adv = (x + torch.clamp(adv - x, min=-eps, max=eps)).detach()


@healthy
def one_for_all_batches(eps=0.1):
    delta = torch.zeros(8)
    for x, y in BATCHES:
        delta.requires_grad_()
        F.cross_entropy(NET(x + delta), y).backward()
        with torch.no_grad():
            delta = torch.clamp(delta + 0.02 * delta.grad.sign(), -eps, eps)


@fault(("stale-delta", 3, None))
def rows_kept_over_batches(eps=0.1):
    delta = torch.zeros(6, 8)
    for x, y in BATCHES:
        delta.requires_grad_()
        F.cross_entropy(NET(x + delta), y).backward()
        delta = (delta + 0.02 * delta.grad.sign()).clamp(-eps, eps).detach()


@healthy
def restarts(x, eps=0.2):
    best, top = x.clone(), torch.zeros(len(x))
    for _ in range(2):
        delta = torch.empty_like(x).uniform_(-eps, eps)
        for _ in range(2):
            delta.requires_grad_()
            (gradient,) = torch.autograd.grad(F.cross_entropy(NET(x + delta), Y), delta)
            delta = (delta.detach() + 0.05 * gradient.sign()).clamp(-eps, eps)
        losses = F.cross_entropy(NET(x + delta), Y, reduction="none").detach()
        best = torch.where((losses > top)[:, None], x + delta, best)
        top = torch.maximum(losses, top)


@healthy
def until_all_are_wrong(x, eps=0.5):
    delta, steps = torch.zeros_like(x), 0
    while steps < 4:
        delta.requires_grad_()
        answer = NET(x + delta)
        if (answer.argmax(1) != Y).all():
            break
        F.cross_entropy(answer, Y).backward()
        with torch.no_grad():
            delta = (delta + 0.05 * delta.grad.sign()).clamp(-eps, eps)
        steps += 1


@healthy
def recomputes_its_activations(x):
    delta = torch.zeros_like(x).uniform_(-0.05, 0.05)
    for _ in range(3):
        delta.requires_grad_()
        hidden = checkpoint(NET[0], x + delta, use_reentrant=False)
        F.cross_entropy(checkpoint(NET[1:], hidden, use_reentrant=False), Y).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach()


@healthy
def mean_over_noise(x):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        for _ in range(3):
            noise = 0.05 * torch.randn_like(x)
            (F.cross_entropy(NET(x + delta + noise), Y) / 3).backward()
        delta = (delta.detach() + 0.05 * delta.grad.sign()).clamp(-0.2, 0.2).requires_grad_()


@healthy
def patch_alone(x):
    mask = torch.zeros_like(x)
    mask[:, 2:5] = 1
    delta = torch.rand_like(x) * mask
    for _ in range(3):
        delta.requires_grad_()
        loss = F.cross_entropy(NET(x * (1 - mask) + delta * mask), Y)
        (gradient,) = torch.autograd.grad(loss, delta)
        delta = (delta.detach() + 0.1 * gradient.sign() * mask).clamp(0, 1)


@healthy
def curvature(x):
    net, x = perceptron().double()[:1], x.double()
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1)
    for _ in range(3):
        delta.requires_grad_()
        loss = net(x + delta).square().mean()
        (gradient,) = torch.autograd.grad(loss, delta, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), delta)
        delta = (delta + 0.1 * second / second.norm()).detach()


@healthy
def eval_and_back(model, x):
    was = model.training
    model.eval()
    adv = x.detach() + torch.empty_like(x).uniform_(-0.1, 0.1)
    for _ in range(2):
        adv.requires_grad_()
        with torch.enable_grad(), torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(adv), Y)
        (gradient,) = torch.autograd.grad(loss, [adv])
        adv = adv.detach() + 0.05 * torch.sign(gradient.detach())
        adv = torch.min(torch.max(adv, x - 0.1), x + 0.1)
    model.train(was)
    return adv.detach()


def run(loop, *given):
    with contextlib.suppress(Exception):
        loop(*given)


def main():
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for loop in (two_batches_for_one_step, forgets_the_mask, made_before_its_batch):
        run(loop, model, optimizer)
    run(leaks_into_the_embedding, Reader(0.0))
    run(cast_where_it_is_used, X, perceptron().bfloat16().requires_grad_(False))
    run(one_step_in_half, X, perceptron().half().requires_grad_(False))
    run(steps_that_show, X, perceptron().bfloat16().requires_grad_(False))
    run(saturated_images, X, NET)
    for loop in (guard_called_eps, least_value_called_eps, limit_called_eps, momentum_by_signs):
        run(loop, X)
    run(moves_its_own_input, X.clone())
    for loop in (one_for_all_batches, rows_kept_over_batches):
        run(loop)
    for loop in (restarts, until_all_are_wrong, recomputes_its_activations, mean_over_noise):
        run(loop, X)
    for loop in (patch_alone, curvature):
        run(loop, X)
    trained = perceptron(0.2)
    steps = torch.optim.SGD(trained.parameters(), lr=0.1)
    for _ in range(2):
        adv = eval_and_back(trained, X)
        steps.zero_grad()
        F.cross_entropy(trained(adv), Y).backward()
        steps.step()


if __name__ == "__main__":
    main()
