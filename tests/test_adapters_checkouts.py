"""Public implementations that no package index serves, from a checkout where one is given.

Each test names its environment variable: the folder that ``git clone`` made. Nothing of these
projects is kept here. What they call on the GPU stays on the CPU.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from _shapes import Came, Seen, Shape, observed, plain
from shapes.models import pictures

ROUNDS = 50

pytestmark = pytest.mark.filterwarnings("default")


def checkout(variable: str, *parts: str) -> Path:
    """Give a file of a checkout, or skip."""
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} names no checkout")
    return Path(folder, *parts)


def load(path: Path, name: str) -> Any:
    """Import one file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "cuda", lambda tensor, *args, **kwargs: tensor)


def both(run: Shape, found: dict[str, list[str]], calls: dict[str, int]) -> Came:
    """Run without the agent and with it, and compare."""
    plain(run, 1)
    without, with_ = plain(run, ROUNDS), observed(run, ROUNDS)
    assert without.ended == "returned"
    assert with_.trace() == without.trace()
    assert with_.report == found
    for layer, expected in calls.items():
        assert sum(record.layer == layer for record in with_.records) == expected
    moved = [record for record in with_.records if not record.update.created]
    assert all(record.gradient.present for record in moved)
    return with_


class Tagger(nn.Module):
    """Has the normalised embeddings that SiFT hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 12)
        self.LayerNorm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 3)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.LayerNorm(self.embedding(ids))).mean(1)
        return logits


def test_sift_of_deberta_is_followed_and_runs_as_without_us() -> None:
    """``PERTDBG_DEBERTA``: github.com/microsoft/DeBERTa."""
    path = checkout("PERTDBG_DEBERTA", "DeBERTa", "sift", "sift.py")

    def run(rounds: int, seen: Seen) -> None:
        sift = load(path, "checkout_sift")
        model = Tagger()
        layers = sift.hook_sift_layer(model, hidden_size=12, target_module="LayerNorm")
        learner = sift.AdversarialLearner(model, layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(rounds):
            ids, labels = torch.randint(1, 40, (4, 5)), torch.randint(0, 3, (4,))
            logits = model(ids)
            loss = nn.functional.cross_entropy(logits, labels)
            loss = loss + learner.loss(logits, lambda net, ids: net(ids), ids=ids)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.result(loss, *model.parameters())

    name = "PerturbationLayer"
    came = both(run, {"sift": [name]}, {name: 2 * ROUNDS})
    assert {record.delta.bound for record in came.records} == {0.02}
    assert {record.step for record in came.records} == {0, 1}


def test_trades_is_followed_and_runs_as_without_us() -> None:
    """``PERTDBG_TRADES``: github.com/yaodongyu/TRADES."""
    path = checkout("PERTDBG_TRADES", "trades.py")

    def run(rounds: int, seen: Seen) -> None:
        trades = load(path, "checkout_trades")
        for distance in ("l_inf", "l_2"):
            model, images, labels = pictures()
            seen.watch(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(rounds):
                loss = trades.trades_loss(
                    model, images, labels, optimizer, perturb_steps=4, distance=distance
                )
                loss.backward()
                optimizer.step()
                seen.result(loss, *model.parameters())

    names = ["trades_loss", "trades_loss:delta"]
    came = both(run, {"trades": names}, dict.fromkeys(names, 5 * ROUNDS))
    linf = [record for record in came.records if record.layer == "trades_loss"]
    assert {record.delta.bound for record in linf} == {0.031}
    assert {record.delta.beyond for record in linf} == {0}


def test_vat_pytorch_is_followed_and_runs_as_without_us() -> None:
    """``PERTDBG_VAT``: github.com/lyakaap/VAT-pytorch."""
    path = checkout("PERTDBG_VAT", "vat.py")

    def run(rounds: int, seen: Seen) -> None:
        vat = load(path, "checkout_vat")
        model = nn.Sequential(nn.Linear(8, 20), nn.ReLU(), nn.Linear(20, 3))
        seen.watch(model)
        loss_of = vat.VATLoss(ip=3)
        for _ in range(rounds):
            loss = loss_of(model, torch.randn(6, 8))
            loss.backward()
            seen.result(loss, *(parameter.grad for parameter in model.parameters()))

    name = "VATLoss.forward"
    came = both(run, {"vat": [name]}, {name: 4 * ROUNDS})
    for record in came.records:
        assert record.delta.norm == pytest.approx(math.sqrt(6), rel=1e-4)  # six rows of norm 1


def test_advertorch_is_followed_and_runs_as_without_us() -> None:
    """``PERTDBG_ADVERTORCH``: github.com/BorealisAI/advertorch; needs torchvision."""
    folder = checkout("PERTDBG_ADVERTORCH")
    pytest.importorskip("torchvision")

    def run(rounds: int, seen: Seen) -> None:
        sys.path.insert(0, str(folder))
        attacks = importlib.import_module("advertorch.attacks.iterative_projected_gradient")
        sys.path.remove(str(folder))
        model, images, labels = pictures()
        seen.watch(model)
        loss_fn = nn.CrossEntropyLoss(reduction="sum")
        for _ in range(rounds):
            found = attacks.perturb_iterative(
                images, labels, model, 4, 0.05, 0.02, loss_fn, clip_min=0.0, clip_max=1.0
            )
            seen.result(found)

    name = "perturb_iterative"
    came = both(run, {"advertorch": [name]}, {name: 5 * ROUNDS})
    assert {record.delta.bound for record in came.records} == {0.05}
