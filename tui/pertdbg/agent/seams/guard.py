"""Keeps failures of ours away from the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pertdbg.agent.quiet import leave_all

if TYPE_CHECKING:
    from pertdbg.agent.run import Run


class Guard:
    """Turns an exception in its block into the end of the recording: the target goes on."""

    __slots__ = ("_doing", "_run")

    def __init__(self, run: Run, doing: str) -> None:
        self._run, self._doing = run, doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is not None:
            leave_all(error)
        if not isinstance(error, Exception):
            return False
        self._run.failed(self._doing, error)
        return True
