"""The reference layer gives the numbers of an independent layer, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from _layers import OtherLayer
from pertdbg.layer import PerturbationLayer

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]

Step = tuple[bool, Tensor, Tensor, Tensor]


def steps(layer: Any, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> list[Step]:
    """Run six updates after real backward passes; the fourth meets a NaN."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(shape, generator=generator).mul(3).to(dtype)
    weight = torch.randn(shape[-1], 5, generator=generator).to(dtype)
    layer(hidden)
    layer.adversarial_(True)
    torch.manual_seed(seed)
    seen = []
    for step in range(6):
        layer(hidden).matmul(weight).float().log_softmax(-1)[..., 0].sum().backward()
        gradient = layer.delta.grad.clone()
        if step == 3:
            layer.delta.grad.view(-1)[-1] = float("nan")
        returned = layer.update_delta(True)
        seen.append((returned, gradient, layer.delta.detach(), layer(hidden).detach()))
    return seen


def same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(
        one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=15, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(2, 40)),
    rate=st.sampled_from([1e-4, 1e-2, 0.3]),
    start=st.sampled_from([1e-5, 1e-2, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_every_gradient_delta_and_perturbed_input_equals_the_independent_layers_bit_for_bit(
    dtype: torch.dtype, shape: tuple[int, ...], rate: float, start: float, seed: int
) -> None:
    ours = steps(PerturbationLayer(shape[-1], rate, start), shape, dtype, seed)
    theirs = steps(OtherLayer(shape[-1], rate, start), shape, dtype, seed)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine[0] is other[0]
        assert all(same_bits(a, b) for a, b in zip(mine[1:], other[1:], strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_clean_pass_normalises_each_row_and_keeps_it(dtype: torch.dtype) -> None:
    layer = PerturbationLayer(64)
    hidden = torch.randn(3, 5, 64, dtype=dtype)
    normalised = layer(hidden)
    wide = hidden.double()
    variance = wide.var(-1, unbiased=False, keepdim=True)
    expected = (wide - wide.mean(-1, keepdim=True)) / (variance + 1e-7).sqrt()
    assert normalised is layer.input
    assert normalised.dtype == dtype
    room = 8 * torch.finfo(dtype).eps * (1 + expected.abs())
    assert bool(((normalised.double() - expected).abs() <= room).all())
    assert not list(layer.parameters())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_first_delta_is_float32_within_twice_the_start(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = PerturbationLayer(768)
    layer(torch.randn(4, 64, 768).to(dtype))
    layer.adversarial_(True)
    perturbed = layer(torch.empty(0))
    delta = layer.delta
    assert delta is not None
    assert delta.dtype == torch.float32
    assert perturbed.dtype == dtype
    assert delta.abs().max() == torch.tensor(0.02)
    # A normal draw leaves two standard deviations with probability 0.0455.
    on_bound = (delta.abs() == torch.tensor(0.02)).double().mean()
    assert 0.044 < on_bound < 0.047


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_step_is_the_learning_rate_times_the_gradient_over_its_rows_largest(
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(1)
    layer = PerturbationLayer(16, learning_rate=0.25)
    layer(torch.randn(2, 5, 16).to(dtype))
    layer.adversarial_(True)
    layer(torch.empty(0))
    before = layer.delta
    assert before is not None
    before.grad = torch.randn(2, 5, 16)
    gradient = before.grad.double()
    assert layer.update_delta(True)
    largest = gradient.abs().amax(-1, keepdim=True)
    expected = before.detach().double() + 0.25 * gradient / (1e-6 + largest)
    after = layer.delta
    assert after is not None
    assert torch.allclose(after.double(), expected, rtol=0, atol=1e-7)


def test_a_float64_input_is_perturbed_through_float32() -> None:
    torch.manual_seed(2)
    layer = PerturbationLayer(16)
    layer(torch.randn(2, 5, 16, dtype=torch.float64))
    layer.adversarial_(True)
    perturbed = layer(torch.empty(0))
    delta = layer.delta
    assert delta is not None
    assert perturbed.dtype == torch.float64
    assert torch.equal(perturbed, (layer.input.float() + delta).double())
    assert not torch.equal(perturbed, layer.input + delta)


def test_later_deltas_leave_the_first_ones_bound_by_the_learning_rate_a_call() -> None:
    layer = PerturbationLayer(16)
    layer(torch.randn(2, 5, 16))
    layer.adversarial_(True)
    layer(torch.empty(0))
    for update in range(1, 101):
        delta = layer.delta
        assert delta is not None
        delta.grad = delta.detach().sign()
        assert layer.update_delta(True)
        moved = layer.delta
        assert moved is not None
        # The step is 1e-4 / (1 + 1e-6); float32 rounds each sum by at most half of 2e-9.
        assert moved.abs().max() > delta.abs().max()
        assert float(moved.detach().abs().max()) <= 0.02 + update * (1e-4 + 1e-9)
