"""One run of a variant, in a process that is there for it alone."""

from __future__ import annotations

import json
import os
import sys
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pertdbg.ablation.seen import Seen
from pertdbg.ablation.variant import Variant
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
from pertdbg.scenario.load import load
from pertdbg.scenario.model import Scenario
from pertdbg.scenario.run import Prepared, prepare

RECORDING = "run.pertdbg"
FACTS = "facts.json"
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_TORCH = str(Path(torch.__file__).parent) + os.sep


@dataclass(frozen=True)
class Request:
    """What to run and where to leave the results."""

    scenario: str
    folder: str
    variant: Variant


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
    _redirect(folder)
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
    scenario = changed(load(Path(request.scenario)), request.variant.scenario)
    found = sources(scenario)
    guards = [g for g in find_guards(found) if g.id in request.variant.without]
    take_out(found, guards, layer_class(scenario), request.variant.lines)
    run = _ObservedRun(_config(request, folder))
    run.ready(torch.__version__)
    prepared = prepare(scenario, request.variant.steps)
    run.watch(prepared.layer_class, prepared.adapter)
    seen = run.seen = Seen(prepared.built.layer, prepared.adapter, lambda: run.calls)
    seen.install()
    raised = _run(prepared, run, seen)
    run.end(0 if raised is None else 1, "" if raised is None else raised["message"])
    return {"raised": raised, "backwards": seen.backwards, "calls": seen.calls}


def _run(prepared: Prepared, run: Run, seen: Seen) -> dict[str, Any] | None:
    try:
        prepared.run()
    except Exception as error:  # noqa: BLE001 - what the variant raises is a result
        file, line = _place(error.__traceback__)
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


def _place(trace: types.TracebackType | None) -> tuple[str | None, int | None]:
    """Give the innermost line that is neither torch's nor ours, but for layers of ours."""
    place: tuple[str | None, int | None] = (None, None)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        ours = file.startswith((_PACKAGE + "agent", _PACKAGE + "ablation"))
        if not ours and not file.startswith(_TORCH):
            place = file, trace.tb_lineno
        trace = trace.tb_next
    return place


def _config(request: Request, folder: Path) -> Config:
    return Config(
        recording=str(folder / RECORDING),
        scenario=request.scenario,
        stdout=str(folder / "stdout"),
        stderr=str(folder / "stderr"),
    )


def _redirect(folder: Path) -> None:
    """Send what the run prints to files."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
