"""The states that a perturbation layer can be brought into, and what it does in each."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pertdbg.layer import PerturbationLayer

SHAPE = (2, 5, 16)


def adversarial(shape: tuple[int, ...] = SHAPE, rate: float = 1e-4) -> PerturbationLayer:
    """Make a layer that has seen a clean pass and has a delta."""
    torch.manual_seed(0)
    layer = PerturbationLayer(shape[-1], learning_rate=rate)
    layer(torch.randn(shape))
    layer.adversarial_(True)
    layer(torch.empty(0))
    return layer


def delta_of(layer: PerturbationLayer) -> Tensor:
    assert layer.delta is not None
    return layer.delta


def test_a_zero_gradient_leaves_the_values_and_replaces_the_objects() -> None:
    layer = adversarial()
    delta, perturbed = delta_of(layer), layer.perturbated_input
    delta.grad = torch.zeros_like(delta)
    assert layer.update_delta(True) is True
    assert torch.equal(delta_of(layer), delta)
    assert torch.equal(layer.perturbated_input, perturbed)
    assert delta_of(layer) is not delta
    assert layer.perturbated_input is not perturbed


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12])
def test_the_guard_damps_the_step_by_the_size_over_the_size_and_1e_6(size: float) -> None:
    layer = adversarial(rate=1.0)
    delta = delta_of(layer)
    gradient = torch.randn(SHAPE)
    delta.grad = gradient / gradient.abs().amax(-1, keepdim=True) * size
    layer.update_delta(True)
    moved = (delta_of(layer) - delta).abs().amax(-1)
    assert torch.allclose(moved, torch.full_like(moved, size / (size + 1e-6)), rtol=1e-3, atol=1e-8)


def test_a_row_without_gradient_stays_and_the_others_move() -> None:
    layer = adversarial()
    delta = delta_of(layer)
    delta.grad = torch.ones_like(delta)
    delta.grad[0] = 0
    layer.update_delta(True)
    assert (delta_of(layer) != delta).any(-1).tolist() == [[False] * 5, [True] * 5]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e30])
def test_a_norm_that_is_not_finite_is_refused_and_nothing_is_replaced(value: float) -> None:
    layer = adversarial()
    delta, perturbed = delta_of(layer), layer.perturbated_input
    delta.grad = torch.ones_like(delta)
    delta.grad[0, 0, 0] = value  # the square of 1e30 overflows float32, and so does the norm
    assert layer.update_delta(True) is False
    assert layer.delta is delta
    assert layer.perturbated_input is perturbed
    assert delta.grad is None
    assert bool(delta.isfinite().all())


def test_a_refused_update_is_over_with_the_next_backward() -> None:
    layer = adversarial()
    delta = delta_of(layer)
    delta.grad = torch.full_like(delta, float("nan"))
    layer.update_delta(True)
    with pytest.raises(AttributeError, match="norm"):
        layer.update_delta(True)
    layer(torch.empty(0)).sum().backward()
    assert layer.update_delta(True) is True


def test_a_gradient_whose_norm_underflows_is_taken_and_moves_nothing() -> None:
    layer = adversarial()
    delta = delta_of(layer)
    delta.grad = torch.full_like(delta, 1e-30)
    assert float(delta.grad.norm()) == 0
    assert layer.update_delta(True) is True
    assert torch.equal(delta_of(layer), delta)


def test_two_backwards_through_the_kept_perturbed_input_double_the_gradient() -> None:
    layer = adversarial()
    for _ in range(2):
        layer(torch.empty(0)).sum().backward()
    gradient = delta_of(layer).grad
    assert gradient is not None
    assert torch.equal(gradient, torch.full(SHAPE, 2.0))


@pytest.mark.parametrize("updates", [0, 1])
def test_an_update_without_backward_raises_attribute_error(updates: int) -> None:
    layer = adversarial()
    for _ in range(updates):
        layer(torch.empty(0)).sum().backward()
        layer.update_delta(True)
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'norm'"):
        layer.update_delta(True)


def test_the_default_argument_leaves_a_delta_that_no_backward_fills() -> None:
    layer = adversarial()
    layer(torch.empty(0)).sum().backward()
    layer.update_delta()
    assert (delta_of(layer).is_leaf, delta_of(layer).requires_grad) == (True, False)
    assert layer.perturbated_input.is_leaf
    with pytest.raises(RuntimeError, match="does not require grad"):
        layer(torch.empty(0)).sum().backward()


def test_adversarial_mode_before_any_clean_pass_raises_attribute_error() -> None:
    layer = PerturbationLayer(16)
    layer.adversarial_(True)
    with pytest.raises(AttributeError, match="input"):
        layer(torch.randn(SHAPE))


def test_outside_adversarial_mode_an_update_returns_true_and_does_nothing() -> None:
    layer = PerturbationLayer(16)
    assert layer.update_delta(True) is True
    layer(torch.randn(SHAPE))
    assert layer.update_delta(True) is True
    assert layer.delta is None
    assert not hasattr(layer, "perturbated_input")


def test_switching_the_mode_off_drops_delta_and_on_keeps_it() -> None:
    layer = adversarial()
    delta = layer.delta
    layer.adversarial_()
    assert layer.delta is delta
    layer.adversarial_(False)
    assert layer.delta is None
    assert layer.adversarial_mode is False


def test_each_new_delta_is_a_leaf_cut_off_from_the_last_and_from_the_clean_pass() -> None:
    layer = PerturbationLayer(16)
    layer(torch.randn(SHAPE, requires_grad=True))
    layer.adversarial_(True)
    for _ in range(3):
        layer(torch.empty(0)).sum().backward()
        layer.update_delta(True)
        assert (delta_of(layer).is_leaf, delta_of(layer).requires_grad) == (True, True)
        node = layer.perturbated_input.grad_fn
        assert node is not None
        leaves = [parent for parent, _ in node.next_functions if parent is not None]
        assert [getattr(leaf, "variable", None) is layer.delta for leaf in leaves] == [True]


def test_a_gradient_asked_for_under_no_grad_is_no_part_of_the_update() -> None:
    layer = adversarial()
    delta_of(layer).grad = torch.ones(SHAPE)
    with torch.no_grad():
        assert layer.update_delta(True) is True
    assert delta_of(layer).requires_grad
    assert layer.perturbated_input.grad_fn is None


def test_other_batch_the_adversarial_pass_ignores_its_argument() -> None:
    layer = adversarial()
    assert layer(torch.randn(3, 7, 16)) is layer.perturbated_input
    assert layer.perturbated_input.shape == SHAPE


def test_other_batch_of_more_rows_does_not_fit_the_kept_delta() -> None:
    layer = adversarial()
    clean_pass(layer, torch.randn(3, 5, 16))
    with pytest.raises(RuntimeError, match=r"tensor a \(3\) must match .* tensor b \(2\)"):
        layer.update_delta(True)


def test_other_batch_a_delta_of_one_row_is_spread_over_three() -> None:
    layer = adversarial((1, 5, 16))
    clean_pass(layer, torch.randn(3, 5, 16))
    assert layer.update_delta(True) is True
    assert delta_of(layer).shape == (1, 5, 16)
    assert layer.perturbated_input.shape == (3, 5, 16)


def test_other_batch_of_the_same_shape_leaves_input_and_perturbed_input_apart() -> None:
    layer = adversarial()
    clean_pass(layer, torch.randn(SHAPE) + 3)
    gap = (layer(torch.empty(0)) - layer.input).abs().max()
    assert gap > 10 * delta_of(layer).abs().max()


def clean_pass(layer: PerturbationLayer, hidden: Tensor) -> None:
    """Run a clean pass as code does that sets the mode by hand: delta is kept."""
    layer.adversarial_mode = False
    layer(hidden)
    layer.adversarial_mode = True
    delta_of(layer).grad = torch.ones_like(delta_of(layer))
