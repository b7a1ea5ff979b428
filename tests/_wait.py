"""Waiting for what the app or another process comes to.

Nothing is measured by it: the limit only ends a test that hangs. Pauses grow, because what is
waited for needs the same few cores.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from textual.pilot import Pilot

SECONDS = 120
"""Hard limit of every wait."""

Said = Callable[[], object]


def until(holds: Callable[[], object], what: str = "") -> None:
    """Wait until something holds."""
    for pause in _pauses(holds, lambda: what or holds):
        time.sleep(pause)


async def soon(holds: Callable[[], object], said: str | Said = "") -> None:
    """Wait until something holds, while sessions go on; `said` tells what there was instead."""
    for pause in _pauses(holds, said if callable(said) else lambda: said):
        await asyncio.sleep(pause)


async def seen(pilot: Pilot[int], holds: Callable[[], object], said: Said) -> None:
    """Wait until something holds in an app, and the app has drawn what came of it."""
    for pause in _pauses(holds, said):
        await pilot.pause(pause)
    await pilot.pause()


def _pauses(holds: Callable[[], object], said: Said) -> Iterator[float]:
    deadline, pause = time.monotonic() + SECONDS, 0.01
    while not holds():
        assert time.monotonic() < deadline, f"never: {said()}"
        yield pause
        pause = min(1.3 * pause, 0.15)
