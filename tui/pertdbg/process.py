"""Which process a number means: a number alone is given again after a process has ended.

Nothing but the standard library: the agent asks here too.
"""

from __future__ import annotations

import os
from pathlib import Path


def began(pid: int) -> str:
    """Give what tells a process from a later one of the same number; empty where nothing does.

    It is the same before and after an `exec`.
    """
    values = _stat(pid)
    # The boot's name too: after the next one, the same number may begin at the same tick.
    return f"{values[19]} {_boot()}" if values else ""


def lives(pid: int, mark: str) -> bool:
    """Say whether the process that had a number, and began as `mark` says, still runs.

    Args:
        pid: Its number.
        mark: What `began` gave for it; where it is empty the number alone decides.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    values = _stat(pid)
    if not values:
        return not mark
    return values[0] not in "ZX" and mark in ("", f"{values[19]} {_boot()}")


def _stat(pid: int) -> list[str]:
    """Give what Linux says behind the name, which may hold blanks: state, and so on."""
    try:
        values = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # gone, or no Linux
        return []
    return values if len(values) > 19 else []


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
