"""Records an update of a test's own from inside, in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pertdbg.agent.adapter import Adapter
from pertdbg.agent.config import Config
from pertdbg.agent.run import Run
from pertdbg.event import LineEvent
from pertdbg.recording.events import Inside
from pertdbg.recording.reader import Recording

ADAPTER = Adapter("update", perturbed_input="perturbed")
"""Where the layers of these tests have what they have."""


class Layer:
    """What a layer of these tests begins with; each has an `update` of its own."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        generator = torch.Generator().manual_seed(5)
        self.input = torch.randn(2, 3, 4, generator=generator).to(dtype)
        self.delta: Any = torch.full((2, 3, 4), 0.25, requires_grad=True)
        self.perturbed: Tensor | None = None


def recorded(
    cls: type, drive: Callable[[], object], adapter: Adapter = ADAPTER, **config: Any
) -> list[Inside]:
    """Watch a class while something drives it, and give the inside of each call."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pertdbg"
        run = Run(Config(recording=str(path), scenario="", **{"lines": True, **config}))
        run.ready(torch.__version__)
        run.watch(cls, adapter)
        try:
            drive()
        finally:
            run.end(0, "")
            run.remove()
        with Recording.open(path) as recording:
            return [recording.inside(record.id) for record in recording]


def lines_of(inside: Inside) -> dict[str, LineEvent]:
    """Give the events by the beginning of their source."""
    return {event.source.split(" #")[0]: event for event in inside.events}
