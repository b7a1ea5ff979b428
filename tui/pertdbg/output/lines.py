"""Writes lines to a stream that may be a terminal, a file, or a pipe that somebody closed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TextIO


def write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Write lines; what the encoding lacks is escaped, and a closed pipe ends it quietly."""
    encoding = stream.encoding or "utf-8"
    try:
        for line in lines:
            stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        # The interpreter flushes the stream once more when it ends, and would complain then.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
