"""What recording costs the target: a step with and without the agent, on two rigs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from bench.timing import Block, alternate, ratio, report, timed
from pertdbg import PerturbationLayer
from pertdbg.agent.adapter import SIFT
from pertdbg.agent.config import Config, Facts
from pertdbg.agent.run import Run


class Head(torch.nn.Module):
    """The reference layer and a linear head: the least that has a gradient, so the hardest case."""

    def __init__(self) -> None:
        super().__init__()
        self.pert = PerturbationLayer(768)
        self.head = torch.nn.Linear(768, 2)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(self.pert(hidden))  # type: ignore[no-any-return]


class Encoder(torch.nn.Module):
    """Embedding, reference layer, two transformer layers of hidden size 128."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 128)
        self.pert = PerturbationLayer(128)
        layer = torch.nn.TransformerEncoderLayer(128, 2, 512, 0.0, "gelu", batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(128, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(self.pert(self.embedding(tokens)))
        return self.head(hidden.mean(1))  # type: ignore[no-any-return]


def step_of(model: Head | Encoder, batch: torch.Tensor) -> Callable[[], object]:
    """Prepare a model and give its step: forward, backward, update."""
    model(batch)
    model.pert.adversarial_(True)

    def step() -> object:
        model(batch).square().mean().backward()
        return model.pert.update_delta(requires_grad=True)

    for _ in range(5):
        step()
    return step


def observed(step: Callable[[], object], times: int, folder: Path, facts: Facts) -> Block:
    """Make a block in which the class is watched and its calls are recorded."""
    run = Run(Config(recording=str(folder / f"{facts}.pertdbg"), scenario="", facts=facts))
    run.ready(torch.__version__)
    run.remove()

    def block() -> float:
        run.backwards.install()
        run.watch(PerturbationLayer, SIFT)
        run.flow.install()
        step()
        seconds = timed(step, times)
        run.remove()
        return seconds

    return block


def compare(name: str, step: Callable[[], object], times: int, goals: dict[Facts, float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        blocks: dict[str, Block] = {"bare": lambda: timed(step, times)}
        for facts in goals:
            blocks[facts] = observed(step, times, Path(folder), facts)
        seconds = alternate(blocks, rounds=15)
    for facts, goal in goals.items():
        report(
            f"recorded step / bare step, {name}, {facts}", ratio(seconds, facts, "bare"), "x", goal
        )


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    compare(
        "8x128x768 + head", step_of(Head(), torch.randn(8, 128, 768)), 20, {"core": 1.2, "all": 2.0}
    )
    compare("small encoder", step_of(Encoder(), torch.randint(0, 1000, (8, 128))), 5, {"all": 1.03})
