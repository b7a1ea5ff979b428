"""Following what the target prints, so that the recording can show it beside the calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

Stream = Literal["stdout", "stderr"]

_CHUNK = 1 << 18
"""Most bytes taken at one call; of a larger burst the newest are kept."""


class OutputFile:
    """A file on which one of the target's streams was opened."""

    def __init__(self, stream: Stream, path: Path) -> None:
        self.stream = stream
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._read = 0

    def new(self) -> bytes:
        """Give what was printed since the last look; costs one `fstat` where nothing was."""
        try:
            size = os.fstat(self._file).st_size
            if size == self._read:
                return b""
            begin = max(self._read if size > self._read else 0, size - _CHUNK)
            self._read = size
            return os.pread(self._file, size - begin, begin)
        except OSError:  # the target has closed what it did not know
            return b""


def outputs(*, stdout: str | None, stderr: str | None) -> list[OutputFile]:
    """Follow the files on which the streams were opened, where they were."""
    found = [] if stdout is None else [OutputFile("stdout", Path(stdout))]
    return found if stderr is None else [*found, OutputFile("stderr", Path(stderr))]
