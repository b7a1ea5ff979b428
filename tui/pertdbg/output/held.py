"""`pertdbg find`: the calls of a recording at which a condition holds."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pertdbg.conditions import Condition, Search, previous_of
from pertdbg.errors import PertdbgError
from pertdbg.follow import recordings_in
from pertdbg.output.lines import write_lines
from pertdbg.output.safe import printable
from pertdbg.record import CallRecord, plain
from pertdbg.recording.meta import Meta
from pertdbg.recording.reader import Recording

_SAID = ("id", "call", "layer", "rank")

FIELDS = 6
"""Most fields of a condition that are shown of a call."""


def find(path: Path, line: str, *, most: int | None, as_json: bool) -> int:
    """Print the calls at which a condition holds, in order.

    Args:
        path: A recording, or a folder of the ranks of a run.
        line: The condition.
        most: Most calls to print of a recording; None for all.
        as_json: Print an object a line.

    Returns:
        The exit status: 0 if there is such a call, 1 if there is none.

    Raises:
        PertdbgError: It is no condition, or the file can't be read.
    """
    condition = Condition.of(line)
    if condition.hits != 1 or condition.skip:
        raise PertdbgError("after and skip count in a run, from its start; leave them out here")
    found = 0
    for file in _files(path):
        with Recording.open(file) as recording:
            found += _find_in(file, recording, condition, most=most, as_json=as_json)
    return 0 if found else 1


def _find_in(
    file: Path, recording: Recording, condition: Condition, *, most: int | None, as_json: bool
) -> int:
    """Print those of one recording; gives how many were found."""
    _check_layer(recording, condition.layer)
    count = 0
    for count, record in enumerate(_matches(recording, condition), 1):
        if most is not None and count > most:
            _say(f"{file}: there are more; --all prints them")
            break
        write_lines([_line(recording, condition, record, as_json)], sys.stdout)
        if most == 1:
            break
    if not count:
        _say(f"{file}: {_why_none(recording, condition)}")
    return count


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    from pertdbg.ranks import newest_run

    metas: dict[Path, Meta] = {}
    for file in recordings_in(path):
        with contextlib.suppress(PertdbgError), Recording.open(file) as recording:
            metas[file] = recording.meta
    if not metas:
        raise PertdbgError(f"there is no recording in {path}")
    return newest_run(metas)


def _check_layer(recording: Recording, layer: str | None) -> None:
    names = [known.name for known in recording.layers]
    if layer is not None and layer not in names:
        listed = ", ".join(map(printable, names))
        raise PertdbgError(f"no layer is called {printable(layer)}; there are: {listed}")


def _matches(recording: Recording, condition: Condition) -> Iterator[CallRecord]:
    search = Search(recording, condition, 0)
    while True:
        if search.step(1.0):
            if search.found is None:
                return
            yield recording.record(search.found)


def _line(recording: Recording, condition: Condition, record: CallRecord, as_json: bool) -> str:
    expression = condition.expression
    shown = [path for path in expression.fields if path not in _SAID]
    values = {path: _value_of(record, path) for path in shown[:FIELDS]}
    if as_json:
        place = {"id": record.id, "call": record.call, "layer": record.layer, "rank": record.rank}
        return json.dumps({**place, "values": values}, allow_nan=False)
    words = [f"{path} {_words(value)}" for path, value in values.items()]
    before = previous_of(recording, record) if expression.needs_previous else None
    if before is not None:
        words += [f"before {path} {_words(_value_of(before, path))}" for path in values]
    layer = f" of {record.layer}" if len(recording.layers) > 1 else ""
    rank = f", rank {record.rank}" if recording.meta.world_size > 1 else ""
    told = f": {', '.join(words)}" if words else ""
    return printable(f"call {record.call}{layer}{rank} (record {record.id}){told}")


def _why_none(recording: Recording, condition: Condition) -> str:
    why = f"it holds at none of {recording.head} calls"
    if not recording.head:
        return why
    last = recording.record(recording.head)
    unknown = condition.expression.why_unknown(last, previous_of(recording, last))
    return f"{why}; {unknown}" if unknown else why


def _say(text: str) -> None:
    write_lines([f"pertdbg: {printable(text)}"], sys.stderr)


def _value_of(record: CallRecord, path: str) -> Any:
    found: Any = record
    for name in path.split("."):
        found = None if found is None else getattr(found, name)
    return plain(found)


def _words(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, dict):
        return "there"
    if isinstance(value, list):
        value = json.dumps(value)
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
