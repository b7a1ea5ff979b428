"""What a process that runs a variant leaves: its files, its output, and where an error arose."""

from __future__ import annotations

import os
import types
from pathlib import Path

import torch

RECORDING = "run.pertdbg"
FACTS = "facts.json"
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_TORCH = str(Path(torch.__file__).parent) + os.sep


def place_of(trace: types.TracebackType | None) -> tuple[str | None, int | None]:
    """Give the innermost line that is neither torch's nor ours, but for layers of ours."""
    place: tuple[str | None, int | None] = (None, None)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        ours = file.startswith((_PACKAGE + "agent", _PACKAGE + "ablation"))
        if not ours and not file.startswith(_TORCH):
            place = file, trace.tb_lineno
        trace = trace.tb_next
    return place


def redirect(folder: Path) -> None:
    """Send what the run prints to files."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
