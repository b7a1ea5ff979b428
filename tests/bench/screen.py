"""What a person waits for: the first frame, and a key until the panels are painted."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from bench.timing import Block, alternate, ratio, report

BARE = """
from textual.app import App
from textual.widgets import DataTable, Footer, Header
class Bare(App):
    TITLE = "FIRSTFRAME"
    def compose(self):
        yield Header()
        yield DataTable()
        yield Footer()
    def on_mount(self):
        table = self.query_one(DataTable)
        table.add_columns("a", "b")
        for i in range(10):
            table.add_row(str(i), str(i * i))
Bare().run()
"""

SIZES = ((80, 24), (120, 40), (200, 60))

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "TERM": "xterm-256color",
}
"""As a person has it: modules are compiled once, not at each start."""


def first_frame(command: list[str], mark: bytes) -> Block:
    """Make a block that starts a program on a terminal of 80x24 until `mark` is on its screen."""

    def block() -> float:
        parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
            env=ENVIRONMENT,
        )
        os.close(child)
        seen = b""
        while mark not in seen:
            if not select.select([parent], [], [], 30)[0]:
                raise TimeoutError(f"{command} never showed {mark!r}")
            seen += os.read(parent, 65536)
        seconds = time.perf_counter() - began
        process.terminate()
        process.wait()
        os.close(parent)
        return seconds

    return block


def imported(module: str) -> Block:
    def block() -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        return time.perf_counter() - began

    return block


def make_recording(folder: Path) -> Path:
    path = folder / "sift.pertdbg"
    command = [sys.executable, "-m", "pertdbg", "record", "sift", "-o", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def frames(recording: Path) -> None:
    pertdbg = [sys.executable, "-m", "pertdbg"]
    blocks = {
        "bare": first_frame([sys.executable, "-c", BARE], b"FIRSTFRAME"),
        "app": first_frame([*pertdbg, "sift"], b"gradient"),
        "replay": first_frame([*pertdbg, str(recording)], b"gradient"),
        "torch": imported("torch"),
    }
    seconds = alternate(blocks, rounds=7)
    report("first frame of the app / bare Textual app", ratio(seconds, "app", "bare"), "x", 1.5)
    report("first frame of a recording / bare", ratio(seconds, "replay", "bare"), "x", 1.5)
    report("first frame of the app / import torch", ratio(seconds, "app", "torch"), "x")


def keys(recording: Path) -> None:
    for size in SIZES:
        goal = 40.0 if size == (120, 40) else None
        median = asyncio.run(_key_cost(recording, size))
        report(f"key to painted panels, CPU, {size[0]}x{size[1]}", median, "ms", goal)


async def _key_cost(recording: Path, size: tuple[int, int]) -> float:
    """Median CPU milliseconds of this process from a key to the end of the repaint."""
    from pertdbg.app.app import PertdbgApp
    from pertdbg.session import Session

    app = PertdbgApp(Session.open(recording))
    costs = []
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in ["n"] * 12 + ["p"] * 12:
            began = time.process_time()
            await pilot.press(key)
            await pilot.pause()
            costs.append((time.process_time() - began) * 1e3)
    return statistics.median(costs)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recording = make_recording(Path(folder))
        frames(recording)
        keys(recording)
