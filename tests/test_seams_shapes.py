"""Loops with the shape of public implementations: found, recorded rightly, and left alone."""

from __future__ import annotations

import functools
import importlib
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest

from _shapes import Came, Known, observed, plain
from pertdbg.record import CallRecord

ROUNDS = 50
STEPS = 17
"""Rounds that make 50 steps and more where each has three or four."""
ONE_STEP = ("sift", "noise_hook", "unknown")
FOUND = {
    "sift": {"sift": ["Perturbing"]},
    "smart": {"smart": ["Smoothness.forward"]},
    "freelb": {"freelb": ["train"]},
    "token_vat": {"token-aware-vat": ["train", "train:delta_tok"]},
    "vat": {"vat": ["VirtualLoss.forward"]},
    "attacks": {"torchattacks": ["LinfSteps.forward"]},
    "wrapped": {"foolbox": ["LinfDescent.run"]},
    "one_step_calls": {"cleverhans": ["projected_gradient_descent"]},
    "iterate": {"advertorch": ["perturb_iterative"]},
    "trades": {"trades": ["trades_loss", "trades_loss:delta"]},
    "steps": {"madry": ["Attacker.attack.get_adv_examples"]},
    "weights": {
        "weights": ["FGM.attack", "PGD.attack"],
        "awp-step": ["StepAWP._attack_step"],
        "awp-perturb": ["AdvWeightPerturb.perturb"],
    },
    "noise_hook": {"noise": ["embedding"]},
    "unknown": {"generic": ["harden"]},
    "deepfool": {"deepfool": ["deepfool"]},
    "estimator": {"art": ["Projected._generate_batch"]},
    "rebound": {"generic": ["named", "returned", "run"]},
}
"""The adapter that has to find each shape, and what it has to call it."""

NOISE = """
name = "noise"
title = "A hook that adds noise"
seam = "function"
[match]
modules = ["shapes.noise_hook"]
functions = ["noise_hook"]
[roles]
model = "module"
input = "output"
[numbers]
bound = "module.neftune_noise_alpha / sqrt(length * width)"
norm = "inf"
"""

BOUNDS = {
    "sift": 0.04,
    "attacks": 8 / 255,
    "wrapped": 0.05,
    "one_step_calls": 0.06,
    "iterate": 0.05,
    "steps": 0.05,
    "noise_hook": 5 / math.sqrt(5 * 12),
    "unknown": 0.04,
}
RATES = {
    "sift": 5e-3,
    "smart": 1e-2,
    "freelb": 0.05,
    "token_vat": 0.05,
    "attacks": 3 / 255,
    "wrapped": 0.015,
    "one_step_calls": 0.02,
    "iterate": 0.02,
    "steps": 0.02,
    "unknown": 0.03,
}


@functools.cache
def both(name: str) -> tuple[Came, Came]:
    """Run a shape without the agent and with it."""
    run: Any = importlib.import_module(f"shapes.{name}").run
    plain(run, 1)  # torch imports parts of itself at the first use, and keeps some tensors for it
    rounds = ROUNDS if name in ONE_STEP else STEPS
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "noise.toml"
        own.write_text(NOISE)
        return plain(run, rounds), observed(run, rounds, [own])


@pytest.mark.parametrize("name", FOUND)
def test_results_versions_random_state_and_lifetimes_are_those_without_the_agent(name: str) -> None:
    without, with_ = both(name)
    assert without.ended == "returned"
    assert with_.trace() == without.trace()
    assert with_.alive == 0


@pytest.mark.parametrize("name", FOUND)
def test_the_adapter_that_is_meant_finds_it(name: str) -> None:
    assert both(name)[1].report == FOUND[name]


@pytest.mark.parametrize("name", FOUND)
def test_each_call_is_recorded_once_with_what_the_loop_knew_of_it(name: str) -> None:
    _, with_ = both(name)
    layers = [layer for found in FOUND[name].values() for layer in found]
    known = with_.seen.calls
    for layer in layers:
        records = [record for record in with_.records if record.layer == layer]
        expected = known[layer if len(layers) > 1 else next(iter(known))]
        assert [record.call for record in records] == list(range(1, len(expected) + 1))
        for record, told in zip(records, expected, strict=True):
            _compare(record, told)
    assert len(with_.records) == sum(map(len, known.values()))


def _compare(record: CallRecord, told: Known) -> None:
    assert record.update.created is told.created
    assert (record.step == 0) is told.created
    assert record.delta.max_abs == pytest.approx(told.largest, rel=1e-6)
    assert record.delta.norm == pytest.approx(told.norm, rel=1e-5)
    if told.gradient is not None:
        assert record.gradient.norm == pytest.approx(told.gradient, rel=1e-6)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_bound_that_the_code_declares_is_read(name: str) -> None:
    for record in both(name)[1].records:
        assert record.delta.bound == pytest.approx(BOUNDS[name], rel=1e-12)


@pytest.mark.parametrize("name", RATES)
def test_the_step_size_that_the_code_declares_is_read(name: str) -> None:
    for record in both(name)[1].records:
        assert record.update.learning_rate == pytest.approx(RATES[name], rel=1e-12)


@pytest.mark.parametrize("name", ["attacks", "wrapped", "one_step_calls", "steps", "noise_hook"])
def test_a_healthy_projection_is_never_beyond_its_bound_for_rounding(name: str) -> None:
    assert {record.delta.beyond for record in both(name)[1].records} == {0}


def test_a_bound_on_the_norm_of_rows_is_recorded_where_the_code_limits_these() -> None:
    _, with_ = both("token_vat")
    assert {record.delta.bound for record in with_.records} == {None}
    assert {record.reason("delta.bound") for record in with_.records} == {
        "adv_max_norm = 0.2 limits another norm than that of each element"
    }
    by_layer = {
        layer: [record.delta for record in with_.records if record.layer == layer]
        for layer in with_.seen.calls
    }
    assert {delta.bound_norm for delta in by_layer["train"]} == {None}  # nothing limits this one
    for delta, told in zip(
        by_layer["train:delta_tok"], with_.seen.calls["train:delta_tok"], strict=True
    ):
        assert (delta.bound_norm, delta.bound_of) == (0.2, "row")
        assert delta.norm_max == pytest.approx(told.row, rel=1e-6)
        assert told.row <= 0.2 * (1 + 1e-6)


def test_a_direction_of_norm_one_is_recorded_with_that_bound() -> None:
    _, with_ = both("vat")
    (known,) = with_.seen.calls.values()
    for record, told in zip(with_.records, known, strict=True):
        assert (record.delta.bound_norm, record.delta.bound_of) == (1, "sample")
        assert record.delta.norm_max == pytest.approx(told.sample, rel=1e-6)


def test_a_bound_on_the_norm_of_one_weight_is_recorded_with_that_norm() -> None:
    _, with_ = both("weights")
    for layer, limit in (("FGM.attack", 0.5), ("PGD.attack", 0.3)):
        records = [record for record in with_.records if record.layer == layer]
        for record, told in zip(records, with_.seen.calls[layer], strict=True):
            assert (record.delta.bound_norm, record.delta.bound_of) == (limit, "whole")
            assert record.delta.norm_max == pytest.approx(told.norm, rel=1e-5)


def test_a_bound_that_goes_with_the_weights_is_recorded_as_it_was_at_that_call() -> None:
    _, with_ = both("weights")
    for layer in ("StepAWP._attack_step", "AdvWeightPerturb.perturb"):
        limits = set()
        for record, told in zip(
            [record for record in with_.records if record.layer == layer],
            with_.seen.calls[layer],
            strict=True,
        ):
            assert record.delta.bound_of == "whole"
            assert record.delta.bound_norm == pytest.approx(told.limit, rel=1e-6)
            assert record.delta.norm_max == pytest.approx(told.norm, rel=1e-5)
            assert told.norm <= (told.limit or 0) * (1 + 1e-4)
            limits.add(record.delta.bound_norm)
        assert len(limits) >= STEPS  # the weights are trained in between


def test_a_bound_on_the_norm_of_samples_is_recorded_with_the_largest_of_these_norms() -> None:
    _, with_ = both("estimator")
    (known,) = with_.seen.calls.values()
    limited = [record for record in with_.records if record.delta.bound_norm is not None]
    assert len(limited) == len(known) // 2  # the other half limits each element
    for record, told in zip(with_.records, known, strict=True):
        if record.delta.bound_norm is None:
            assert record.delta.bound == 0.05
            continue
        assert (record.delta.bound_norm, record.delta.bound_of) == (0.4, "sample")
        assert record.delta.norm_max == pytest.approx(told.sample, rel=1e-6)
        assert record.delta.bound is None
    assert max(record.delta.norm_max or 0 for record in limited) == pytest.approx(0.4, rel=1e-3)


def test_the_perturbed_tensor_plays_the_part_of_delta_where_delta_is_a_difference() -> None:
    for record in both("attacks")[1].records:
        assert record.tensors.after.delta == record.tensors.after.perturbed_input
        assert record.shared == ()
        held = [name for facts in record.storages.values() for name in facts.holds]
        assert "delta" not in held
        assert "before.delta" not in held


def test_the_noise_of_a_model_in_eval_mode_is_not_recorded() -> None:
    assert len(both("noise_hook")[1].records) == ROUNDS


def test_core_facts_are_recorded_of_every_shape() -> None:
    for name in ("attacks", "freelb", "weights"):
        run: Any = importlib.import_module(f"shapes.{name}").run
        records = observed(run, 2, facts="core").records
        assert records
        assert all(record.delta.max_abs is not None for record in records)
