"""What the target printed, as rows: cut into chunks, the newest kept."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pertdbg.recording import schema
from pertdbg.recording.statements import Pending, meta, sealed

ROWS_LIMIT = 20_000
"""Most rows that are kept of a stream, for a target that prints very little very often."""


@dataclass(slots=True)
class _Stream:
    kept: int = 0
    cut: int = 0
    chunks: deque[tuple[int, int]] = field(default_factory=deque)
    """Row and size of each chunk, oldest first."""


class OutputRows:
    """Turns output into rows, and says which old ones must go."""

    def __init__(self) -> None:
        self._last = 0
        self._streams = {"stdout": _Stream(), "stderr": _Stream()}

    def add(self, name: str, call_id: int, data: bytes) -> Pending:
        """Give the statements that keep some output of a stream."""
        stream = self._streams[name]
        pending: Pending = []
        for at in range(0, len(data), schema.CHUNK_LIMIT):
            chunk = data[at : at + schema.CHUNK_LIMIT]
            self._last += 1
            stream.chunks.append((self._last, len(chunk)))
            stream.kept += len(chunk)
            pending.append(sealed(schema.OUTPUT, (self._last, call_id, name, chunk)))
        return pending + self._drop(name, stream)

    def _drop(self, name: str, stream: _Stream) -> Pending:
        pending: Pending = []
        while stream.kept > schema.OUTPUT_LIMIT or len(stream.chunks) > ROWS_LIMIT:
            row, size = stream.chunks.popleft()
            stream.kept -= size
            stream.cut += size
            pending.append(("DELETE FROM output WHERE id = ?", (row,)))
        if pending:
            pending.append(meta(f"{name}_cut", stream.cut))
        return pending
