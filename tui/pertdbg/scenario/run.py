"""Performing a scenario in this process, as the ordinary program that it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from pertdbg.agent.adapter import Adapter
from pertdbg.scenario.build import Built, Progress, build, layer_class, silent
from pertdbg.scenario.edits import edit
from pertdbg.scenario.load import load
from pertdbg.scenario.loop import Learning, Steps
from pertdbg.scenario.model import Scenario
from pertdbg.scenario.seeds import stream


@dataclass(frozen=True)
class Prepared:
    """A scenario that is built and waits to be run."""

    scenario: Scenario
    built: Built
    loop: Steps | Learning
    calls: int

    @property
    def layer_class(self) -> type[nn.Module]:
        """Class of the perturbation layer."""
        return type(self.built.layer)

    @property
    def adapter(self) -> Adapter:
        """How to observe the layer."""
        return self.scenario.layer.observed

    def run(self) -> None:
        """Make the update calls. What the layer or the model raises goes through."""
        torch.manual_seed(stream("loop", self.scenario.seed))
        self.loop.run(self.calls)


def prepare(
    scenario: Scenario | Path, steps: int | None = None, progress: Progress = silent
) -> Prepared:
    """Load a scenario, if need be, and build it.

    Args:
        scenario: A scenario, or its file.
        steps: Number of update calls, creations included; by default what the scenario says.
        progress: Called with a few words before what takes time.

    Raises:
        PertdbgError: The file has errors, or something that it names is not there or fails.
    """
    if isinstance(scenario, Path):
        scenario = load(scenario)
    calls = scenario.loop.calls if steps is None else steps
    edit(scenario, layer_class(scenario))
    built = build(scenario, progress)
    kind = Learning if scenario.loop.rhythm == "learner" else Steps
    return Prepared(scenario, built, kind(scenario, built), calls)


def run(scenario: Scenario | Path, steps: int | None = None, progress: Progress = silent) -> Built:
    """Build a scenario, run it, and give its live parts as they are at the end.

    Raises:
        PertdbgError: As `prepare`.
    """
    prepared = prepare(scenario, steps, progress)
    progress("running")
    prepared.run()
    return prepared.built


def main(path: Path, steps: int | None = None) -> None:
    """Run a scenario file, as a script would."""
    run(path, steps)
