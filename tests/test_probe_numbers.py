from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from _probe import (
    FLOATS,
    Layer,
    both_paths,
    close,
    greatest,
    least,
    norm,
    numbers,
    observe,
    reasons,
    with_gradient,
)

SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 5), (1, 1, 9), (70, 1), (2, 1, 33)]
SCALES = [1.0, 1e-3, 1e-7, 1e-20, 1e4]
ODD = [math.nan, math.inf, -math.inf, 0.0, -0.0]


@st.composite
def tensors(
    draw: st.DrawFn, dtype: torch.dtype | None = None, shape: tuple[int, ...] | None = None
) -> torch.Tensor:
    """A tensor of some float dtype, shape, scale and layout, with odd values here and there."""
    dtype = dtype or draw(st.sampled_from(FLOATS))
    shape = shape if shape is not None else draw(st.sampled_from(SHAPES))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    values = values * draw(st.sampled_from(SCALES))
    flat = values.view(-1)
    for _ in range(draw(st.integers(0, 3))):
        flat[draw(st.integers(0, flat.numel() - 1))] = draw(st.sampled_from(ODD))
    values = values.to(dtype)
    if values.dim() > 1 and draw(st.booleans()):
        values = values.transpose(0, -1).contiguous().transpose(0, -1)
    return values


def change(after: list[float], before: list[float]) -> list[float]:
    return [a - b for a, b in zip(after, before, strict=True)]


def rows(tensor: torch.Tensor) -> list[list[float]]:
    width = tensor.shape[-1] if tensor.dim() else 1
    values = numbers(tensor)
    return [values[i : i + width] for i in range(0, len(values), width)]


@both_paths
@settings(max_examples=120, deadline=None)
@given(gradient=tensors())
def test_each_number_of_the_gradient_is_that_of_an_independent_computation(
    gradient: torch.Tensor, use_numpy: bool
) -> None:
    delta = with_gradient(torch.zeros_like(gradient), gradient)
    facts = observe(Layer(delta=delta), use_numpy=use_numpy).gradient
    values = numbers(gradient)
    assert facts.present
    assert facts.reason is None
    assert facts.norm == close(norm(values))
    assert facts.min == close(least(values))
    assert facts.max == close(greatest(values))
    assert facts.max_abs == close(greatest([abs(value) for value in values]))
    assert facts.nan == sum(map(math.isnan, values))
    assert facts.inf == sum(map(math.isinf, values))
    assert facts.zero_fraction == close(values.count(0.0) / len(values))
    live = [row for row in rows(gradient) if any(value != 0 for value in row)]
    low = [row for row in live if greatest([abs(value) for value in row]) < 1e-6]
    assert facts.guard_fraction == (close(len(low) / len(live)) if live else None)


@both_paths
@pytest.mark.parametrize("dtype", FLOATS[:4], ids=str)
def test_norm_in_dtype_is_what_the_code_gets_from_norm(dtype: torch.dtype, use_numpy: bool) -> None:
    gradient = (torch.randn(5, 300, generator=torch.Generator().manual_seed(1)) * 300).to(dtype)
    delta = with_gradient(torch.zeros_like(gradient), gradient)
    facts = observe(Layer(delta=delta), use_numpy=use_numpy).gradient
    assert facts.norm_in_dtype == gradient.norm().item()


@both_paths
def test_a_norm_that_overflows_its_dtype_is_finite_in_float64(use_numpy: bool) -> None:
    gradient = torch.full((4, 4), 1e30)
    facts = observe(Layer(with_gradient(torch.zeros(4, 4), gradient)), use_numpy=use_numpy).gradient
    assert facts.norm_in_dtype == math.inf
    assert facts.norm == close(4 * float(torch.tensor(1e30)))


@both_paths
@pytest.mark.parametrize("value", [1e200, 1e308, 1e-200, 5e-324])
def test_the_norm_of_extreme_float64_values_neither_overflows_nor_vanishes(
    value: Any, use_numpy: bool
) -> None:
    gradient = torch.full((3, 3), value, dtype=torch.float64)
    gradient[0, 0] = -value
    layer = Layer(with_gradient(torch.zeros(3, 3, dtype=torch.float64), gradient))
    facts = observe(layer, use_numpy=use_numpy).gradient
    assert facts.norm == close(
        value * 3 if value < 1e308 else math.inf if 3 * value > 1.8e308 else 3 * value
    )


@both_paths
@settings(max_examples=120, deadline=None)
@given(
    delta=tensors(),
    bound=st.sampled_from([None, 0.0, 0.02, 1e-3, 0.5, 1.0]),
    clamp=st.booleans(),
)
def test_each_number_of_delta_is_that_of_an_independent_computation(
    delta: torch.Tensor, bound: float | None, clamp: bool, use_numpy: bool
) -> None:
    if clamp and bound is not None:
        edge = torch.tensor(bound, dtype=delta.dtype).double()
        delta = delta.double().clamp(-edge, edge).to(delta.dtype)
    seen = observe(Layer(delta=delta), bound=bound, bound_kind="always", use_numpy=use_numpy)
    facts, values = seen.delta, numbers(delta)
    assert facts.norm == close(norm(values))
    assert facts.min == close(least(values))
    assert facts.max == close(greatest(values))
    assert facts.max_abs == close(greatest([abs(value) for value in values]))
    assert facts.nan == sum(map(math.isnan, values))
    assert facts.inf == sum(map(math.isinf, values))
    assert (facts.bound, facts.bound_kind) == (bound, "always")
    if bound is None:
        assert (facts.beyond, facts.at_bound) == (None, None)
    else:
        limit = torch.tensor(bound, dtype=delta.dtype).double().item()
        assert facts.beyond == sum(abs(value) > limit for value in values)
        assert facts.at_bound == sum(abs(value) == limit for value in values)
    if all(map(math.isfinite, values)):
        assert facts.mean == pytest.approx(
            statistics.fmean(values), rel=1e-9, abs=1e-12 * facts.max_abs
        )
        assert facts.std == pytest.approx(
            statistics.pstdev(values), rel=1e-6, abs=1e-12 * facts.max_abs
        )
    else:
        assert math.isnan(facts.std)
        assert not math.isfinite(facts.mean)


@both_paths
def test_the_deviation_of_values_far_from_zero_is_not_lost(use_numpy: bool) -> None:
    delta = 1000 + torch.arange(6, dtype=torch.float64).reshape(2, 3) * 1e-6
    facts = observe(Layer(delta=delta), use_numpy=use_numpy).delta
    assert facts.std == pytest.approx(statistics.pstdev(range(6)) * 1e-6, rel=1e-6)


@both_paths
@settings(max_examples=150, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(FLOATS), shape=st.sampled_from(SHAPES))
def test_the_move_and_its_effect_are_those_of_an_independent_computation(
    data: st.DataObject, dtype: torch.dtype, shape: tuple[int, ...], use_numpy: bool
) -> None:
    before = Layer(*(data.draw(tensors(dtype, shape)) for _ in range(3)))
    delta, perturbed = (data.draw(tensors(dtype, shape)) for _ in range(2))
    old, new, clean, arrived, arrives = map(
        numbers, (before.delta, delta, before.input, before.perturbed_input, perturbed)
    )

    def update(layer: Layer) -> None:
        layer.delta, layer.perturbed_input = delta, perturbed

    seen = observe(before, update, use_numpy=use_numpy)
    count, moves = len(old), (change(new, old), change(arrives, arrived))
    assert seen.delta.moved_fraction == close(sum(map(float.__ne__, new, old)) / count)
    assert seen.delta.moved_max == close(greatest([abs(move) for move in moves[0]]))
    assert seen.effect.gap_max == close(
        greatest([abs(a - b) for a, b in zip(arrives, clean, strict=True)])
    )
    assert seen.effect.visible_fraction == close(sum(map(float.__ne__, arrives, clean)) / count)
    assert seen.effect.changed_fraction == close(sum(map(float.__ne__, arrives, arrived)) / count)
    moves = (
        [a - b for a, b in zip(new, old, strict=True)],
        [a - b for a, b in zip(arrives, arrived, strict=True)],
    )
    if 0.0 in map(norm, moves):
        assert reasons(seen)["effect.cosine"] == "nothing-moved"
        assert seen.effect.cosine is None
    elif math.inf in map(norm, moves) or any(map(math.isnan, map(norm, moves))):
        assert math.isnan(seen.effect.cosine)
    else:
        u, v = ([each / norm(move) for each in move] for move in moves)
        expected = math.fsum(a * b for a, b in zip(u, v, strict=True))
        assert seen.effect.cosine == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(FLOATS), shape=st.sampled_from(SHAPES))
def test_the_numpy_path_and_the_torch_path_agree(
    data: st.DataObject, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    before = Layer(*(data.draw(tensors(dtype, shape)) for _ in range(3)))
    before.delta = with_gradient(before.delta, data.draw(tensors(dtype, shape)))
    after = Layer(data.draw(tensors(dtype, shape)), before.input, data.draw(tensors(dtype, shape)))

    def update(layer: Layer) -> None:
        layer.delta, layer.perturbed_input = after.delta, after.perturbed_input

    first, second = (
        observe(
            Layer(before.delta, before.input, before.perturbed_input),
            update,
            bound=0.02,
            use_numpy=use_numpy,
            pictures=frozenset({"histogram", "map"}),
        )
        for use_numpy in (True, False)
    )
    assert reasons(first) == reasons(second)
    assert first.picture == second.picture
    for part in ("gradient", "delta", "effect"):
        one, other = getattr(first, part), getattr(second, part)
        for name in one.__slots__:
            a, b = getattr(one, name), getattr(other, name)
            assert a == (
                pytest.approx(b, rel=1e-9, abs=1e-12, nan_ok=True) if type(b) is float else b
            )


@both_paths
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_tensor_of_many_blocks_has_exact_numbers(dtype: torch.dtype, use_numpy: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    clean, old, new = (torch.randn(5, 401, 100, generator=generator, dtype=dtype) for _ in range(3))
    old, new = old * 0.01, old * 0.01 + new * 1e-4
    gradient = torch.randn(clean.shape, generator=generator, dtype=dtype) * 1e-6
    gradient[0, :3] = 0
    gradient[1, 7, 20:] = 0
    layer = Layer(with_gradient(old, gradient), clean, clean + old)

    def update(layer: Layer) -> None:
        layer.delta, layer.perturbed_input = new, clean + new

    seen = observe(layer, update, bound=0.02, use_numpy=use_numpy)
    wide, move = new.double(), new.double() - old.double()
    change = (clean + new).double() - (clean + old).double()
    assert seen.delta.norm == close(wide.norm().item(), 1e-12)
    assert seen.delta.mean == pytest.approx(wide.mean().item(), rel=1e-9)
    assert seen.delta.std == pytest.approx(wide.std(correction=0).item(), rel=1e-9)
    edge = torch.tensor(0.02, dtype=dtype)
    assert seen.delta.beyond == (new.abs() > edge).sum().item() > 0
    assert seen.delta.moved_max == move.abs().max().item()
    assert seen.delta.moved_fraction == (new != old).double().mean().item()
    assert seen.effect.gap_max == ((clean + new).double() - clean.double()).abs().max().item()
    cosine = (change * move).sum() / (change.norm() * move.norm())
    assert seen.effect.cosine == pytest.approx(cosine.item(), abs=2e-7)
    largest = gradient.abs().amax(-1).double()
    low = ((largest > 0) & (largest < 1e-6)).sum() / (largest > 0).sum()
    assert seen.gradient.guard_fraction == pytest.approx(low.item(), rel=1e-6)
    assert seen.gradient.zero_fraction == pytest.approx((gradient == 0).double().mean().item())


@both_paths
def test_one_nan_in_a_tensor_of_many_blocks_reaches_every_number_that_it_must(
    use_numpy: bool,
) -> None:
    old = torch.zeros(200_000)
    new = torch.ones(200_000)
    new[150_000] = math.nan
    layer = Layer(old, torch.zeros(200_000), old.clone())

    def update(layer: Layer) -> None:
        layer.delta, layer.perturbed_input = new, new.clone()

    seen = observe(layer, update, use_numpy=use_numpy)
    assert seen.delta.nan == 1
    for number in (seen.delta.norm, seen.delta.min, seen.delta.max, seen.delta.max_abs):
        assert math.isnan(number)
    assert math.isnan(seen.delta.moved_max)
    assert math.isnan(seen.effect.gap_max)
    assert seen.effect.visible_fraction == 1.0


@both_paths
@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8, torch.bool], ids=str)
def test_integer_tensors_have_the_numbers_of_their_values(
    dtype: torch.dtype, use_numpy: bool
) -> None:
    delta = torch.tensor([[0, 1, 1], [0, 1, 0]]).to(dtype)
    facts = observe(Layer(delta=delta), bound=0.5, use_numpy=use_numpy).delta
    assert (facts.min, facts.max, facts.max_abs, facts.mean) == (0.0, 1.0, 1.0, 0.5)
    assert (facts.norm, facts.std, facts.beyond) == (math.sqrt(3), 0.5, 3)


@both_paths
def test_complex_tensors_have_every_number_but_those_of_an_order(use_numpy: bool) -> None:
    gradient = torch.tensor([[3 + 4j, 0], [0, 1j]], dtype=torch.complex64)
    delta = with_gradient(gradient * 2, gradient.conj())
    seen = observe(Layer(delta=delta), bound=2.0, use_numpy=use_numpy)
    assert seen.gradient.norm == close(math.sqrt(26))
    assert seen.gradient.max_abs == 5.0
    assert seen.gradient.zero_fraction == 0.5
    assert (seen.delta.beyond, seen.delta.at_bound) == (1, 1)
    unknown = reasons(seen)
    for field in (
        "gradient.min",
        "gradient.max",
        "delta.min",
        "delta.max",
        "delta.mean",
        "delta.std",
    ):
        assert unknown[field] == "complex"
