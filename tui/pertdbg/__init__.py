"""pertdbg: a time-travel debugger for adversarial perturbations in PyTorch.

The public names are looked up when first used, so that ``import pertdbg`` brings neither torch
nor the screen.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from pertdbg.layer import PerturbationLayer
    from pertdbg.learner import AdversarialLearner
    from pertdbg.recording.reader import Recording

__all__ = ["AdversarialLearner", "PerturbationLayer", "open"]

_HOMES = {
    "AdversarialLearner": "pertdbg.learner",
    "PerturbationLayer": "pertdbg.layer",
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pertdbg' has no attribute {name!r}")
