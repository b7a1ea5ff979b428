"""The side that asks for runs; imports no torch."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pertdbg.ablation.observed import Observed, observe
from pertdbg.ablation.variant import Request, Target, Variant, guard_from_json
from pertdbg.agent.seams.spec import Spec
from pertdbg.errors import PertdbgError
from pertdbg.guards.find import find_guards
from pertdbg.guards.source import NoSource
from pertdbg.guards.written import Written, written_at

_AHEAD = 4
"""Requests that wait in the nursery, for each job."""


class Runs:
    """A nursery and the folder of its results; both are gone when the context ends."""

    def __init__(self, target: Target, jobs: int) -> None:
        """Start the nursery, which finds the guards of a scenario.

        Raises:
            PertdbgError: The scenario or its layer can't be had, or the layer has no source.
        """
        self._target, self._jobs = target, jobs
        self._file = ""
        self._number = 0
        self._known: dict[str, Observed] = {}
        self._folders: dict[str, Path] = {}
        self._temporary = tempfile.TemporaryDirectory(prefix="pertdbg-ablate-")
        self._folder = Path(self._temporary.name)
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "pertdbg.ablation.nursery"]
        with (self._folder / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, json.dumps(dataclasses.asdict(target)), str(writing), str(jobs)],
                stdin=subprocess.PIPE,
                stderr=errors,
                pass_fds=[writing],
                env=_environment(),
            )
        os.close(writing)
        self._replies = os.fdopen(reading, "rb")
        try:
            first = self._reply()
            if "error" in first:
                raise PertdbgError(first["error"])
        except BaseException:
            self.close()
            raise
        self.guards = [guard_from_json(values) for values in first["guards"]]

    def run(
        self, variants: Sequence[Variant], ended: Callable[[], None] = lambda: None
    ) -> list[Observed]:
        """Run variants, as many at once as there are jobs; give what each showed.

        A variant that was run before is not run again.

        Args:
            variants: What to run.
            ended: Called when one has ended.
        """
        keys = [json.dumps(variant.as_json(), sort_keys=True) for variant in variants]
        todo = {k: v for k, v in zip(keys, variants, strict=True) if k not in self._known}
        self._perform(todo, ended)
        for _ in range(len(variants) - len(todo)):
            ended()
        return [self._known[key] for key in keys]

    def discover(self, whole: Observed) -> None:
        """Find the guards of a script in the functions that its whole run has shown to be updates.

        Raises:
            PertdbgError: No update was seen, or there is no source for any.
        """
        siblings = {
            name
            for spec in map(Spec.of, self._target.adapters)
            if spec.seam == "weights"
            for name in spec.methods
        }
        found: list[Written] = []
        problem = "no update of a perturbation was seen"
        for file, line in whole.functions:
            try:
                new = written_at(file, line, siblings)
            except NoSource as error:
                problem = str(error)
                continue
            found += [one for one in new if one.key not in {other.key for other in found}]
        if not found:
            raise PertdbgError(f"{self._target.name}: {problem}")
        self._file = found[0].file
        self.guards = find_guards(found)

    def again(self, variant: Variant) -> Observed:
        """Run a variant once more, to see whether it does the same again."""
        key = json.dumps(variant.as_json(), sort_keys=True)
        before = self._known.pop(key)
        (after,) = self.run([variant])
        self._known[key] = before
        return after

    def recording(self, variant: Variant) -> Path:
        """Say where the recording of a run is, until `close`."""
        return self._folders[json.dumps(variant.as_json(), sort_keys=True)] / "run.pertdbg"

    def close(self) -> None:
        """End the nursery with its children and remove the results."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)  # it ends its children when its input ends
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._replies.close()
        self._temporary.cleanup()

    def __enter__(self) -> Runs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _perform(self, todo: Mapping[str, Variant], ended: Callable[[], None]) -> None:
        waiting = list(todo.items())
        running: dict[int, str] = {}
        while waiting or running:
            while waiting and len(running) < _AHEAD * self._jobs:
                key, variant = waiting.pop(0)
                running[self._ask(variant)] = key
            reply = self._reply()
            key = running.pop(reply["number"])
            folder = self._folder / str(reply["number"])
            self._folders[key] = folder
            self._known[key] = observe(folder, reply["status"], late=reply["late"])
            ended()

    def _ask(self, variant: Variant) -> int:
        number, self._number = self._number, self._number + 1
        folder = self._folder / str(number)
        folder.mkdir()
        without = tuple(guard for guard in self.guards if guard.id in variant.without)
        request = Request(self._target, str(folder), variant, without, self._file)
        line = json.dumps({"number": number, **dataclasses.asdict(request)})
        if self._process.stdin is not None:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        return number

    def _reply(self) -> dict[str, Any]:
        line = self._replies.readline()
        if not line:
            self._process.wait()
            said = (self._folder / "stderr").read_text(errors="replace").strip().splitlines()
            why = said[-1] if said else f"exit status {self._process.returncode}"
            raise PertdbgError(f"the process that runs the variants has ended: {why}")
        values: dict[str, Any] = json.loads(line)
        return values


def _environment() -> dict[str, str]:
    """One thread a run, and nothing is written beside the sources."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **threads, "PYTHONDONTWRITEBYTECODE": "1"}
