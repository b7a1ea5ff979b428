"""`pertdbg show`: one call of a recording."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.output.find import chosen
from pertdbg.output.lines import write_lines
from pertdbg.output.text import describe
from pertdbg.record import CallRecord, to_json
from pertdbg.recording.reader import Recording


def show(
    file: Path,
    *,
    call: int | None = None,
    layer: str | None = None,
    rank: int | None = None,
    as_json: bool = False,
) -> None:
    """Print a call on standard output, as text or as JSON.

    Args:
        file: The recording.
        call: Number of the call; the last one if None.
        layer: Name of the layer, needed where several have a call of that number.
        rank: Must be the recording's own, if given.
        as_json: Print JSON.

    Raises:
        PertdbgError: There is no such call, or more than one.
    """
    with Recording.open(file) as recording:
        if rank is not None and rank != recording.meta.rank:
            raise PertdbgError(f"{file} is of rank {recording.meta.rank}, not of rank {rank}")
        write_lines((f"pertdbg: {file}: {text}" for text in recording.notices()), sys.stderr)
        record = recording.record(chosen(recording, call, layer))
    write_lines(_json(record) if as_json else describe(record), sys.stdout)


def _json(record: CallRecord) -> list[str]:
    return [json.dumps(to_json(record), indent=2, allow_nan=False)]
