"""The process that has imported torch and forks a child for each run of a variant.

``python -m pertdbg.ablation.nursery TARGET REPLIES JOBS``: TARGET is JSON, requests come on
standard input, one JSON object a line, and replies go to the file descriptor REPLIES. With
``--one FOLDER`` in the place of these it performs a single request, for programs whose state can't
be forked.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pertdbg.ablation import scenariochild, scriptchild
from pertdbg.ablation.results import FACTS
from pertdbg.ablation.variant import Request, Target
from pertdbg.errors import PertdbgError
from pertdbg.guards.find import find_guards
from pertdbg.guards.source import FunctionSource
from pertdbg.scenario.load import load

_LIMIT = 60.0
"""Seconds that a run may take, or twenty times as long as the first if that is more."""


@dataclass
class _Child:
    pid: int
    number: int
    folder: Path
    started: float


class Nursery:
    """Forks children while there is work, and says when each has ended."""

    def __init__(self, target: Target, replies: int, jobs: int) -> None:
        self._target, self._replies, self._jobs = target, replies, jobs
        self._children: dict[int, _Child] = {}
        self._waiting: list[dict[str, Any]] = []
        self._buffer = b""
        self._limit = _LIMIT
        self._open = True
        self._forks = False

    def serve(self) -> None:
        """Say which guards there are, then perform requests until standard input ends.

        Those of a script are not known before it has run.
        """
        try:
            guards = find_guards(_sources(self._target))
        except PertdbgError as error:
            self._reply({"error": str(error)})
            return
        self._forks = may_fork()
        gc.collect()
        gc.freeze()
        plain = [dataclasses.asdict(guard) for guard in guards]
        self._reply({"guards": plain, "torch": torch.__version__})
        try:
            while self._open or self._waiting or self._children:
                self._start()
                self._wait()
        finally:
            for child in self._children.values():
                os.kill(child.pid, signal.SIGKILL)

    def _start(self) -> None:
        while self._waiting and len(self._children) < self._jobs:
            request = self._waiting.pop(0)
            folder = Path(request["folder"])
            made = Request.from_json(request)
            reading, writing = os.pipe()
            pid = self._fork(made) if self._forks else _spawn(made, writing)
            os.close(writing)
            self._children[reading] = _Child(pid, request["number"], folder, time.monotonic())

    def _fork(self, request: Request) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:  # the child: nothing of the nursery's may run in it
            for reading in self._children:
                os.close(reading)
            os.close(self._replies)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _perform(request)
            sys.stdout.flush()
            os._exit(0)
        finally:
            os._exit(1)

    def _wait(self) -> None:
        """Wait for a request, the end of a child or the end of its time."""
        inputs = [*self._children, *([0] if self._open else [])]
        ready, _, _ = select.select(inputs, [], [], 1.0)
        for descriptor in ready:
            if descriptor == 0:
                self._read()
            else:
                self._ended(descriptor)
        for child in self._children.values():
            if time.monotonic() - child.started > self._limit:
                os.kill(child.pid, signal.SIGKILL)

    def _read(self) -> None:
        data = os.read(0, 1 << 16)
        if not data:
            self._open = False
            self._waiting.clear()
            for child in self._children.values():
                os.kill(child.pid, signal.SIGKILL)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._waiting += [json.loads(line) for line in lines]

    def _ended(self, reading: int) -> None:
        child = self._children.pop(reading)
        os.close(reading)
        _, status = os.waitpid(child.pid, 0)
        seconds = time.monotonic() - child.started
        if child.number == 0:
            self._limit = max(_LIMIT, 20 * seconds)
            _import_what_it_did(child.folder, self._target.folder)
            self._forks = self._forks and may_fork()
        status = os.waitstatus_to_exitcode(status)
        self._reply({"number": child.number, "status": status, "late": seconds > self._limit})

    def _reply(self, values: dict[str, Any]) -> None:
        os.write(self._replies, json.dumps(values).encode() + b"\n")


def may_fork() -> bool:
    """Whether a fork of this process is a sound one: no device and no thread to be lost."""
    device = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return sys.platform == "linux" and not device and threading.active_count() == 1


def _spawn(request: Request, writing: int) -> int:
    """Start a child with an interpreter of its own."""
    file = Path(request.folder) / "request.json"
    file.write_text(json.dumps(dataclasses.asdict(request)))
    command = [sys.executable, "-m", "pertdbg.ablation.nursery", "--one", str(file)]
    done = subprocess.Popen(command, pass_fds=[writing], stdin=subprocess.DEVNULL)
    done.returncode = 0  # `_ended` waits for it
    return done.pid


def _one(file: Path) -> None:
    request = Request.from_json(json.loads(file.read_text()))
    gc.collect()
    gc.freeze()
    _perform(request)


def _perform(request: Request) -> None:
    (scenariochild if request.target.scenario else scriptchild).perform(request)


def _sources(target: Target) -> list[FunctionSource]:
    return scenariochild.sources(load(Path(target.scenario))) if target.scenario else []


def _import_what_it_did(folder: Path, own: Path) -> None:
    """Import what a run has imported, so that the next ones need not; the person's files apart."""
    try:
        names = json.loads((folder / FACTS).read_text())["modules"]
    except (OSError, ValueError):
        return
    for name in names:
        with contextlib.suppress(Exception):  # what can't be imported here can be in the run
            spec = importlib.util.find_spec(name)
            place = spec.origin if spec is not None else None
            if place is not None and own not in Path(place).resolve().parents:
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Serve, or perform the one request."""
    torch.set_num_threads(1)
    if sys.argv[1] == "--one":
        _one(Path(sys.argv[2]))
    else:
        os.dup2(2, 1)  # what a module prints while it is imported is no reply
        target = Target.from_json(json.loads(sys.argv[1]))
        Nursery(target, int(sys.argv[2]), int(sys.argv[3])).serve()
    sys.stdout.flush()
    os._exit(0)  # to take all of torch down takes nearly as long as its import


if __name__ == "__main__":
    main()
