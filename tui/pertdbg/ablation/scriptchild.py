"""One run of a script, whole or changed, in a process that is there for it alone.

The script is run by an `exec` of ours, so that its text can be another one than that of its file.
"""

from __future__ import annotations

import builtins
import json
import os
import runpy
import sys
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pertdbg.ablation.edited import Trees, install, tree_of
from pertdbg.ablation.results import FACTS, RECORDING, place_of, redirect
from pertdbg.ablation.seen import Seen, digest_of
from pertdbg.ablation.variant import Request
from pertdbg.agent.config import Config
from pertdbg.agent.finder import watch_everything
from pertdbg.agent.mainmodule import status_of
from pertdbg.agent.script import ScriptRun
from pertdbg.errors import PertdbgError
from pertdbg.guards.model import Guard
from pertdbg.guards.written import without
from pertdbg.record import CallRecord
from pertdbg.recording.parts import HeatMap, LayerSource


def perform(request: Request) -> None:
    """Run a script and leave a recording and a file of facts in the request's folder."""
    folder = Path(request.folder)
    redirect(folder)
    facts: dict[str, Any] = {"error": None, "raised": None, "backwards": [], "calls": []}
    try:
        trees = _trees(request)
    except PertdbgError as error:
        (folder / FACTS).write_text(json.dumps({**facts, "error": str(error), "seconds": 0.0}))
        return
    install(trees)
    run = _ObservedScript(request, folder)
    finder = watch_everything(run, request.target.adapters)
    status, raised = _run(list(request.target.given), trees, run)
    finder.remove()
    run.end(status, "" if raised is None else raised["message"])
    run.leave(raised)


class _ObservedScript(ScriptRun):
    """The run of a script; after each record, what a record lacks is noted."""

    def __init__(self, request: Request, folder: Path) -> None:
        super().__init__(
            Config(
                recording=str(folder / RECORDING),
                stdout=str(folder / "stdout"),
                stderr=str(folder / "stderr"),
            )
        )
        self.seen = Seen(lambda: self.calls)
        self._folder, self._steps = folder, request.variant.steps
        self._sources: list[LayerSource] = []
        self._started, self._known = time.monotonic(), set(sys.modules)

    def ready(self, torch_version: str) -> None:
        super().ready(torch_version)
        self.seen.install()

    def add_layer(self, layer: LayerSource) -> None:
        super().add_layer(layer)
        if layer not in self._sources:
            self._sources.append(layer)

    def wants_tensors(self, layer: str, call: int, *, fault: bool = False) -> bool:  # noqa: ARG002
        """Have the tensors of each call: every bit of them is compared."""
        return True

    def record(self, record: CallRecord, picture: HeatMap | None, *tensors: Any) -> None:
        """Note what a record lacks, and end the process when the calls asked for are made."""
        super().record(record, picture)
        copies: Mapping[str, Any] = tensors[0] if tensors else {}
        self.seen.after_call({role: digest_of(copy.data) for role, copy in copies.items()})
        if self.calls == self._steps:
            sys.stdout.flush()
            sys.stderr.flush()
            self.end(0, "")
            self.leave(None)
            os._exit(0)

    def leave(self, raised: dict[str, Any] | None) -> None:
        """Write the facts."""
        facts = {
            "error": None,
            "raised": raised,
            "backwards": self.seen.backwards,
            "calls": self.seen.calls,
            "seconds": time.monotonic() - self._started,
            "modules": [name for name in sys.modules if name not in self._known],
            "functions": [[source.file, source.first_line] for source in self._sources],
        }
        (self._folder / FACTS).write_text(json.dumps(facts))


def _trees(request: Request) -> Trees:
    """Make what stands in the place of the files that the variant changes."""
    guards: dict[str, list[Guard]] = {}
    for guard in request.guards:
        guards.setdefault(guard.file, []).append(guard)
    lines = {request.file: request.variant.lines} if request.file and request.variant.lines else {}
    return {
        str(Path(file).resolve()): without(
            Path(file).read_text(encoding="utf-8"), file, guards.get(file, ()), lines.get(file)
        )
        for file in {*guards, *lines}
    }


def _run(given: list[str], trees: Trees, run: _ObservedScript) -> tuple[int, dict[str, Any] | None]:
    try:
        _main(given, trees)
    except SystemExit as stop:
        return status_of(stop)[0], None
    except BaseException as error:  # noqa: BLE001 - what the variant raises is a result
        file, line = place_of(error.__traceback__)
        during = "backward" if run.seen.in_backward else "forward"
        raised = {"type": type(error).__name__, "message": str(error), "call": run.calls + 1}
        return 1, {**raised, "line": line, "file": file, "during": during}
    return 0, None


def _main(given: list[str], trees: Trees) -> None:
    """Run what stands behind ``python`` on a command line, as far as it can be told from Python."""
    module = types.ModuleType("__main__")
    vars(module)["__builtins__"] = builtins
    sys.modules["__main__"] = module
    if given[0] == "-m":
        sys.argv[:] = ["-m", *given[2:]]
        sys.path[0] = str(Path.cwd())
        run_as_main: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
        run_as_main(given[1], True)
        return
    path = str(Path(given[0]).absolute())
    sys.argv[:] = given
    sys.path[0] = str(Path(path).resolve().parent)
    vars(module)["__file__"] = path
    tree = tree_of(trees, path)
    text: Any = Path(path).read_bytes() if tree is None else tree
    exec(compile(text, path, "exec", dont_inherit=True), vars(module))  # noqa: S102 - as asked
