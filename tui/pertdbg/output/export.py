"""All records of a recording: CSV with a row for each call, JSON with a line, or a report."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pertdbg.errors import PertdbgError
from pertdbg.output.files import write_file
from pertdbg.output.html import page
from pertdbg.output.lines import write_lines
from pertdbg.output.safe import printable
from pertdbg.record import CallRecord, to_json
from pertdbg.recording.reader import DamagedRecord, Recording

Form = Literal["csv", "jsonl", "html"]

_FORMULA = ("=", "+", "-", "@")


def export(file: Path, form: Form, output: Path | None) -> None:
    """Write the records of a recording.

    Args:
        file: The recording.
        form: `csv` or `jsonl`, or `html` for a page that people read.
        output: The file to make or replace; standard output if None.

    Raises:
        PertdbgError: The recording cannot be read, the output cannot be written, or some records
            are damaged: then all others were written.
    """
    damaged: list[int] = []
    with Recording.open(file) as recording:
        lines = _lines(recording, form, damaged)
        if output is None:
            write_lines(lines, sys.stdout)
        else:
            write_file(
                output,
                (f"{line}\n".encode("utf-8", "backslashreplace") for line in lines),
                recording=file,
            )
    if damaged:
        some = ", ".join(map(str, damaged[:5])) + (", ..." if len(damaged) > 5 else "")
        raise PertdbgError(f"{file}: {len(damaged)} damaged records were left out: {some}")


def _lines(recording: Recording, form: Form, damaged: list[int]) -> Iterator[str]:
    if form == "html":
        return page(recording)
    return (csv_lines if form == "csv" else json_lines)(recording, damaged)


def json_lines(recording: Recording, damaged: list[int]) -> Iterator[str]:
    """Give each record as a line of JSON, in the form of `show --json`; note the damaged ones."""
    for record in _sound(recording, damaged):
        yield json.dumps(to_json(record), allow_nan=False)


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
