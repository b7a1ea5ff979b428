"""All records of a recording: CSV with a row for each call, JSON with a line, or a report."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pertdbg.errors import PertdbgError
from pertdbg.findings.engine import kinds_by_call
from pertdbg.output.events import inside_json
from pertdbg.output.files import write_file
from pertdbg.output.html import page
from pertdbg.output.lines import write_lines
from pertdbg.output.ofrank import recording_of, recordings_by_rank
from pertdbg.output.safe import printable
from pertdbg.record import CallRecord, to_json
from pertdbg.recording.reader import DamagedRecord, Recording

Form = Literal["csv", "jsonl", "html"]

_FORMULA = ("=", "+", "-", "@")


def export(file: Path, form: Form, output: Path | None, *, rank: int | None = None) -> None:
    """Write the records of a recording.

    Args:
        file: The recording, or a folder of those of all ranks, which come one after the other.
        form: `csv` or `jsonl`, or `html` for a page that people read, of one rank.
        output: The file to make or replace; standard output if None.
        rank: Only this rank.

    Raises:
        PertdbgError: The recording cannot be read, the output cannot be written, or some records
            are damaged: then all others were written.
    """
    if file.is_dir() and rank is None and form != "html":
        files = list(recordings_by_rank(file).values())
    else:
        files = [recording_of(file, rank)]
    damaged: dict[Path, list[int]] = {path: [] for path in files}
    lines = _lines(damaged, form)
    if output is None:
        write_lines(lines, sys.stdout)
    else:
        encoded = (f"{line}\n".encode("utf-8", "backslashreplace") for line in lines)
        write_file(output, encoded, recordings=files)
    lost = [_lost(path, ids) for path, ids in damaged.items() if ids]
    if lost:
        raise PertdbgError("; ".join(lost))


def _lost(path: Path, damaged: list[int]) -> str:
    some = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
    return f"{path}: {len(damaged)} damaged records were left out: {some}"


def _lines(files: Mapping[Path, list[int]], form: Form) -> Iterator[str]:
    """Give the lines of all recordings, a header only once; note which records are damaged."""
    for place, (path, damaged) in enumerate(files.items()):
        with Recording.open(path) as recording:
            if form == "html":
                yield from page(recording)
            elif form == "jsonl":
                yield from json_lines(recording, damaged)
            else:
                yield from islice(csv_lines(recording, damaged), min(place, 1), None)


def json_lines(recording: Recording, damaged: list[int]) -> Iterator[str]:
    """Give each record as a line of JSON, in the form of `show --json`; note the damaged ones."""
    found = kinds_by_call(recording)
    inside = set(recording.calls_with_events())
    for record in _sound(recording, damaged):
        named = dataclasses.replace(record, findings=found.get(record.id, record.findings))
        more: dict[str, Any] = {}
        if record.id in inside:
            with contextlib.suppress(DamagedRecord):  # `verify` names it; the record is sound
                more = inside_json(recording.inside(record.id))
        yield json.dumps({**to_json(named), **more}, allow_nan=False)


def csv_lines(recording: Recording, damaged: list[int]) -> Iterator[str]:
    """Give a header and a row for each record; note the damaged ones.

    Columns are the dotted names of a record's fields, values those of its JSON form. What is
    missing is empty; what is not a single value is JSON. Texts are made safe: control characters
    are escaped, and a quote stands before what a spreadsheet would take for a formula.
    """
    columns = _columns(CallRecord)
    yield _csv_line(columns)
    for record in _sound(recording, damaged):
        values = to_json(record)
        yield _csv_line([_cell(_at(values, column)) for column in columns])


def _sound(recording: Recording, damaged: list[int]) -> Iterator[CallRecord]:
    for record in recording.scan():
        if isinstance(record, DamagedRecord):
            damaged.append(record.id)
        else:
            yield record


def _columns(cls: type, prefix: str = "") -> list[str]:
    """Give the dotted names of all fields, going into the parts."""
    names: list[str] = []
    for name, hint in typing.get_type_hints(cls).items():
        part = _part(hint)
        names += [prefix + name] if part is None else _columns(part, f"{prefix}{name}.")
    return names


def _part(hint: Any) -> Any:
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    options = typing.get_args(hint) if union else (hint,)
    return next((option for option in options if dataclasses.is_dataclass(option)), None)


def _at(record: dict[str, Any], column: str) -> Any:
    value: Any = record
    for name in column.split("."):
        if value is None:
            return None
        value = value[name]
    return value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) and text != "-inf" else text
    return json.dumps(value) if isinstance(value, (list, dict)) else repr(value)


def _csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()
