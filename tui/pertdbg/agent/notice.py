"""The one line on standard error with which the agent tells a person what happened to it."""

from __future__ import annotations

import contextlib
import os

NOTHING = "nothing is recorded"
"""How the explanation begins that a script gets where no update was seen."""


def say(text: str) -> None:
    """Write ``pertdbg: text`` to file descriptor 2, whatever the target did to `sys.stderr`."""
    with contextlib.suppress(OSError):
        os.write(2, f"pertdbg: {text}\n".encode())
