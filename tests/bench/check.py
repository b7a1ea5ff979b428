"""What naming faults costs: `check` of a target against `record` of it, in seconds of the CPU."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.loops import FREELB, PGD
from bench.timing import Block, alternate, ratio, report

SHORT = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(6, 3)
x, y = torch.randn(4, 6), torch.randint(0, 3, (4,))

def attack(x, y, steps=3):
    delta = torch.empty_like(x).uniform_(-0.1, 0.1)
    for _ in range(steps):
        delta.requires_grad_()
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(model(x + delta), y), delta)
        delta = (delta + 0.05 * gradient.sign()).clamp(-0.1, 0.1).detach()
    return delta

attack(x, y)
"""
SCRIPTS = {"FreeLB, small encoder": FREELB, "PGD, two convolutions": PGD, "three steps": SHORT}
ROUNDS = 7


def spent(words: Sequence[object], folder: Path) -> float:
    """Run a command; gives the seconds that it and its children took of the CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pertdbg", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def recorded(target: Sequence[object], folder: Path) -> Block:
    """Make a block that records a target."""

    def block() -> float:
        path = folder / "recorded.pertdbg"
        path.unlink(missing_ok=True)
        return spent(("record", "-o", path, *target), folder)

    return block


def compare(name: str, target: Sequence[object], folder: Path) -> None:
    blocks: dict[str, Block] = {
        "record": recorded(target, folder),
        "check": lambda: spent(("check", "--fail-on", "never", *target), folder),
    }
    seconds = alternate(blocks, ROUNDS)
    report(f"check / record, {name}", ratio(seconds, "check", "record"), "x", 1.1)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        compare("sift, 400 calls", ("sift", "--steps", 400), folder)
        for name, text in SCRIPTS.items():
            path = folder / f"{name.partition(',')[0].replace(' ', '_').lower()}.py"
            path.write_text(text)
            compare(name, (path,), folder)
