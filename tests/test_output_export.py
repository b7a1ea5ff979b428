"""A recording as CSV and as JSON lines says what the records say."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import _records
from pertdbg.errors import PertdbgError
from pertdbg.output.export import Form, export
from pertdbg.record import CallRecord, Raised, from_json
from pertdbg.recording.writer import Recorder

N = 400


@pytest.fixture(scope="module")
def records() -> list[CallRecord]:
    return _records.records(seed=8, n=N)


@pytest.fixture(scope="module")
def path(records: list[CallRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "a.pertdbg"
    recorder = Recorder(path, {})
    for record in records:
        recorder.write(record)
    recorder.close()
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def text_of(record: CallRecord, column: str) -> str:
    """The cell that a value of a record belongs into; lists and the like apart."""
    value: Any = record
    for name in column.split("."):
        value = None if value is None else getattr(value, name)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value + 0.0)  # -0.0 is kept as 0.0
    return hex(value) if column.endswith("data_ptr") else str(value)


SEVERAL = (
    *("storages", "shared", "backward_reaches.perturbed_input", "unknown", "findings"),
    *("histogram", "histogram_range", ".shape", ".stride", ".message"),
)
"""Ends of the names of columns whose values are lists, or texts with escapes."""


def test_json_lines_hold_each_record_in_the_form_of_show(
    path: Path, records: list[CallRecord], tmp_path: Path
) -> None:
    export(path, "jsonl", tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == N
    for line, record in zip(lines, records, strict=True):
        assert line.isascii()
        read = from_json(json.loads(line))
        # What is found is said of the recording as it is read, beside what was stored.
        assert _records.same(read, replace(record, findings=read.findings))


def test_a_csv_row_holds_every_field_of_its_record(
    path: Path, records: list[CallRecord], tmp_path: Path
) -> None:
    export(path, "csv", tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert len(rows) == N
    assert {"id", "gradient.norm", "delta.beyond", "tensors.after.delta.is_leaf"} <= set(rows[0])
    single = [column for column in rows[0] if not column.endswith(SEVERAL)]
    for row, record in zip(rows, records, strict=True):
        assert {column: row[column] for column in single} == {
            column: text_of(record, column) for column in single
        }
        assert json.loads(row["findings"]) == list(record.findings)
        assert list(json.loads(row["storages"])) == list(record.storages)
        assert row["delta.histogram"] == (
            "" if record.delta.histogram is None else str(list(record.delta.histogram))
        )
        after = record.tensors.after.delta
        assert row["tensors.after.delta.shape"] == ("" if after is None else str(list(after.shape)))
    finite = [row["gradient.norm"] for row in rows]
    assert {"nan", "inf", "-inf", ""} <= set(finite)
    assert sum(cell == "nan" for cell in finite) == sum(
        record.gradient.norm is not None and math.isnan(record.gradient.norm) for record in records
    )


L2 = """
import torch

def pgd(model, x, eps, alpha, steps, norm="l2"):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(steps):
        model(x + delta).sum().backward()
        with torch.no_grad():
            delta += alpha * delta.grad / delta.grad.norm(dim=1, keepdim=True)
            delta *= eps / delta.norm(dim=1, keepdim=True).clamp(min=eps)
            delta.grad.zero_()
    return delta.detach()

pgd(torch.nn.Linear(4, 1), torch.rand(3, 4), eps=0.5, alpha=0.2, steps=4)
"""


def test_the_bound_of_an_l2_norm_is_exported_and_found_by_what_the_file_says_of_itself(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(L2)
    file, out = tmp_path / "a.pertdbg", tmp_path / "out.csv"
    command = [sys.executable, "-m", "pertdbg", "record", "-o", str(file), "train.py"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    export(file, "csv", out)
    rows = rows_of(out)
    # The gradient of a linear model is the same everywhere: each step adds 0.2 up to the bound.
    expected = {1: 0.2, 2: 0.4, 3: 0.5, 4: 0.5}
    assert {
        int(row["step"]): float(row["delta.norm_max"]) for row in rows if row["step"] != "0"
    } == (pytest.approx(expected, rel=1e-5))
    assert {(row["delta.bound_norm"], row["delta.bound_of"]) for row in rows} == {("0.5", "sample")}
    assert {row["delta.bound"] for row in rows} == {""}
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for path in ("delta.bound_norm", "delta.bound_of", "delta.norm_max"):
            names = "SELECT name FROM scalar WHERE path = ?"
            ((name,),) = connection.execute(names, (path,)).fetchall()
            part, _, place = name.partition(".json")
            found = connection.execute(
                f"SELECT json_extract(json, '${place}') FROM call"
                f" JOIN detail ON detail.id = call.{part} ORDER BY call.id"
            ).fetchall()
            assert [str(value) for (value,) in found] == [row[path] for row in rows]


def test_texts_in_csv_neither_break_rows_nor_run_in_a_spreadsheet(tmp_path: Path) -> None:
    update = replace(_records.healthy(1).update, raised=Raised("=cmd()", "two\nlines, \x1b[2J", 1))
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.write(_records.healthy(1, update=update, layer="@x"))
    recorder.close()
    export(tmp_path / "a.pertdbg", "csv", tmp_path / "out.csv")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 2
    (row,) = rows_of(tmp_path / "out.csv")
    assert row["update.raised.type"] == "'=cmd()"
    assert row["update.raised.message"] == "two\\nlines, \\x1b[2J"
    assert row["layer"] == "'@x"


def test_damaged_records_are_left_out_and_said(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a.pertdbg"
    copy.write_bytes(path.read_bytes())
    connection = sqlite3.connect(copy)
    with connection:
        connection.execute("UPDATE call SET delta_norm = 1 WHERE id IN (3, 5)")
    connection.close()
    with pytest.raises(PertdbgError, match=r"2 damaged records were left out: 3, 5"):
        export(copy, "jsonl", tmp_path / "out.jsonl")
    ids = [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert ids == [1, 2, 4, *range(6, N + 1)]


def test_an_export_never_destroys_the_recording_or_leaves_half_a_file(
    path: Path, tmp_path: Path
) -> None:
    before = path.read_bytes()
    with pytest.raises(PertdbgError, match="is the recording itself"):
        export(path, "csv", path)
    assert path.read_bytes() == before
    with pytest.raises(PertdbgError, match="cannot write"):
        export(path, "csv", tmp_path / "none" / "out.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_closed_pipe_ends_an_export_without_a_word(path: Path, form: Form) -> None:
    code = (
        "import sys; from pathlib import Path; from pertdbg.output.export import Form, export\n"
        "export(Path(sys.argv[1]), sys.argv[2], None)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0
    assert errors == b""
