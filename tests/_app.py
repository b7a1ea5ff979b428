"""Runs the app without a terminal, on recordings made by the real recorder."""

from __future__ import annotations

import asyncio
import os
import re
from array import array
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest import mock

from textual.pilot import Pilot

from _records import healthy
from pertdbg.app import PertdbgApp
from pertdbg.app.lines import Line, length
from pertdbg.record import HISTOGRAM_BINS, CallRecord
from pertdbg.recording.parts import HeatMap, LayerSource
from pertdbg.recording.writer import Recorder
from pertdbg.session import Session

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (200, 60)
SIZES = (SMALL, MIDDLE, LARGE)

SOURCE = '''\
    def update_delta(self, requires_grad=False):
        """Move delta along its gradient."""
        grad = self.delta.grad
        self.delta = self.delta + 1e-4 * grad  # no clamp
        return True
'''
LAYER = LayerSource("encoder.pert", "Layer", "/home/me/layer.py", 31, SOURCE)

HOSTILE = "[red]x[/red]\x1b[2J\x1b]0;owned\x07\x9b31m\u202e[/]\r\n"
"""Markup, escape codes, a title, eight-bit codes, a reversal, and a line break."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202e]")

Act = Callable[[PertdbgApp, Pilot[int]], Awaitable[None]]


def pictured(record: CallRecord) -> CallRecord:
    """The record with a histogram whose counts rise from one end to the other."""
    counts = tuple(range(HISTOGRAM_BINS))
    delta = replace(record.delta, histogram=counts, histogram_range=(-0.04, 0.04))
    return replace(record, delta=delta)


def heat_map(rows: int = 8, cols: int = 16, seed: int = 0) -> HeatMap:
    random = Random(seed)
    values = array("f", [random.random() for _ in range(rows * cols)])
    return HeatMap(rows, cols, values.tobytes(), rows, cols)


def calls(n: int) -> list[CallRecord]:
    """Healthy calls with histograms; the first creates delta."""
    return [pictured(healthy(ident)) for ident in range(1, n + 1)]


def record_to(
    path: Path,
    records: Iterable[CallRecord],
    *,
    layers: Iterable[LayerSource] = (LAYER,),
    printed: Mapping[int, bytes] = {},
    errors: Mapping[int, bytes] = {},
    stops: Iterable[int] = (),
    **meta: str | int | None,
) -> Path:
    """Write a finished recording; what is printed is given by the call it comes before."""
    recorder = Recorder(path, {"title": "a title", "about": "what to look for", **meta})
    for layer in layers:
        recorder.add_layer(layer)
    for record in records:
        if record.id in printed:
            recorder.output("stdout", record.id, printed[record.id])
        if record.id in errors:
            recorder.output("stderr", record.id, errors[record.id])
        recorder.write(record, heat_map(seed=record.id))
    for ident in stops:
        recorder.mark(ident, "stopped", "stopped")
    recorder.close()
    return path


def play(
    path: Path,
    act: Act,
    size: tuple[int, int] = SMALL,
    env: Mapping[str, str] = {},
) -> PertdbgApp:
    """Open a recording in the app, act on it, and quit."""
    home = {"XDG_CONFIG_HOME": str(path.parent / "config"), "TEXTUAL_ANIMATIONS": "none"}

    async def run() -> PertdbgApp:
        app = PertdbgApp(Session.open(path))
        async with app.run_test(size=size, notifications=True) as pilot:
            await pilot.pause()
            await act(app, pilot)
        return app

    with mock.patch.dict(os.environ, {**home, **env}):
        return asyncio.run(run())


def shown(app: PertdbgApp) -> str:
    """What is on the screen, as text."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def after(
    path: Path, *keys: str, size: tuple[int, int] = SMALL, env: Mapping[str, str] = {}
) -> str:
    """What is on the screen after some keys."""
    texts: list[str] = []

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press(*keys)
        await pilot.pause()
        texts.append(shown(app))

    play(path, act, size, env)
    return texts[0]


def check_lines(lines: list[Line], width: int) -> None:
    """Assert that lines fit a width and hold nothing that a terminal would obey."""
    for line in lines:
        assert length(line) <= width, line
        assert not any(_CONTROL.search(text) for text, _ in line), line
