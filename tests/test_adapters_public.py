"""Public packages, unchanged, 50 steps with the agent and without. Skipped where one is missing.

``pip install smart-pytorch torchattacks foolbox cleverhans transformers`` brings them all.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from _shapes import Came, Seen, Shape, observed, plain
from shapes.models import Words, pictures

STEPS = 5
ROUNDS = 10

pytestmark = pytest.mark.filterwarnings("default")


def package(name: str) -> Any:
    """Import a package, or skip; what it warns of is its own affair."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # a RuntimeError where torchvision is broken
        pytest.skip(f"{name} can't be imported: {error}")


def part(of: Any, name: str) -> Any:
    """Give what a package imports when it is asked for, or skip; nothing of ours runs yet.

    transformers tells of whatever its own import fails with, such as a broken torchvision, as an
    ImportError or, in earlier versions, as a RuntimeError.
    """
    try:
        return getattr(of, name)
    except (ImportError, RuntimeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        pytest.skip(f"{of.__name__}.{name} can't be imported: {cause}")


def both(run: Shape) -> Came:
    """Run without the agent and with it, and compare."""
    plain(run, 1)
    without, with_ = plain(run, ROUNDS), observed(run, ROUNDS)
    assert without.ended == "returned"
    assert with_.trace() == without.trace()
    return with_


def check(came: Came, adapter: str, layer: str) -> None:
    """Check that each creation and each step was seen once."""
    assert came.report == {adapter: [layer]}
    made = [record for record in came.records if record.update.created]
    moved = [record for record in came.records if not record.update.created]
    assert len(made) == ROUNDS
    assert len(moved) == ROUNDS * STEPS
    assert all(record.gradient.present for record in moved)
    assert all(record.gradient.norm and record.gradient.norm > 0 for record in moved)


def test_each_step_of_smart_pytorch_is_recorded_and_runs_as_without_us() -> None:
    smart = package("smart_pytorch")
    norms: list[float] = []

    def inf_norm(value: torch.Tensor) -> torch.Tensor:
        size: torch.Tensor = value.abs().amax(-1, keepdim=True)
        norms.append(float((value / (size + 1e-6)).double().norm()))
        return size

    def run(rounds: int, seen: Seen) -> None:
        model = Words()
        seen.watch(model)
        norms.clear()
        loss_of = smart.SMARTLoss(model, smart.kl_loss, norm_fn=inf_norm, num_steps=STEPS)
        for _ in range(rounds):
            embedded = model.embedding(torch.randint(1, 40, (4, 5)))
            loss = loss_of(embedded, model(embedded))
            loss.backward()
            seen.result(loss, model.embedding.weight.grad)

    came = both(run)
    check(came, "smart", "SMARTLoss.forward")
    moved = [record.delta.norm for record in came.records if not record.update.created]
    assert moved == pytest.approx(norms, rel=1e-5)
    assert {record.update.learning_rate for record in came.records} == {1e-3}


@pytest.mark.parametrize(
    ("name", "bound"),
    [("PGD", 8 / 255), ("BIM", 8 / 255), ("MIFGSM", 8 / 255), ("TPGD", 8 / 255), ("PGDL2", None)],
)
def test_each_step_of_torchattacks_is_recorded_and_runs_as_without_us(
    name: str, bound: float | None
) -> None:
    attacks = package("torchattacks")
    ends: list[float] = []

    def run(rounds: int, seen: Seen) -> None:
        model, images, labels = pictures()
        seen.watch(model)
        ends.clear()
        attack = getattr(attacks, name)(model, steps=STEPS)
        for _ in range(rounds):
            adversarial = attack(images, labels)
            ends.append(float((adversarial.double() - images.double()).norm()))
            seen.result(adversarial, images)

    came = both(run)
    check(came, "torchattacks", f"{name}.forward")
    _check_ends(came, ends)
    for record in came.records:
        assert record.delta.bound == pytest.approx(bound)
        assert record.delta.beyond in (0, None)


def _check_ends(came: Came, ends: list[float]) -> None:
    last = [record.delta.norm for record in came.records if record.step == STEPS]
    assert last == pytest.approx(ends, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "bound"),
    [("LinfPGD", 0.05), ("LinfBasicIterativeAttack", 0.05), ("L2PGD", None)],
)
def test_each_step_of_foolbox_is_recorded_and_runs_as_without_us(
    name: str, bound: float | None
) -> None:
    foolbox = package("foolbox")
    ends: list[float] = []

    def run(rounds: int, seen: Seen) -> None:
        model, images, labels = pictures()
        seen.watch(model)
        ends.clear()
        wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
        attack = getattr(foolbox.attacks, name)(steps=STEPS)
        for _ in range(rounds):
            raw, _, success = attack(wrapped, images, labels, epsilons=0.05)
            ends.append(float((raw.double() - images.double()).norm()))
            seen.result(raw, success)

    came = both(run)
    check(came, "foolbox", "BaseGradientDescent.run")
    _check_ends(came, ends)
    for record in came.records:
        assert record.delta.bound == pytest.approx(bound)
        assert record.delta.beyond in (0, None)


@pytest.mark.parametrize("norm", [math.inf, 2])
def test_each_step_of_cleverhans_is_recorded_and_runs_as_without_us(norm: float) -> None:
    attack = package("cleverhans.torch.attacks.projected_gradient_descent")
    ends: list[float] = []

    def run(rounds: int, seen: Seen) -> None:
        model, images, _ = pictures()
        seen.watch(model)
        ends.clear()
        descent: Callable[..., torch.Tensor] = attack.projected_gradient_descent
        for _ in range(rounds):
            found = descent(model, images, 0.06, 0.02, STEPS, norm, clip_min=0, clip_max=1)
            ends.append(float((found.detach().double() - images.double()).norm()))
            seen.result(found)
            model.zero_grad()

    came = both(run)
    check(came, "cleverhans", "projected_gradient_descent")
    _check_ends(came, ends)
    bound = 0.06 if norm == math.inf else None
    assert {record.delta.bound for record in came.records} == {bound}


def test_each_noise_of_neftune_on_a_small_random_bert_is_recorded_and_trains_as_without_us() -> (
    None
):
    transformers = package("transformers")
    neftune = package("transformers.integrations.neftune")
    classifier = part(transformers, "BertForSequenceClassification")
    config = part(transformers, "BertConfig")(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )

    def run(rounds: int, seen: Seen) -> None:
        model = classifier(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        handle = neftune.activate_neftune(model, 5.0)
        for _ in range(rounds * STEPS):
            ids, labels = torch.randint(1, 60, (4, 7)), torch.randint(0, 2, (4,))
            loss = model(input_ids=ids, labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen.result(loss)
        neftune.deactivate_neftune(model, handle)

    came = both(run)
    assert came.report == {"neftune": ["bert.embeddings.word_embeddings"]}
    assert len(came.records) == ROUNDS * STEPS
    for record in came.records:
        assert record.delta.bound == pytest.approx(5 / math.sqrt(7 * 16))
        assert record.delta.beyond == 0
        assert record.delta.max_abs is not None
        assert record.delta.max_abs > 0.9 * 5 / math.sqrt(7 * 16)
