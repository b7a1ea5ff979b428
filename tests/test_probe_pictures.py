from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from _probe import FLOATS, PICTURES, Layer, both_paths, observe, reasons


@both_paths
@settings(max_examples=80, deadline=None)
@given(
    values=st.lists(
        st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=1, max_size=300
    ),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_histogram_is_numpys(values: list[float], dtype: torch.dtype, use_numpy: bool) -> None:
    delta = torch.tensor(values, dtype=dtype)
    seen = observe(Layer(delta=delta), use_numpy=use_numpy, pictures=PICTURES)
    finite = delta.double().numpy()
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        assert reasons(seen)["delta.histogram"] == "no-finite-values"
        return
    try:
        counts, edges = np.histogram(finite, 64)
    except ValueError:
        assert reasons(seen)["delta.histogram"] == "range-too-narrow"
        return
    if "delta.histogram" in reasons(seen):
        assert len(set(edges.tolist())) < 65
        return
    assert seen.delta.histogram == tuple(counts.tolist())
    assert seen.delta.histogram_range == (edges[0], edges[-1])
    assert sum(seen.delta.histogram) == finite.size


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_histogram_can_be_had_in_every_float_dtype(dtype: torch.dtype) -> None:
    delta = (torch.arange(64.0) / 8).to(dtype)
    seen = observe(Layer(delta=delta), pictures=PICTURES)
    counts, _ = np.histogram(delta.double().numpy(), 64)
    assert seen.delta.histogram == tuple(counts.tolist())


def test_a_range_that_overflows_float64_has_a_histogram() -> None:
    delta = torch.tensor([-1.7e308, 0.1, 1.7e308], dtype=torch.float64)
    histogram = observe(Layer(delta=delta), pictures=PICTURES).delta.histogram
    assert (histogram[0], histogram[32], histogram[63]) == (1, 1, 1)


def test_pictures_are_made_only_when_asked_for_and_the_asker_is_told_the_size() -> None:
    asked = []
    from pertdbg.agent.probe import Probe

    def pictures(count: int) -> frozenset[str]:
        asked.append(count)
        return frozenset({"map"})

    probe, layer = Probe(), Layer(delta=torch.ones(3, 4))
    seen = probe.leave(probe.enter(layer.roles()), layer.roles(), pictures=pictures)
    assert asked == [12]
    assert seen.delta.histogram is None
    assert seen.picture is not None
    seen = probe.leave(probe.enter(layer.roles()), layer.roles())
    assert (seen.delta.histogram, seen.picture, seen.unknown) == (None, None, ())


@both_paths
@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (3, 4), (64, 64), (65, 3), (2, 100, 7), (130, 200), (1, 1000)]
)
def test_a_map_holds_the_maximum_of_each_block_of_delta(
    shape: tuple[int, ...], use_numpy: bool
) -> None:
    delta = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    picture = observe(Layer(delta=delta), use_numpy=use_numpy, pictures=PICTURES).picture
    width = shape[-1] if shape else 1
    whole = delta.abs().reshape(-1, width).tolist()
    assert (picture.whole_rows, picture.whole_cols) == (len(whole), width)
    assert 1 <= picture.rows <= 64
    assert 1 <= picture.cols <= 64
    high, wide = math.ceil(len(whole) / 64), math.ceil(width / 64)
    expected = [
        max(value for row in whole[r : r + high] for value in row[c : c + wide])
        for r in range(0, len(whole), high)
        for c in range(0, width, wide)
    ]
    assert list(picture.values()) == expected
    assert len(expected) == picture.rows * picture.cols


def test_a_nan_wins_in_its_block_of_the_map() -> None:
    delta = torch.ones(128, 128)
    delta[3, 5] = math.nan
    cells = list(observe(Layer(delta=delta), pictures=PICTURES).picture.values())
    assert math.isnan(cells[64 + 2])
    assert sum(map(math.isnan, cells)) == 1


def test_a_histogram_of_many_blocks_is_numpys() -> None:
    delta = torch.randn(400, 500, generator=torch.Generator().manual_seed(4))
    histogram = observe(Layer(delta=delta), pictures=PICTURES).delta.histogram
    assert histogram == tuple(np.histogram(delta.double().numpy(), 64)[0].tolist())
