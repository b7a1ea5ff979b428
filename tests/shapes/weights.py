"""Attacks on weights: FGM and PGD on the embedding, AWP in its two forms."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from _shapes import Seen
from shapes.models import Words


class FGM:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.backup: dict[str, Tensor] = {}

    def attack(self, epsilon: float = 0.5, emb_name: str = "embedding") -> None:
        for name, param in self.model.named_parameters():
            if param.requires_grad and emb_name in name and param.grad is not None:
                self.backup[name] = param.data.clone()
                norm = torch.norm(param.grad)
                if norm != 0 and not torch.isnan(norm):
                    param.data.add_(epsilon * param.grad / norm)

    def restore(self) -> None:
        for name, param in self.model.named_parameters():
            if name in self.backup:
                param.data = self.backup[name]
        self.backup = {}


class PGD:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.emb_backup: dict[str, Tensor] = {}
        self.grad_backup: dict[str, Tensor] = {}

    def attack(
        self, epsilon: float = 0.3, alpha: float = 0.2, is_first_attack: bool = False
    ) -> None:
        for name, param in self.model.named_parameters():
            if "embedding" in name and param.grad is not None:
                if is_first_attack:
                    self.emb_backup[name] = param.data.clone()
                param.data.add_(alpha * param.grad / torch.norm(param.grad))
                param.data = self.project(name, param.data, epsilon)

    def project(self, name: str, data: Tensor, epsilon: float) -> Tensor:
        r = data - self.emb_backup[name]
        if torch.norm(r) > epsilon:
            r = epsilon * r / torch.norm(r)
        return self.emb_backup[name] + r

    def restore(self) -> None:
        for name, param in self.model.named_parameters():
            if name in self.emb_backup:
                param.data = self.emb_backup[name]
        self.emb_backup = {}

    def backup_grad(self) -> None:
        for name, param in self.model.named_parameters():
            if param.grad is not None:
                self.grad_backup[name] = param.grad.clone()

    def restore_grad(self) -> None:
        for name, param in self.model.named_parameters():
            if name in self.grad_backup:
                param.grad = self.grad_backup[name]


class StepAWP:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.adv_lr, self.adv_eps = model, 0.1, 0.05
        self.backup: dict[str, Tensor] = {}
        self.backup_eps: dict[str, tuple[Tensor, Tensor]] = {}

    def _save(self) -> None:
        for name, param in self.model.named_parameters():
            if "weight" in name and name not in self.backup:
                self.backup[name] = param.data.clone()
                grad_eps = self.adv_eps * param.abs().detach()
                self.backup_eps[name] = param.data - grad_eps, param.data + grad_eps

    def _attack_step(self) -> None:
        for name, param in self.model.named_parameters():
            if name in self.backup and param.grad is not None:
                size = param.grad.norm() + 1e-6
                param.data.add_(self.adv_lr * param.grad / size * (param.norm() + 1e-6))
                low, high = self.backup_eps[name]
                param.data = torch.min(torch.max(param.data, low), high)

    def _restore(self) -> None:
        for name, param in self.model.named_parameters():
            if name in self.backup:
                param.data = self.backup[name]
        self.backup, self.backup_eps = {}, {}


class AdvWeightPerturb:
    def __init__(self, model: nn.Module, proxy: nn.Module, gamma: float) -> None:
        self.model, self.proxy, self.gamma = model, proxy, gamma

    def calc_awp(self, loss_of: Callable[[nn.Module], Tensor]) -> dict[str, Tensor]:
        self.proxy.load_state_dict(self.model.state_dict())
        optimizer = torch.optim.SGD(self.proxy.parameters(), lr=0.1)
        optimizer.zero_grad()
        (-loss_of(self.proxy)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        diff = OrderedDict()
        old, new = self.model.state_dict(), self.proxy.state_dict()
        for name in old:
            if "weight" in name:
                change = new[name] - old[name]
                diff[name] = old[name].norm() / (change.norm() + 1e-20) * change
        return diff

    def perturb(self, diff: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, param in self.model.named_parameters():
                if name in diff:
                    param.add_(self.gamma * diff[name])

    def restore(self, diff: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, param in self.model.named_parameters():
                if name in diff:
                    param.add_(-self.gamma * diff[name])


def _moved(model: nn.Module, before: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
    """Give what moved, and its gradient, each as one vector."""
    moved, gradients = [], []
    for name, param in model.named_parameters():
        if not torch.equal(param, before[name]):
            moved.append((param.detach() - before[name]).flatten())
            gradients.append(None if param.grad is None else param.grad.flatten())
    whole = [gradient for gradient in gradients if gradient is not None]
    return torch.cat(moved), torch.cat(whole) if len(whole) == len(gradients) else None


def _size(model: nn.Module, before: dict[str, Tensor]) -> float:
    """Give the norm that the weights that moved had before, in float64."""
    names = [name for name, param in model.named_parameters() if not param.equal(before[name])]
    return math.hypot(*(float(before[name].double().norm()) for name in names))


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: param.detach().clone() for name, param in model.named_parameters()}


def run(rounds: int, seen: Seen) -> None:
    model = Words()
    fgm, pgd, awp = FGM(model), PGD(model), StepAWP(model)
    apart = AdvWeightPerturb(model, Words(), 0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen.watch(model)
    for _ in range(rounds):
        ids, labels = torch.randint(1, 40, (4, 5)), torch.randint(0, 3, (4,))

        def loss_of(net: nn.Module, ids: Tensor = ids, labels: Tensor = labels) -> Tensor:
            assert isinstance(net, Words)
            return functional.cross_entropy(net(net.embedding(ids)), labels)

        optimizer.zero_grad()
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        before = _copy(model)
        fgm.attack()
        seen.made(_moved(model, before)[0], "FGM.attack")
        loss_of(model).backward()  # type: ignore[no-untyped-call]
        fgm.restore()
        pgd.backup_grad()
        for turn in range(3):
            pgd.attack(is_first_attack=turn == 0)
            delta, gradient = _moved(model, before)
            if turn == 0:
                seen.made(delta, "PGD.attack")
            else:
                seen.moved(delta, gradient, "PGD.attack")
            optimizer.zero_grad()
            loss_of(model).backward()  # type: ignore[no-untyped-call]
        pgd.restore()
        pgd.restore_grad()
        awp._save()
        for turn in range(2):
            awp._attack_step()
            delta, gradient = _moved(model, before)
            limit = 0.05 * _size(model, before)
            if turn == 0:
                seen.made(delta, "StepAWP._attack_step", limit=limit)
            else:
                seen.moved(delta, gradient, "StepAWP._attack_step", limit)
        awp._restore()
        diff = apart.calc_awp(loss_of)
        apart.perturb(diff)
        limit = 0.01 * _size(model, before)
        seen.made(_moved(model, before)[0], "AdvWeightPerturb.perturb", limit=limit)
        apart.restore(diff)
        optimizer.step()
        seen.result(*model.parameters(), *(param.grad for param in model.parameters()))
