"""What is wrong in the recording that the app looks at, found out a little at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from pertdbg.errors import PertdbgError

if TYPE_CHECKING:
    from pertdbg.findings.engine import Following
    from pertdbg.findings.model import Finding
    from pertdbg.recording.reader import Recording


class Faults:
    """The findings of a recording, as far as it has been looked at."""

    def __init__(self) -> None:
        self._following: Following | None = None
        self.all: list[Finding] = []
        """By first call, causes before their consequences."""
        self.marked: list[int] = []
        """Calls at which something is first seen, in order."""
        self.looking = True
        """Whether some of the recording has not been looked at yet."""
        self.problem = ""
        """Why the rest can't be looked at."""

    def go_on(self, recording: Recording | None, seconds: float) -> bool:
        """Look on for about so long; say whether there is more to look at."""
        if recording is None:
            return False
        if self._following is None or self._following.recording is not recording:
            from pertdbg.findings.engine import Following  # much that a first frame can do without

            self._following, self.all, self.marked = Following(recording), [], []
            self.problem = ""
        if self.problem:
            return False
        try:
            self.looking = self._following.go_on(seconds)
        except PertdbgError as error:
            self.problem, self.looking = str(error), False
            return False
        self.all = self._following.findings
        self.marked = sorted({finding.id for finding in self.all})
        return self.looking

    def at(self, id_: int) -> list[Finding]:
        """Give those that are first seen at a call."""
        return [finding for finding in self.all if finding.id == id_]

    def next(self, id_: int, *, forward: bool) -> int | None:
        """Give the nearest call after (or before) one at which something is first seen."""
        if forward:
            place = bisect_right(self.marked, id_)
            return self.marked[place] if place < len(self.marked) else None
        place = bisect_left(self.marked, id_)
        return self.marked[place - 1] if place else None

    def ids(self, lo: int, hi: int) -> list[int]:
        """Give the calls from lo to hi at which something is first seen."""
        return self.marked[bisect_left(self.marked, lo) : bisect_right(self.marked, hi)]
