"""Loops with and without a fault in what runs between the updates; each name is one layer."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
X, Y = torch.randn(6, 8), torch.randint(0, 3, (6,))
FAULTS, HEALTHY = {}, {}
KEPT = []


def frozen(*modules):
    return nn.Sequential(*modules).requires_grad_(False)


NET = frozen(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def loss_of(x, net=NET):
    return F.cross_entropy(net(x), Y, reduction="sum")


def run(loop, *given, **keywords):
    with contextlib.suppress(RuntimeError, TypeError, AttributeError):
        loop(*given, **keywords)


class Layer(nn.Module):
    """Adds delta to what it was given first; the subclasses say what else happens."""

    rate = 0.05

    def __init__(self):
        super().__init__()
        self.delta = self.input = self.perturbated_input = None
        self.on = False

    def forward(self, x):
        if not self.on:
            self.input = x
            return x
        if self.delta is None:
            self.update_delta()
        return self.perturbated_input

    def update_delta(self):
        self.delta = self.moved().detach().requires_grad_()
        self.perturbated_input = self.added()

    def moved(self):
        if self.delta is None:
            return 0.1 * torch.randn(self.input.shape)
        return self.delta.detach() + self.rate * self.delta.grad.sign()

    def added(self):
        return self.input.detach() + self.delta


class Model(nn.Module):
    """A layer under a name of its own, between what may come before it and a head."""

    def __init__(self, name, layer, before=None, head=NET):
        super().__init__()
        self.name, self.before, self.head = name, before or nn.Identity(), head
        setattr(self, name, layer)

    @property
    def layer(self):
        return getattr(self, self.name)

    def forward(self, x):
        return self.head(self.layer(self.before(x)))


def drive(model, steps=3, given=X, between=lambda model, loss: None, **options):
    model(given)
    model.layer.on = True
    for _ in range(steps):
        loss = F.cross_entropy(model(given), Y)
        loss.backward(**options)
        between(model, loss)
        model.layer.update_delta()
    model.layer.on = False


# The graph of the clean pass: freed, filled, or cut off.


class Attached(Layer):
    def added(self):
        return self.input + self.delta


class AttachedByNorm(Layer):
    def added(self):
        return F.layer_norm(self.input, (8,)) + self.delta.tanh()


def live(size=8):
    return nn.Linear(size, 8)


FAULTS["freed_by_the_first"] = [("gradient-leaks", 2, None), ("backward-twice", 2, None)]
FAULTS["freed_norm"] = [("gradient-leaks", 2, None), ("backward-twice", 2, None)]
FAULTS["leaks_and_retains"] = [("gradient-leaks", 2, None)]
HEALTHY["detached_from_a_live_part"] = []
HEALTHY["attached_to_a_frozen_part"] = []
HEALTHY["trained_part"] = []


def leaks_to_the_caller(x):
    x = x.clone().requires_grad_()
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1)
    for _ in range(3):
        delta.requires_grad_()
        loss_of(x + delta).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach()


FAULTS["leaks_to_the_caller"] = [("gradient-leaks", 2, None)]


def asks_for_delta_alone(x):
    x = x.clone().requires_grad_()
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        (grad,) = torch.autograd.grad(loss_of(x + delta), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


HEALTHY["asks_for_delta_alone"] = []


def shared_prefix(x):
    base = live()(x).tanh()
    delta = torch.zeros_like(base).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        (grad,) = torch.autograd.grad(loss_of((base.detach() + delta).exp() * base), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()
        base.sum().backward()


FAULTS["shared_prefix"] = [("backward-twice", 3, None)]


def prefix_made_anew(x):
    part = live()
    delta = torch.zeros(6, 8).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        (grad,) = torch.autograd.grad(loss_of(part(x).tanh() + delta), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


HEALTHY["prefix_made_anew"] = []


# No path from the loss to delta.


def values_through_numpy(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    head = live()
    for _ in range(2):
        loss_of(head(torch.tensor((x + delta).detach().numpy()))).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


def argmax_between(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    table = nn.Linear(8, 8)
    for _ in range(2):
        loss_of(table(F.one_hot(NET[0](x + delta)[:, :8].argmax(1), 8).float())).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


FAULTS["values_through_numpy"] = [("grad-missing", 2, "graph-cut")]
FAULTS["argmax_between"] = [("grad-missing", 2, "graph-cut")]
FAULTS["detached_in_the_model"] = [("grad-missing", 2, "graph-cut")]


class Detaches(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.outer(self.inner(x).detach())


def perturbs_the_wrong_tensor(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    head = live()
    for _ in range(2):
        moved = x + delta
        loss_of(head(x)).backward()
        delta = (moved - x + 0.05 * delta.grad.sign()).detach().requires_grad_()


def ignored_by_the_function(x):
    head = live()

    def score(moved, given=x):
        return head(given)

    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(loss_of(score(x + delta)), delta, allow_unused=True)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


FAULTS["perturbs_the_wrong_tensor"] = [("grad-missing", 2, "unused-in-loss")]
FAULTS["ignored_by_the_function"] = [("grad-missing", 2, "unused-in-loss")]
FAULTS["bypassed_by_the_model"] = [("grad-missing", 2, "unused-in-loss")]


class Bypasses(Model):
    def forward(self, x):
        h = self.before(x)
        self.layer(h)
        return self.head(h)


def pass_without_gradients(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        with torch.no_grad():
            loss = loss_of(x + delta)
        loss.backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


def mode_switched_off(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    weight = torch.ones((), requires_grad=True)
    for _ in range(2):
        with torch.set_grad_enabled(False):
            out = NET(x + delta)
        (F.cross_entropy(out, Y) * weight).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


FAULTS["pass_without_gradients"] = [("grad-missing", 2, "grad-mode-off")]
FAULTS["mode_switched_off"] = [("grad-missing", 2, "grad-mode-off")]
FAULTS["evaluates_under_no_grad"] = [("grad-missing", 1, "grad-mode-off")]


def clean_pass_without_gradients(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        with torch.no_grad():
            NET(x)
        loss_of(x + delta).backward()
        with torch.no_grad():
            NET(x + delta)
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


HEALTHY["clean_pass_without_gradients"] = []
HEALTHY["frozen_all_but_delta"] = []


# Graphs that stay alive.


def keeps_losses(x, keep):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1)
    for _ in range(3):
        delta.requires_grad_()
        loss = loss_of(x + delta)
        loss.backward(retain_graph=True)
        keep(loss)
        delta = (delta + 0.05 * delta.grad.sign()).detach()


def keeps_a_sum(x):
    total = 0.0
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1)
    for _ in range(3):
        delta.requires_grad_()
        loss = loss_of(x + delta)
        loss.backward(retain_graph=True)
        total = total + loss
        delta = (delta + 0.05 * delta.grad.sign()).detach()
    return total


FAULTS["keeps_losses"] = [("graph-retained", 3, None)]
FAULTS["keeps_a_sum"] = [("graph-retained", 3, None)]
FAULTS["layer_keeps_losses"] = [("graph-retained", 3, None)]


def retains_and_drops(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1)
    for _ in range(3):
        delta.requires_grad_()
        loss = loss_of(x + delta)
        loss.backward(retain_graph=True)
        KEPT.append(loss.item())
        delta = (delta + 0.05 * delta.grad.sign()).detach()


def sums_for_one_backward(x):
    part, total = live(), 0.0
    delta = torch.zeros(6, 8).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        loss = loss_of(part(x + delta))
        (grad,) = torch.autograd.grad(loss, delta, retain_graph=True)
        total = total + loss
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()
    total.backward()
    KEPT.append(total)


def keeps_numbers(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1)
    for _ in range(3):
        delta.requires_grad_()
        loss = loss_of(x + delta)
        loss.backward()
        KEPT.append(loss.detach())
        delta = (delta + 0.05 * delta.grad.sign()).detach()


HEALTHY["retains_and_drops"] = []
HEALTHY["sums_for_one_backward"] = []
HEALTHY["keeps_numbers"] = []


# Gradients that are not cleared.


def never_clears(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        loss_of(x + delta).backward()
        with torch.no_grad():
            delta += 0.05 * delta.grad.sign()


def clears_too_early(x):
    adv = (x + 0.01 * torch.randn_like(x)).double().requires_grad_()
    net = frozen(nn.Linear(8, 3)).double()
    for _ in range(3):
        NET.zero_grad()
        F.cross_entropy(net(adv), Y).backward()
        adv.data.add_(0.05 * adv.grad.sign())


class SkipsEverySecond(Layer):
    calls = 0

    def update_delta(self):
        self.calls += 1
        if self.calls % 2:
            return super().update_delta()
        return False


FAULTS["never_clears"] = [("grad-accumulates", 3, None)]
FAULTS["clears_too_early"] = [("grad-accumulates", 3, None)]
FAULTS["skips_every_second"] = [("update-refused", 2, None), ("grad-accumulates", 3, None)]


def zeroes_in_place(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        loss_of(x + delta).backward()
        with torch.no_grad():
            delta += 0.05 * delta.grad.sign()
        delta.grad.zero_()


def zeroes_at_the_start(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        if delta.grad is not None:
            delta.grad = None
        loss_of(x + delta).backward()
        with torch.no_grad():
            delta += 0.05 * delta.grad.sign()


def halves_of_a_batch(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        for part in (slice(0, 3), slice(3, 6)):
            F.cross_entropy(NET((x + delta)[part]), Y[part]).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


HEALTHY["zeroes_in_place"] = []
HEALTHY["zeroes_at_the_start"] = []
HEALTHY["halves_of_a_batch"] = []


# Writes that autograd does not see.


def halves_delta_through_data(x):
    delta = torch.zeros_like(x).uniform_(-0.5, 0.5).requires_grad_()
    for _ in range(2):
        loss = loss_of((x + delta) * delta.sin())
        delta.data.mul_(0.5)
        loss.backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


def writes_through_numpy(x):
    delta = torch.zeros_like(x).uniform_(-0.5, 0.5).requires_grad_()
    for _ in range(2):
        adv = x + delta
        loss = loss_of(adv)
        adv.detach().numpy()[:] = 0
        loss.backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


FAULTS["halves_delta_through_data"] = [("version-bypassed", 2, None)]
FAULTS["writes_through_numpy"] = [("version-bypassed", 2, None)]
FAULTS["rounds_the_answer"] = [("version-bypassed", 2, None)]


def shrinks_before_the_forward(x):
    delta = torch.zeros_like(x).uniform_(-0.5, 0.5).requires_grad_()
    for _ in range(3):
        delta.data.mul_(0.9)
        loss_of(x + delta).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


def moves_through_data(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        loss_of(x + delta).backward()
        delta.data = (delta.data + 0.05 * delta.grad.sign()).clamp(-0.2, 0.2)
        delta.grad.zero_()


HEALTHY["shrinks_before_the_forward"] = []
HEALTHY["moves_through_data"] = []
HEALTHY["answer_left_alone"] = []


# Copies of delta.


class InPlace(Layer):
    def update_delta(self):
        if self.delta is None:
            self.delta = (0.1 * torch.randn(self.input.shape)).requires_grad_()
        else:
            with torch.no_grad():
                self.delta.add_(self.rate * self.delta.grad.sign())
            self.delta.grad = None
        self.perturbated_input = self.added()


class KeepsInAList(InPlace):
    def __init__(self):
        super().__init__()
        self.seen = []


def best_of_the_pass(x):
    best, delta = None, torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(4):
        loss = loss_of(x + delta)
        if best is None or loss > 100:
            best = delta.data
        loss.backward()
        with torch.no_grad():
            delta += 0.05 * delta.grad.sign()
        delta.grad = None
    return best


FAULTS["best_of_the_pass"] = [("storage-shared", 2, None)]
FAULTS["keeps_views"] = [("storage-shared", 2, None)]
FAULTS["keeps_one"] = [("storage-shared", 2, None)]


def best_cloned(x):
    best, delta = None, torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        loss = loss_of(x + delta)
        if best is None or loss > 100:
            best = delta.detach().clone()
        loss.backward()
        with torch.no_grad():
            delta += 0.05 * delta.grad.sign()
        delta.grad = None
    return best


def kept_while_made_anew(x):
    best, delta = None, torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(3):
        best = delta.detach()
        loss_of(x + delta).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()
    return best


def writes_through_a_view(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    memory = delta.detach()
    for _ in range(3):
        loss_of(x + delta).backward()
        memory.add_(0.05 * delta.grad.sign())
        with torch.no_grad():
            delta.clamp_(-0.3, 0.3)
        delta.grad = None


HEALTHY["best_cloned"] = []
HEALTHY["kept_while_made_anew"] = []
HEALTHY["writes_through_a_view"] = []
HEALTHY["moves_in_place"] = []


# What the layer answers.

OTHER = torch.randn(6, 8) + 2
FAULTS["asked_about_others"] = [("stale-input", 2, None)]
FAULTS["asked_about_fewer"] = [("stale-input", 2, None)]
FAULTS["asked_at_the_end"] = [("stale-input", 4, None)]
HEALTHY["asked_again"] = []
HEALTHY["switched_off_to_ask"] = []
HEALTHY["behind_dropout"] = []


def asks(model, loss, given=OTHER):
    with torch.no_grad():
        model(given)


def asks_clean(model, loss):
    layer = model.layer
    layer.on, kept = False, (layer.input, layer.perturbated_input)
    asks(model, loss)
    layer.on, (layer.input, layer.perturbated_input) = True, kept


# Padding.


class Tokens(nn.Module):
    def __init__(self, pad, dtype=torch.float32):
        super().__init__()
        self.table = nn.Embedding(20, 8, padding_idx=pad, dtype=dtype).requires_grad_(False)
        self.pad = pad

    def forward(self, ids):
        return self.table(ids)


IDS = torch.tensor(
    [[3, 5, 7, 0], [4, 0, 0, 0], [9, 8, 6, 2], [5, 0, 0, 0], [7, 7, 0, 0], [2, 1, 4, 0]]
)


class Masked(Layer):
    mask = (IDS != 0).unsqueeze(-1)

    def moved(self):
        return super().moved() * self.mask.to(self.input.dtype)


def pooled(net=NET):
    return nn.Sequential(Pool(), *net)


class Pool(nn.Module):
    def forward(self, x):
        return x.float().mean(1)


def pads_in_a_loop(ids, table):
    embedded = table(ids)
    delta = torch.zeros_like(embedded).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        loss_of((embedded + delta).mean(1)).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


def masks_in_a_loop(ids, table):
    embedded, mask = table(ids), (ids != 0).unsqueeze(-1).float()
    delta = torch.zeros_like(embedded).uniform_(-0.1, 0.1) * mask
    for _ in range(2):
        delta.requires_grad_()
        loss_of((embedded + delta).mean(1)).backward()
        delta = (mask * (delta + 0.05 * delta.grad.sign())).detach()


FAULTS["pads_in_a_loop"] = [("padding-perturbed", 1, None)]
FAULTS["pads_in_a_layer"] = [("padding-perturbed", 1, None)]
FAULTS["pads_in_double"] = [("padding-perturbed", 1, None)]
HEALTHY["masks_in_a_loop"] = []
HEALTHY["masks_in_a_layer"] = []
HEALTHY["nothing_padded"] = []


# Modes.


def attack_in_eval(model, x):
    model.eval()
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(F.cross_entropy(model(x + delta), Y), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()
    return x + delta


class Attacker:
    def __init__(self, model):
        self.model = model

    def attack_frozen(self, x):
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
        for _ in range(2):
            (grad,) = torch.autograd.grad(F.cross_entropy(self.model(x + delta), Y), delta)
            delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()
        self.model[0].requires_grad_(True)
        return x + delta


def attack_restored(model, x):
    was = model.training
    model.eval()
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(F.cross_entropy(model(x + delta), Y), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()
    model.train(was)
    return x + delta


def attack_before_train(model, x):
    model.eval()
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(F.cross_entropy(model(x + delta), Y), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()
    return x + delta


def attack_without_training(model, x):
    model.eval()
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(F.cross_entropy(model(x + delta), Y), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()
    return x + delta


FAULTS["attack_in_eval"] = [("mode-left-on", 3, None)]
FAULTS["Attacker.attack_frozen"] = [("mode-left-on", 3, None)]
FAULTS["leaves_the_head_frozen"] = [("mode-left-on", 2, None)]
HEALTHY["attack_restored"] = []
HEALTHY["attack_before_train"] = []
HEALTHY["attack_without_training"] = []
HEALTHY["thaws_the_head"] = []


def trains(attack, model, before_step=lambda model: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for _ in range(2):
        adv = attack(X)
        before_step(model)
        optimizer.zero_grad()
        F.cross_entropy(model(adv), Y).backward()
        optimizer.step()


def trains_a_layer(model, thaw):
    optimizer = torch.optim.Adam(model.head.parameters())
    for _ in range(2):
        model.layer.delta = None
        model(X)
        model.layer.on = True
        model.head[0].requires_grad_(False)
        F.cross_entropy(model(X), Y).backward()
        model.layer.update_delta()
        if thaw:
            model.head[0].requires_grad_(True)
        optimizer.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()
        model.layer.on = False


# Random passes.


def droopy():
    return frozen(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))


def kl_to_clean(model, x):
    with torch.no_grad():
        clean = model(x).softmax(1)
    delta = (0.01 * torch.randn_like(x)).requires_grad_()
    for _ in range(2):
        loss = F.kl_div(model(x + delta).log_softmax(1), clean, reduction="sum")
        (grad,) = torch.autograd.grad(loss, delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


def mse_to_clean(model, x):
    clean = model(x).detach()
    delta = (0.01 * torch.randn_like(x)).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(F.mse_loss(model(x + delta), clean), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


def squares_to_clean(model, x):
    clean = model(x).detach()
    delta = (0.01 * torch.randn_like(x)).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad((model(x + delta) - clean).pow(2).sum(), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


class FunctionalDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 3).requires_grad_(False)

    def forward(self, x):
        return self.head(F.dropout(x, 0.3, self.training))


for name in ("kl_to_clean", "mse_to_clean", "squares_to_clean"):
    FAULTS[name] = [("stochastic-forward", 2, None)]


def kl_in_eval(model, x):
    with torch.no_grad():
        clean = model(x).softmax(1)
    delta = (0.01 * torch.randn_like(x)).requires_grad_()
    for _ in range(2):
        loss = F.kl_div(model(x + delta).log_softmax(1), clean, reduction="sum")
        (grad,) = torch.autograd.grad(loss, delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


def labels_with_dropout(model, x):
    model(x)
    delta = (0.01 * torch.randn_like(x)).requires_grad_()
    for _ in range(2):
        (grad,) = torch.autograd.grad(F.cross_entropy(model(x + delta), Y), delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


def teacher_without_dropout(model, x):
    model(x)
    wanted = NET(x).softmax(1)
    delta = (0.01 * torch.randn_like(x)).requires_grad_()
    for _ in range(2):
        loss = F.kl_div(model(x + delta).log_softmax(1), wanted, reduction="sum")
        (grad,) = torch.autograd.grad(loss, delta)
        delta = (delta + 0.05 * grad.sign()).detach().requires_grad_()


HEALTHY["kl_in_eval"] = []
HEALTHY["labels_with_dropout"] = []
HEALTHY["teacher_without_dropout"] = []


# Loss scales.


def scaled_plain(x, scale):
    lr, delta = 0.01, torch.zeros_like(x).uniform_(-0.01, 0.01).requires_grad_()
    for _ in range(3):
        (F.cross_entropy(NET(x + delta), Y) * scale).backward()
        delta = (delta + lr * delta.grad).detach().requires_grad_()


def scaled_image(x, scale):
    alpha, adv = 0.01, x + 0.01 * torch.randn_like(x)
    for _ in range(3):
        adv.requires_grad_()
        loss = F.cross_entropy(NET(adv), Y)
        loss.backward(gradient=torch.tensor(scale))
        adv = (adv + alpha * adv.grad).detach()


class Plain(Layer):
    pace = 0.02

    def moved(self):
        if self.delta is None:
            return 0.01 * torch.randn(self.input.shape)
        return self.delta.detach() + self.pace * self.delta.grad


FAULTS["scaled_plain"] = [("scaled-gradient", 2, None)]
FAULTS["scaled_image"] = [("scaled-gradient", 2, None)]
FAULTS["scaled_layer"] = [("scaled-gradient", 3, None)]  # the first step alone may be normalised


def scaled_by_sign(x, scale):
    lr, delta = 0.01, torch.zeros_like(x).uniform_(-0.01, 0.01).requires_grad_()
    for _ in range(3):
        (F.cross_entropy(NET(x + delta), Y) * scale).backward()
        delta = (delta + lr * delta.grad.sign()).detach().requires_grad_()


def scaled_and_unscaled(x, scale):
    lr, delta = 0.01, torch.zeros_like(x).uniform_(-0.01, 0.01).requires_grad_()
    for _ in range(3):
        (F.cross_entropy(NET(x + delta), Y) * scale).backward()
        delta = (delta + lr * delta.grad / scale).detach().requires_grad_()


def scaled_and_normalised(x, scale):
    lr, delta = 0.01, torch.zeros_like(x).uniform_(-0.01, 0.01).requires_grad_()
    for _ in range(3):
        (F.cross_entropy(NET(x + delta), Y) * scale).backward()
        delta = (delta + lr * delta.grad / delta.grad.norm()).detach().requires_grad_()


HEALTHY["scaled_by_sign"] = []
HEALTHY["scaled_and_unscaled"] = []
HEALTHY["scaled_and_normalised"] = []


def mean_of_parts(x):
    lr, delta = 0.1, torch.zeros_like(x).uniform_(-0.01, 0.01).requires_grad_()
    for _ in range(3):
        (F.cross_entropy(NET(x + delta), Y) / 3).backward()
        delta = (delta + lr * delta.grad).detach().requires_grad_()


HEALTHY["mean_of_parts"] = []


# Types.


def double_into_single(x):
    delta = torch.zeros_like(x, dtype=torch.float64).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        loss_of(x + delta).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


def single_into_half(x, net):
    delta = torch.zeros_like(x, dtype=torch.float32).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        F.cross_entropy(net(x + delta).float(), Y).backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


def single_cast_to_half(x, net):
    delta = torch.zeros_like(x, dtype=torch.float32).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        F.cross_entropy(net((x + delta).to(x.dtype)).float(), Y).backward()
        delta = (delta + 0.2 * delta.grad.sign()).detach().requires_grad_()


def autocast_takes_it(x):
    delta = torch.zeros_like(x).uniform_(-0.1, 0.1).requires_grad_()
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(x + delta)
        loss.backward()
        delta = (delta + 0.05 * delta.grad.sign()).detach().requires_grad_()


class Doubled(Layer):
    def added(self):
        return self.input.detach().double() + self.delta


FAULTS["double_into_single"] = [("dtype-mismatch", 2, None)]
FAULTS["single_into_half"] = [("dtype-mismatch", 2, None)]
FAULTS["doubled"] = [("dtype-mismatch", 1, None)]
HEALTHY["single_cast_to_half"] = []
HEALTHY["autocast_takes_it"] = []
HEALTHY["casts_back"] = []


class CastsBack(Doubled):
    def added(self):
        return super().added().to(self.input.dtype)


def main():
    run(drive, Model("freed_by_the_first", Attached(), live()))
    run(drive, Model("freed_norm", AttachedByNorm(), live()))
    run(drive, Model("leaks_and_retains", Attached(), live()), retain_graph=True)
    run(drive, Model("detached_from_a_live_part", Layer(), live()))
    run(drive, Model("attached_to_a_frozen_part", Attached(), live().requires_grad_(False)))
    part = live()
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    run(drive, Model("trained_part", Attached(), part), retain_graph=True)
    optimizer.step()
    for loop in (leaks_to_the_caller, asks_for_delta_alone, shared_prefix, prefix_made_anew):
        run(loop, X)

    for loop in (values_through_numpy, argmax_between, perturbs_the_wrong_tensor):
        run(loop, X)
    run(drive, Model("detached_in_the_model", Layer(), head=Detaches()))
    run(ignored_by_the_function, X)
    run(drive, Bypasses("bypassed_by_the_model", Layer(), head=live()))
    run(pass_without_gradients, X)
    run(mode_switched_off, X)
    with torch.no_grad():
        run(drive, Model("evaluates_under_no_grad", Layer()))
    run(clean_pass_without_gradients, X)
    run(drive, Model("frozen_all_but_delta", Layer()))

    run(keeps_losses, X, KEPT.append)
    KEPT.append(keeps_a_sum(X))
    drive(
        Model("layer_keeps_losses", Layer()),
        between=lambda _, loss: KEPT.append(loss),
        retain_graph=True,
    )
    for loop in (retains_and_drops, sums_for_one_backward, keeps_numbers):
        run(loop, X)

    for loop in (never_clears, clears_too_early):
        run(loop, X)
    run(drive, Model("skips_every_second", SkipsEverySecond()), steps=4)
    for loop in (zeroes_in_place, zeroes_at_the_start, halves_of_a_batch):
        run(loop, X)

    run(halves_delta_through_data, X)
    run(writes_through_numpy, X)
    model = Model("rounds_the_answer", Layer(), head=Rounds())
    run(drive, model)
    run(shrinks_before_the_forward, X)
    run(moves_through_data, X)
    run(drive, Model("answer_left_alone", Layer(), head=Sines()))

    run(best_of_the_pass, X)
    run(
        drive,
        Model("keeps_views", KeepsInAList()),
        between=lambda model, _: model.layer.seen.append(model.layer.delta.detach()),
    )
    run(
        drive,
        Model("keeps_one", InPlace()),
        between=lambda model, _: model.layer.__dict__.setdefault("first", model.layer.delta.data),
    )
    for loop in (best_cloned, kept_while_made_anew, writes_through_a_view):
        run(loop, X)
    run(drive, Model("moves_in_place", InPlace()))

    run(drive, Model("asked_about_others", Layer()), between=asks)
    run(drive, Model("asked_about_fewer", Layer()), between=lambda m, loss: asks(m, loss, X[:2]))
    model = Model("asked_at_the_end", Layer())
    run(drive, model)
    model.layer.on = True
    asks(model, None)
    model.layer.on = False
    KEPT.append(model)  # what is seen at the end is seen of what is there
    run(drive, Model("asked_again", Layer()), between=lambda m, loss: asks(m, loss, X.clone()))
    run(drive, Model("switched_off_to_ask", Layer()), between=asks_clean)
    run(drive, Model("behind_dropout", Layer(), nn.Dropout(0.3)))

    tokens = Tokens(0)
    run(pads_in_a_loop, IDS, tokens)
    run(drive, Model("pads_in_a_layer", Layer(), tokens, pooled()), given=IDS)
    run(drive, Model("pads_in_double", Layer(), Tokens(0, torch.float64), pooled()), given=IDS)
    run(masks_in_a_loop, IDS, tokens)
    run(drive, Model("masks_in_a_layer", Masked(), tokens, pooled()), given=IDS)
    run(drive, Model("nothing_padded", Layer(), tokens, pooled()), given=IDS.clamp(min=1))

    for attack in (attack_in_eval, attack_restored):
        model = droopy().requires_grad_(True)
        trains(lambda x, attack=attack, model=model: attack(model, x), model)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    trains(Attacker(model).attack_frozen, model)
    model = droopy().requires_grad_(True)
    trains(lambda x: attack_before_train(model, x), model, nn.Module.train)
    attack_without_training(droopy(), X)
    attack_without_training(droopy(), X)
    for name, thaw in (("leaves_the_head_frozen", False), ("thaws_the_head", True)):
        head = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
        trains_a_layer(Model(name, Layer(), head=head), thaw)

    kl_to_clean(droopy(), X)
    mse_to_clean(FunctionalDropout(), X)
    squares_to_clean(droopy().double(), X.double())
    kl_in_eval(droopy().eval(), X)
    labels_with_dropout(droopy(), X)
    teacher_without_dropout(droopy(), X)

    run(scaled_plain, X, 4096.0)
    run(scaled_image, X, 1024.0)
    model = Model("scaled_layer", Plain())
    drive(model, steps=0)
    model.layer.on = True
    for _ in range(3):
        (F.cross_entropy(model(X), Y) * torch.tensor(65536.0)).backward()
        model.layer.update_delta()
    model.layer.on = False
    for loop in (scaled_by_sign, scaled_and_unscaled, scaled_and_normalised):
        run(loop, X, 4096.0)
    run(mean_of_parts, X)

    run(double_into_single, X)
    half = frozen(nn.Linear(8, 3)).half()
    run(single_into_half, X.half(), half)
    run(drive, Model("doubled", Doubled()))
    run(single_cast_to_half, X.half(), half)
    run(autocast_takes_it, X)
    run(drive, Model("casts_back", CastsBack()))


class Rounds(nn.Module):
    """Computes with what it was given and then rounds that in place, past autograd."""

    def forward(self, x):
        out = NET(x * x.sin())
        if x.requires_grad:
            x.data.round_()
        return out


class Sines(nn.Module):
    def forward(self, x):
        return NET(x * x.sin())


if __name__ == "__main__":
    main()
