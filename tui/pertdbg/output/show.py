"""`pertdbg show`: one call of a recording."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from pertdbg.findings.engine import kinds_by_call
from pertdbg.output.ended import ended
from pertdbg.output.events import inside_json, inside_text
from pertdbg.output.find import chosen
from pertdbg.output.lines import write_lines
from pertdbg.output.ofrank import recording_of
from pertdbg.output.text import describe
from pertdbg.record import CallRecord, to_json
from pertdbg.recording.events import Inside
from pertdbg.recording.reader import DamagedRecord, Recording

_LOOKED_AT = 20_000
"""Most records of a recording that is checked as a whole to show one of them."""


def show(
    file: Path,
    *,
    call: int | None = None,
    layer: str | None = None,
    rank: int | None = None,
    as_json: bool = False,
    lines: bool = False,
) -> None:
    """Print a call on standard output, as text or as JSON.

    Args:
        file: The recording, or a folder of those of all ranks.
        call: Number of the call; if None the last one, and how the target ended.
        layer: Name of the layer, needed where several have a call of that number.
        rank: Rank of the recording, needed where several ranks have the call.
        as_json: Print JSON, with what the lines of the call did where that was recorded.
        lines: Print what the lines of the call did as well.

    Raises:
        PertdbgError: There is no such call, or more than one.
    """
    file = recording_of(file, rank, call=call, layer=layer)
    with Recording.open(file) as recording:
        write_lines((f"pertdbg: {file}: {text}" for text in recording.notices()), sys.stderr)
        record = recording.record(chosen(recording, call, layer))
        found = kinds_by_call(recording, _LOOKED_AT).get(record.id, record.findings)
        record = replace(record, findings=found)
        end = ended(recording) if call is None else []
        inside = _inside(recording, record) if lines or as_json else Inside()
    if lines:
        end = [*inside_text(inside), *end]
    text = _json(record, inside) if as_json else [*describe(record), *end]
    write_lines(text, sys.stdout)


def _inside(recording: Recording, record: CallRecord) -> Inside:
    """Give what was recorded of the inside of a call; where that is damaged, say so."""
    try:
        return recording.inside(record.id)
    except DamagedRecord as error:
        write_lines([f"pertdbg: {error}"], sys.stderr)
        return Inside()


def _json(record: CallRecord, inside: Inside) -> list[str]:
    return [json.dumps({**to_json(record), **inside_json(inside)}, indent=2, allow_nan=False)]
