"""Records what is to be checked: a script in a process of its own, a scenario in this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pertdbg.agent.config import Config
from pertdbg.errors import PertdbgError

if TYPE_CHECKING:
    from pertdbg.target import Script

FAULTS = "faults"
"""Whose tensors are stored: those of calls with a fault, of which the rules look at the values."""


@dataclass(frozen=True)
class Ran:
    """A target that has run and been recorded."""

    recording: Path
    exit_status: int
    """As a shell gives it: 128 and the number of the signal, where one ended it."""


def run_script(
    script: Script, recording: Path, *, adapters: Sequence[Path], command: str, aside: bool
) -> Ran:
    """Run a script as Python runs it, and record it.

    Args:
        script: What to run.
        recording: Where to record.
        adapters: Files that describe perturbations of a person's own.
        command: The command line, for the recording.
        aside: The script's standard output goes to standard error.

    Raises:
        PertdbgError: An adapter has errors, or the interpreter cannot be started.
    """
    from pertdbg.adapters import adapters as read_adapters

    config = Config(
        recording=str(recording),
        # Whom it is for: so the agent leaves it to us to say where the recording is.
        parent=os.getpid(),
        tensors=FAULTS,
        meta={"command": command, "target": script.name, "title": script.name},
        adapters=read_adapters(adapters),
    )
    status = _run(script.command(), script.environment(config), aside=aside)
    return Ran(recording, status)


def run_scenario(path: Path, recording: Path, *, steps: int | None, command: str) -> Ran:
    """Run a scenario in this process and record it; what it prints goes to standard error.

    Raises:
        PertdbgError: The scenario's file has errors.
    """
    from pertdbg.agent.start import run
    from pertdbg.launch import scenario_config

    config = scenario_config(path, recording, steps=steps, command=command)
    with _output_aside():
        return Ran(recording, run(replace(config, tensors=FAULTS)))


@contextlib.contextmanager
def _output_aside() -> Iterator[None]:
    """Lead what is written to file descriptor 1 to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
        sys.stdout.flush()
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _run(words: Sequence[str], environment: dict[str, str], *, aside: bool) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        process = subprocess.Popen(words, env=environment, stdout=2 if aside else None)
    except OSError as error:
        raise PertdbgError(f"{words[0]}: can't be run: {error.strerror}") from error
    before = signal.getsignal(signal.SIGINT)
    # Ctrl-C goes to the target too, which ends in its own way; what it made is checked then.
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return status if status >= 0 else 128 - status
