"""A stored tensor of 1 GiB in the app: how long keys wait while its values and maps are read."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from bench.timing import report

SIZES = ((80, 24), (120, 40), (200, 60))
SHAPE = (16384, 16384)
KEYS = ("down", "pagedown", "right", "end", "home")
SLICES = ("", ":, 7", "::97, ::501", "5", "..., 3:9")


def make_recording(folder: Path) -> Path:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from _records import healthy
    from pertdbg.recording.writer import Recorder

    path = folder / "large.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(healthy(1))
    recorder.tensor(1, "delta", "float32", SHAPE, bytes(4 * SHAPE[0] * SHAPE[1]))
    recorder.close()
    return path


async def _longest_wait(recording: Path, size: tuple[int, int]) -> float:
    """Longest milliseconds of this process between two moments at which a key would be heard."""
    from pertdbg.app.app import PertdbgApp
    from pertdbg.recording.window import Window
    from pertdbg.session import Session

    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.process_time()
            await asyncio.sleep(0)
            longest = max(longest, time.process_time() - began)
            await asyncio.sleep(0.001)

    app = PertdbgApp(Session.open(recording))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        watching = asyncio.create_task(watch())
        for key in ("t", "5"):
            app.simulate_key(key)
            await asyncio.sleep(0.3)
        app.simulate_key("v")
        await asyncio.sleep(0.3)
        table = app.screen.table  # type: ignore[attr-defined]
        for index in SLICES:
            table.show(Window(table.window.tensor, index))
            for key in (*KEYS, "m"):
                app.simulate_key(key)
                await asyncio.sleep(0.15)
            app.simulate_key("m")
        watching.cancel()
    return longest * 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recording = make_recording(Path(folder))
        for size in SIZES:
            longest = asyncio.run(_longest_wait(recording, size))
            report(
                f"tensor of 1 GiB, longest wait of a key, {size[0]}x{size[1]}", longest, "ms", 200
            )
