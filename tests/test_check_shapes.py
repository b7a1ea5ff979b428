"""Loops of the shapes that people publish, 50 steps each, in their authors' own use."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from _shapes import Came, Seen, Shape, observed
from pertdbg.findings.checker import Checker
from pertdbg.findings.rule import Closing
from shapes.models import Words, pictures

ROUNDS, STEPS = 10, 5
HEALTHY = (
    *("attacks", "freelb", "iterate", "one_step_calls", "sift", "steps", "token_vat", "trades"),
    *("unknown", "weights", "wrapped"),
)

pytestmark = pytest.mark.filterwarnings("default")


def found_in(came: Came) -> list[tuple[str, int]]:
    assert came.ended == "returned"
    assert len(came.records) >= 20
    checker = Checker()
    for record in came.records:
        checker.feed(record)
    checker.end(lambda layer: Closing(None, None))
    return [(found.kind, found.call) for found in checker.findings]


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_published_shape(name: str) -> None:
    shape = importlib.import_module(f"shapes.{name}")
    assert found_in(observed(shape.run, ROUNDS)) == []


def test_the_first_step_of_smart_is_noise_and_the_page_says_so() -> None:
    shape = importlib.import_module("shapes.smart")
    assert found_in(observed(shape.run, ROUNDS)) == [("random-start-dominates", 2)]


def test_virtual_adversarial_training_through_dropout_is_named_and_without_it_is_not() -> None:
    shape = importlib.import_module("shapes.vat")
    assert found_in(observed(shape.run, ROUNDS)) == [("stochastic-forward", 2)]
    assert found_in(observed(partial(shape.run, dropout=0.0), ROUNDS)) == []


def package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} can't be imported: {error}")


def torchattacks(name: str) -> Shape:
    attacks = package("torchattacks")

    def run(rounds: int, seen: Seen) -> None:
        model, images, labels = pictures()
        attack = getattr(attacks, name)(model, steps=STEPS)
        for _ in range(rounds):
            attack(images, labels)

    return run


def foolbox(name: str) -> Shape:
    library = package("foolbox")

    def run(rounds: int, seen: Seen) -> None:
        model, images, labels = pictures()
        wrapped = library.PyTorchModel(model, bounds=(0, 1), device="cpu")
        attack = getattr(library.attacks, name)(steps=STEPS)
        for _ in range(rounds):
            attack(wrapped, images, labels, epsilons=0.05)

    return run


def cleverhans(norm: str) -> Shape:
    descent = package("cleverhans.torch.attacks.projected_gradient_descent")

    def run(rounds: int, seen: Seen) -> None:
        model, images, _ = pictures()
        for _ in range(rounds):
            descent.projected_gradient_descent(
                model, images, 0.06, 0.02, STEPS, float(norm), clip_min=0, clip_max=1
            )
            model.zero_grad()

    return run


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        *((torchattacks, name) for name in ("PGD", "BIM", "MIFGSM", "TPGD", "PGDL2", "CW")),
        *((foolbox, name) for name in ("LinfPGD", "LinfBasicIterativeAttack", "L2PGD")),
        *((cleverhans, str(norm)) for norm in (math.inf, 2)),
    ],
)
def test_nothing_is_found_in_a_public_package(shape: Callable[[str], Shape], name: str) -> None:
    assert found_in(observed(shape(name), ROUNDS)) == []


def test_smart_pytorch_with_its_defaults_starts_along_the_noise() -> None:
    smart = package("smart_pytorch")

    def run(rounds: int, seen: Seen) -> None:
        model = Words()
        loss_of = smart.SMARTLoss(model, smart.kl_loss, num_steps=STEPS)
        for _ in range(rounds):
            embedded = model.embedding(torch.randint(1, 40, (4, 5)))
            loss_of(embedded, model(embedded)).backward()

    assert found_in(observed(run, ROUNDS)) == [("random-start-dominates", 2)]
