"""What going through calls line by line costs the target: events alone, and with their facts."""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.steps import Encoder, Head, step_of
from bench.timing import Block, alternate, ratio, report, timed
from pertdbg import PerturbationLayer
from pertdbg.agent.adapter import SIFT
from pertdbg.agent.config import Config
from pertdbg.agent.lines.tracer import tracer
from pertdbg.agent.run import Run


class Told:
    """Takes the lines of a call and looks at nothing: what the tracing itself costs."""

    def __init__(self) -> None:
        self.frame: types.FrameType | None = None
        self.depth, self.into, self.untraced = 0, False, False
        self.mode = types.SimpleNamespace(extra=set())
        self.lines = 0

    @property
    def watching(self) -> bool:
        return self.frame is not None

    def enter(self, frame: types.FrameType) -> None:
        self.frame = frame

    def leave(self, _: str | None = None) -> None:
        self.frame = None

    def line(self, _: types.FrameType) -> None:
        self.lines += 1

    def raising(self, _: str) -> None:
        """Nothing is kept."""

    def called(self, *_: Any) -> None:
        """Nothing is kept."""

    def returned(self, _: types.FrameType) -> None:
        """Nothing is kept."""


def traced(step: Callable[[], object], times: int) -> Block:
    """Make a block in which the lines of the update are told of."""
    original = PerturbationLayer.update_delta
    told: Any = Told()

    def update(self: Any, requires_grad: bool = False) -> bool:
        way = tracer(told, original.__code__)
        way.start()
        try:
            return original(self, requires_grad)
        finally:
            way.stop()

    def block() -> float:
        PerturbationLayer.update_delta = update  # type: ignore[method-assign]
        try:
            return timed(step, times)
        finally:
            PerturbationLayer.update_delta = original  # type: ignore[method-assign]

    return block


def recorded(step: Callable[[], object], times: int, folder: Path, name: str, **how: Any) -> Block:
    """Make a block in which the calls are recorded."""
    run = Run(Config(recording=str(folder / f"{name}.pertdbg"), scenario="", **how))
    run.ready(torch.__version__)

    def block() -> float:
        run.watch(PerturbationLayer, SIFT)
        run.backwards.install()
        step()
        seconds = timed(step, times)
        run.remove()
        return seconds

    run.backwards.remove()
    return block


def compare(name: str, step: Callable[[], object], times: int, goal: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        blocks: dict[str, Block] = {
            "bare": lambda: timed(step, times),
            "traced": traced(step, times),
            "plain": recorded(step, times, Path(folder), "plain"),
            "flags": recorded(step, times, Path(folder), "flags", lines=True, facts="core"),
            "lines": recorded(step, times, Path(folder), "lines", lines=True),
        }
        seconds = alternate(blocks, rounds=9)
    way = "monitored" if sys.version_info >= (3, 12) else "traced"
    report(
        f"step with its lines {way} / bare step, {name}",
        ratio(seconds, "traced", "bare"),
        "x",
        goal,
    )
    for kind, what in (
        ("plain", "recorded step"),
        ("flags", "recorded step with --lines --facts core"),
        ("lines", "recorded step with --lines"),
    ):
        report(f"{what} / bare step, {name}", ratio(seconds, kind, "bare"), "x")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compare("8x128x768 + head", step_of(Head(), torch.randn(8, 128, 768)), 20, 1.1)
    compare("small encoder", step_of(Encoder(), torch.randint(0, 1000, (8, 128))), 5, 1.02)
