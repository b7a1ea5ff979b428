from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from _probe import Layer, both_paths, observe, reasons, with_gradient
from pertdbg.agent.probe import Probe

MOVED = ("delta.moved_max", "delta.moved_fraction")
CHANGED = ("effect.changed_fraction", "effect.cosine")


def layer(*shape: int, count: int = 3) -> Layer:
    shape = shape or (count,)
    clean = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    delta = torch.full(shape, 0.5)
    return Layer(delta, clean, clean + delta)


def moving(layer: Layer) -> None:
    layer.delta = layer.delta + 0.25
    layer.perturbed_input = layer.input + layer.delta


def test_a_creation_compares_nothing_with_what_was_there_before() -> None:
    subject = layer()
    subject.delta = None

    def create(layer: Layer) -> None:
        layer.delta = torch.ones(3)
        layer.perturbed_input = layer.input + layer.delta

    seen = observe(subject, create)
    assert {reasons(seen)[field] for field in MOVED + CHANGED} == {"created"}
    assert (seen.effect.visible_fraction, seen.effect.gap_max) == (1.0, 1.0)
    assert seen.gradient.reason == "no-delta"


@both_paths
def test_a_plain_update_moves_delta_and_the_perturbed_input_alike(use_numpy: bool) -> None:
    seen = observe(layer(), moving, use_numpy=use_numpy)
    assert (seen.delta.moved_max, seen.delta.moved_fraction) == (0.25, 1.0)
    assert (seen.effect.changed_fraction, seen.effect.cosine) == (1.0, 1.0)
    assert reasons(seen) == {}


def in_place(tensor: torch.Tensor) -> None:
    tensor.add_(0.25)


def through_data(tensor: torch.Tensor) -> None:
    tensor.data.add_(0.25)


def through_numpy(tensor: torch.Tensor) -> None:
    tensor.numpy()[...] += 0.25


@both_paths
@pytest.mark.parametrize("write", [in_place, through_data, through_numpy])
@pytest.mark.parametrize("count", [3, 70_000])
def test_an_update_in_place_is_compared_with_what_was_there_before(
    count: int, write: Callable[[torch.Tensor], None], use_numpy: bool
) -> None:
    def update(layer: Layer) -> None:
        write(layer.delta)
        write(layer.perturbed_input)

    seen = observe(layer(count=count), update, use_numpy=use_numpy)
    assert (seen.delta.moved_max, seen.delta.moved_fraction) == (0.25, 1.0)
    assert seen.effect.changed_fraction == 1.0
    assert seen.effect.cosine == pytest.approx(1.0, abs=1e-12)


@both_paths
@pytest.mark.parametrize("write", [in_place, through_data, through_numpy])
@pytest.mark.parametrize("count", [3, 70_000])
def test_a_write_to_the_input_makes_the_change_of_no_meaning(
    count: int, write: Callable[[torch.Tensor], None], use_numpy: bool
) -> None:
    def update(layer: Layer) -> None:
        write(layer.input)
        moving(layer)

    seen = observe(layer(count=count), update, use_numpy=use_numpy)
    assert {reasons(seen)[field] for field in CHANGED} == {"input-changed"}
    assert (seen.effect.changed_fraction, seen.effect.cosine) == (None, None)
    assert seen.delta.moved_fraction == 1.0


@both_paths
@pytest.mark.parametrize("count", [3, 70_000])
def test_another_input_of_the_same_values_is_the_same_input(count: int, use_numpy: bool) -> None:
    def update(layer: Layer) -> None:
        layer.input = layer.input.clone()
        moving(layer)

    assert observe(layer(count=count), update, use_numpy=use_numpy).effect.cosine is not None


@both_paths
@pytest.mark.parametrize("count", [3, 70_000])
def test_another_input_of_other_values_is_a_changed_input(count: int, use_numpy: bool) -> None:
    def update(layer: Layer) -> None:
        layer.input = layer.input.clone()
        layer.input[-1] += 1
        moving(layer)

    seen = observe(layer(count=count), update, use_numpy=use_numpy)
    assert reasons(seen)["effect.cosine"] == "input-changed"


def test_an_input_with_nan_that_stays_is_the_same_input() -> None:
    subject = layer()
    subject.input[0] = float("nan")

    def update(layer: Layer) -> None:
        layer.input = layer.input.clone()
        moving(layer)

    assert "effect.changed_fraction" not in reasons(observe(subject, update))


def test_the_caller_can_say_that_the_input_was_replaced_before_the_call() -> None:
    seen = observe(layer(), moving, input_replaced=True)
    assert {reasons(seen)[field] for field in CHANGED} == {"input-changed"}


@both_paths
@pytest.mark.parametrize("count", [3, 70_000])
def test_where_nothing_moved_there_is_no_cosine(count: int, use_numpy: bool) -> None:
    seen = observe(layer(count=count), use_numpy=use_numpy)
    assert reasons(seen) == {"effect.cosine": "nothing-moved"}
    assert (seen.delta.moved_max, seen.delta.moved_fraction) == (0.0, 0.0)
    assert seen.effect.changed_fraction == 0.0


@both_paths
def test_a_step_lost_in_rounding_moves_delta_but_not_the_perturbed_input(use_numpy: bool) -> None:
    clean = torch.full((4,), 100.0, dtype=torch.bfloat16)
    subject = Layer(torch.zeros(4), clean, clean.clone())

    def update(layer: Layer) -> None:
        layer.delta = layer.delta + 1e-3
        layer.perturbed_input = (layer.input.float() + layer.delta).bfloat16()

    seen = observe(subject, update, use_numpy=use_numpy)
    assert seen.delta.moved_fraction == 1.0
    assert (seen.effect.visible_fraction, seen.effect.changed_fraction) == (0.0, 0.0)
    assert reasons(seen) == {"effect.cosine": "nothing-moved"}


@both_paths
def test_a_delta_of_one_row_is_compared_as_it_is_broadcast(use_numpy: bool) -> None:
    clean = torch.zeros(3, 2, 4)
    delta = torch.arange(8.0).reshape(1, 2, 4)
    subject = Layer(delta, clean, clean + delta)

    def update(layer: Layer) -> None:
        layer.delta = layer.delta * 2
        layer.perturbed_input = layer.input + layer.delta

    seen = observe(subject, update, use_numpy=use_numpy)
    assert seen.effect.cosine == pytest.approx(1.0, abs=1e-12)
    assert (seen.effect.gap_max, seen.delta.moved_fraction) == (14.0, 7 / 8)


@both_paths
def test_tensors_of_shapes_that_do_not_go_together_say_so(use_numpy: bool) -> None:
    subject = Layer(torch.ones(2, 4), torch.ones(3, 4), torch.ones(2, 4))
    seen = observe(subject, use_numpy=use_numpy)
    assert reasons(seen)["effect.gap_max"] == "shapes-differ"
    assert reasons(seen)["effect.visible_fraction"] == "shapes-differ"


@both_paths
def test_shapes_that_change_during_the_call_are_not_compared(use_numpy: bool) -> None:
    def update(layer: Layer) -> None:
        layer.delta, layer.perturbed_input = torch.ones(2, 2), torch.ones(2, 2)

    seen = observe(layer(), update, use_numpy=use_numpy)
    assert {reasons(seen)[field] for field in MOVED + CHANGED} == {"shape-changed"}


@both_paths
def test_a_dtype_that_changes_during_the_call_is_compared_in_value(use_numpy: bool) -> None:
    def update(layer: Layer) -> None:
        layer.delta = layer.delta.double() + 1e-12

    seen = observe(layer(), update, use_numpy=use_numpy)
    assert seen.delta.moved_max == pytest.approx(1e-12, rel=1e-3)
    assert seen.delta.moved_fraction == 1.0


def test_a_delta_that_is_dropped_leaves_no_facts_and_no_error() -> None:
    def update(layer: Layer) -> None:
        layer.delta = None

    seen = observe(layer(), update)
    assert (seen.delta.norm, seen.delta.moved_max) == (None, None)
    assert reasons(seen) == {"effect.cosine": "no-delta"}


def test_a_layer_that_holds_nothing_has_no_facts_and_nothing_unknown() -> None:
    seen = observe(Layer(), bound=0.02, bound_kind="creation")
    assert seen.unknown == ()
    assert seen.storages == {}
    assert (seen.delta.bound, seen.delta.bound_kind) == (0.02, "creation")


@pytest.mark.parametrize(
    ("make", "backwards", "reason"),
    [
        (lambda: None, 1, "no-delta"),
        (lambda: torch.ones(3, requires_grad=True) * 2, 1, "nonleaf"),
        (lambda: torch.ones(3), 1, "requires-grad-off"),
        (lambda: torch.ones(3, requires_grad=True), 0, "no-backward"),
        (lambda: torch.ones(3, requires_grad=True), 2, "not-filled"),
        (lambda: torch.ones(3, requires_grad=True), None, "not-filled"),
    ],
)
def test_a_missing_gradient_has_its_reason(
    make: Callable[[], Any], backwards: int | None, reason: str
) -> None:
    gradient = observe(Layer(delta=make()), backwards=backwards).gradient
    assert (gradient.present, gradient.reason, gradient.norm) == (False, reason, None)
    assert gradient.backwards == backwards


def test_the_gradient_is_the_one_of_entry_though_the_update_clears_it() -> None:
    delta = with_gradient(torch.zeros(2), torch.tensor([3.0, 4.0]))

    def update(layer: Layer) -> None:
        layer.delta.grad.zero_()
        layer.delta.grad = None

    seen = observe(Layer(delta=delta), update)
    assert seen.gradient.norm == 5.0
    assert seen.tensors.before.delta.has_grad is True
    assert seen.tensors.after.delta.has_grad is False


def test_an_update_that_raises_can_still_be_left() -> None:
    subject, probe = layer(), Probe()
    entry = probe.enter(subject.roles())
    seen = probe.leave(entry, subject.roles())
    assert seen.delta.moved_fraction == 0.0


def test_buffers_used_again_hold_no_values_of_another_call() -> None:
    probe = Probe()
    for step in range(1, 6):
        subject = layer(count=70_000)

        def update(layer: Layer, step: int = step) -> None:
            layer.delta = layer.delta + step

        assert observe(subject, update, probe=probe).delta.moved_max == float(step)
