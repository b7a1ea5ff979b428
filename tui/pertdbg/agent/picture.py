"""Pictures of delta: its histogram, and the map of |delta|."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from pertdbg.agent.quiet import Notes, NotKnown
from pertdbg.agent.values import Values
from pertdbg.record import HISTOGRAM_BINS
from pertdbg.recording.parts import HeatMap

Pictures = Callable[[int], frozenset[str]]
"""Says which pictures to make of a delta of so many elements: `histogram`, `map`."""

_BLOCK = 65536
"""Elements that are counted at once on the CPU, so that they stay in its cache."""

SIDE = 64
"""Largest number of rows and columns of a map."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of the finite values in equal bins over a span."""

    counts: tuple[int, ...]
    span: tuple[float, float]


def pictures_of(
    values: Values | None, pictures: Pictures | None, notes: Notes
) -> tuple[Histogram | None, HeatMap | None]:
    """Make the pictures that are wanted of delta's values."""
    if values is None or pictures is None:
        return None, None
    count = values.count
    wanted = notes.attempt("delta.histogram", lambda: pictures(count)) or frozenset()
    counts = shrunk = None
    if "histogram" in wanted:
        counts = notes.attempt("delta.histogram", lambda: histogram(values))
    if "map" in wanted:
        shrunk = notes.attempt("map", lambda: heat_map(values))
    return counts, shrunk


def histogram(values: Values) -> Histogram:
    """Count values as `numpy.histogram` counts them in float64, between their extremes.

    Raises:
        NotKnown: There is no finite value, or they lie too near to one another for that many bins.
    """
    if values.is_complex():
        raise NotKnown("complex")
    if not values.count:
        raise NotKnown("empty")
    numbers = values.tensor.reshape(-1)
    low, high = _extremes(numbers)
    if not (math.isfinite(low) and math.isfinite(high)):
        numbers = numbers[torch.isfinite(numbers)]
        if not numbers.numel():
            raise NotKnown("no-finite-values")
        low, high = _extremes(numbers)
    if low == high:
        low, high = low - 0.5, high + 0.5
    if math.isinf(high - low):  # a quarter of all is an exact copy of the picture
        return Histogram(_counts(numbers.double() / 4, low / 4, high / 4), (low, high))
    return Histogram(_counts(numbers, low, high), (low, high))


def _extremes(numbers: torch.Tensor) -> tuple[float, float]:
    low, high = torch.stack([numbers.amin(), numbers.amax()]).tolist()
    return low, high


def _counts(numbers: torch.Tensor, low: float, high: float) -> tuple[int, ...]:
    """Put each number in its bin, and set right those that rounding put in a neighbour."""
    step = (high - low) / HISTOGRAM_BINS
    edges = [low + i * step for i in range(HISTOGRAM_BINS)] + [high]
    if any(a >= b for a, b in itertools.pairwise(edges)):
        raise NotKnown("range-too-narrow")
    at = torch.tensor(edges, dtype=torch.float64, device=numbers.device)
    size = _BLOCK if numbers.device.type == "cpu" else numbers.numel()
    counts = torch.zeros_like(at[1:], dtype=torch.int64)
    for part in torch.split(numbers, size):
        counts += _counts_of(part.to(torch.float64), low, high, at)
    return tuple(counts.tolist())


def _counts_of(part: torch.Tensor, low: float, high: float, edges: torch.Tensor) -> torch.Tensor:
    last = HISTOGRAM_BINS - 1
    places = ((part - low) / (high - low) * HISTOGRAM_BINS).to(torch.int64).clamp_(0, last)
    places -= (part < edges[places]).to(torch.int64)
    places += ((part >= edges[places + 1]) & (places != last)).to(torch.int64)
    return torch.bincount(places, minlength=HISTOGRAM_BINS)


def heat_map(values: Values) -> HeatMap:
    """Shrink |delta| to at most `SIDE` x `SIDE` cells, each the maximum of its elements.

    Raises:
        NotKnown: There is nothing to show.
    """
    if not values.count:
        raise NotKnown("empty")
    whole = values.tensor.reshape(-1, values.row).abs().to(torch.float32)
    high, wide = math.ceil(whole.shape[0] / SIDE), math.ceil(whole.shape[1] / SIDE)
    rows, cols = math.ceil(whole.shape[0] / high), math.ceil(whole.shape[1] / wide)
    # Nothing is below 0, so that zeros fill the last cells without being seen.
    margin = (0, cols * wide - whole.shape[1], 0, rows * high - whole.shape[0])
    cells = functional.pad(whole, margin).reshape(rows, high, cols, wide).amax(dim=(1, 3))
    data = struct.pack(f"<{rows * cols}f", *cells.reshape(-1).tolist())
    return HeatMap(rows, cols, data, whole.shape[0], whole.shape[1])
