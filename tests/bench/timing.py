"""Timing in alternation, and one line for each result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Block = Callable[[], float]
"""Does a block of work and gives its seconds."""


def alternate(blocks: dict[str, Block], rounds: int) -> dict[str, list[float]]:
    """Run the blocks in turn, `rounds` times over; gives each block's seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in blocks}
    for _ in range(rounds):
        for name, block in blocks.items():
            seconds[name].append(block())
    return seconds


def timed(work: Callable[[], object], times: int) -> float:
    """Seconds of `times` calls."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - began


def ratio(seconds: dict[str, list[float]], name: str, base: str) -> float:
    """Median over the rounds of one block's time over the baseline's."""
    pairs = zip(seconds[name], seconds[base], strict=True)
    return statistics.median(a / b for a, b in pairs)


def report(what: str, value: float, unit: str, goal: float | None = None) -> None:
    """Print one result, with the goal that it is held against."""
    against = "" if goal is None else f"   goal {goal:g}   {'met' if value <= goal else 'MISSED'}"
    print(f"{what:<58}{value:9.3f} {unit}{against}", flush=True)
