"""pertdbg: a time-travel debugger for adversarial perturbations in PyTorch.

The public names are looked up when first used, so that ``import pertdbg`` brings neither torch
nor the screen.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pertdbg.agent.api import record, stop, watch
    from pertdbg.findings.model import Finding
    from pertdbg.layer import PerturbationLayer
    from pertdbg.learner import AdversarialLearner
    from pertdbg.recording.reader import Recording

__all__ = [
    "AdversarialLearner",
    "PerturbationLayer",
    "check",
    "open",
    "record",
    "stop",
    "watch",
]

_HOMES = {
    "AdversarialLearner": "pertdbg.learner",
    "PerturbationLayer": "pertdbg.layer",
    "stop": "pertdbg.agent.api",
    "watch": "pertdbg.agent.api",
}


def open(path: str | Path) -> Recording:  # noqa: A001 - the name that a person expects
    """Open a recording as a sequence of records; torch is not needed.

    Args:
        path: A `.pertdbg` file.

    Raises:
        PertdbgError: The file can't be read, or is no recording.
    """
    from pathlib import Path

    from pertdbg.recording.reader import Recording

    return Recording.open(Path(path))


def check(path: str | Path) -> list[Finding]:
    """Name what is wrong in a recording, or in the recordings of a folder of ranks.

    Args:
        path: A `.pertdbg` file, or a folder of them.

    Raises:
        PertdbgError: There is no recording that can be read.
    """
    from pertdbg.findings.engine import check as check_recording

    return check_recording(path)


def __getattr__(name: str) -> Any:
    if name == "record":  # the module of that name, which can be called
        return importlib.import_module("pertdbg.record")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pertdbg' has no attribute {name!r}")
