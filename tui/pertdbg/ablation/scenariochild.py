"""One run of a variant of a scenario, in a process that is there for it alone."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from pertdbg.ablation.results import FACTS, RECORDING, place_of, redirect
from pertdbg.ablation.seen import Seen
from pertdbg.ablation.variant import Request
from pertdbg.agent.config import Config
from pertdbg.agent.run import Run
from pertdbg.errors import PertdbgError
from pertdbg.guards.find import find_guards
from pertdbg.guards.install import take_out
from pertdbg.guards.source import FunctionSource, sources_of_method
from pertdbg.record import CallRecord
from pertdbg.recording.parts import HeatMap
from pertdbg.scenario.build import layer_class
from pertdbg.scenario.change import changed
from pertdbg.scenario.edits import lines, removed
from pertdbg.scenario.load import load
from pertdbg.scenario.model import Scenario
from pertdbg.scenario.run import Prepared, prepare


def sources(scenario: Scenario) -> list[FunctionSource]:
    """Find the update method of a scenario's layer, and what it calls; imports the layer."""
    return sources_of_method(layer_class(scenario), scenario.layer.observed.method)


class _ObservedRun(Run):
    """The ordinary run of the agent; after each record, what a record lacks is noted."""

    seen: Seen | None = None

    def record(self, record: CallRecord, picture: HeatMap | None, *tensors: Any) -> None:
        super().record(record, picture, *tensors)
        if self.seen is not None:
            self.seen.after_call()


def perform(request: Request) -> None:
    """Run a variant and leave a recording and a file of facts in the request's folder."""
    folder = Path(request.folder)
    redirect(folder)
    started, known = time.monotonic(), set(sys.modules)
    facts: dict[str, Any] = {"error": None, "raised": None, "backwards": [], "calls": []}
    try:
        facts.update(_perform(request, folder))
    except PertdbgError as error:
        facts["error"] = str(error)
    facts["seconds"] = time.monotonic() - started
    facts["modules"] = [name for name in sys.modules if name not in known]
    (folder / FACTS).write_text(json.dumps(facts))


def _perform(request: Request, folder: Path) -> dict[str, Any]:
    scenario = changed(load(Path(request.target.scenario)), request.variant.scenario)
    found = sources(scenario)
    guards = find_guards(found)
    out = [guard for guard in guards if guard.id in request.variant.without]
    out += [guard for guard in removed(scenario, guards) if guard not in out]
    changes = {**lines(scenario, found), **request.variant.lines}
    take_out(found, out, layer_class(scenario), changes)
    scenario = scenario.model_copy(update={"guards_removed": (), "lines": ()})
    run = _ObservedRun(_config(request, folder))
    run.ready(torch.__version__)
    prepared = prepare(scenario, request.variant.steps)
    run.watch(prepared.layer_class, prepared.adapter)
    seen = run.seen = Seen(lambda: run.calls, prepared.built.layer, prepared.adapter)
    seen.install()
    raised = _run(prepared, run, seen)
    run.end(0 if raised is None else 1, "" if raised is None else raised["message"])
    return {"raised": raised, "backwards": seen.backwards, "calls": seen.calls}


def _run(prepared: Prepared, run: Run, seen: Seen) -> dict[str, Any] | None:
    try:
        prepared.run()
    except Exception as error:  # noqa: BLE001 - what the variant raises is a result
        file, line = place_of(error.__traceback__)
        during = "backward" if seen.in_backward else "forward"
        return {
            "type": type(error).__name__,
            "message": str(error),
            "call": run.calls + 1,
            "line": line,
            "file": file,
            "during": during,
        }
    return None


def _config(request: Request, folder: Path) -> Config:
    return Config(
        recording=str(folder / RECORDING),
        scenario=request.target.scenario,
        stdout=str(folder / "stdout"),
        stderr=str(folder / "stderr"),
    )
