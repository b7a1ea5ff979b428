"""The run that is under way in this process, for code of the target's own that asks for it."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pertdbg.agent.finder import Finder
    from pertdbg.agent.run import Run


@dataclass(frozen=True)
class Active:
    """A run and what looks for it."""

    run: Run
    finder: Finder | None
    path: str
    """Its recording."""
    whole: bool
    """It is of the whole process, begun from outside, and not of a block of its code."""


lock = threading.Lock()
"""Held while a run takes the place, or leaves it."""

_now: list[Active] = []


def current() -> Active | None:
    """Give the run that is under way."""
    return _now[-1] if _now else None


def begin(run: Run, finder: Finder | None, path: str, *, whole: bool) -> Active:
    """Take the place; the caller holds the lock, where others could be about to."""
    active = Active(run, finder, path, whole)
    _now[:] = [active]
    return active


def end() -> None:
    """Leave the place."""
    _now.clear()


def _in_child() -> None:
    """In a forked child nothing is recorded: let go of what the parent observes with."""
    global lock  # another thread may have held it at the fork
    lock = threading.Lock()
    active = current()
    end()
    if active is not None and active.finder is not None:
        active.finder.remove()


os.register_at_fork(after_in_child=_in_child)
