"""A recording of every released version opens for ever, and holds what was recorded."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

import columns
from conftest import REPOSITORY
from pertdbg.record import to_json
from pertdbg.recording.documented import described, markdown
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.schema import TABLES
from pertdbg.recording.verify import verify

GOLDEN = sorted((REPOSITORY / "tests" / "golden").glob("*.pertdbg"))


def test_there_is_a_file_of_the_first_version() -> None:
    assert "1.0" in [path.stem for path in GOLDEN]


@pytest.mark.parametrize("golden", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_a_recording_of_an_earlier_version_holds_what_was_recorded(
    golden: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.pertdbg"
    shutil.copy(golden, path)
    lines = golden.with_suffix(".jsonl").read_text().splitlines()
    later = {"between": None}  # fields that such a recording does not have
    norms = {"bound_norm": None, "bound_of": None, "norm_max": None}
    expected = {
        line["id"]: {**later, **line, "delta": {**line["delta"], **norms}}
        for line in map(json.loads, lines)
    }
    assert verify(path).sound
    with Recording.open(path) as recording:
        found = {r.id: r for r in recording.scan() if not isinstance(r, DamagedRecord)}
        assert {k: json.loads(json.dumps(to_json(r))) for k, r in found.items()} == expected
        assert set(range(1, 42)) - set(found) == {39, 40}
        kinds = {(mark.id, mark.kind) for mark in recording.marks(1, 41)}
        assert {(1, "created"), (7, "stopped"), (41, "gap"), (41, "nan")} <= kinds
        assert recording.next_mark(38, ["nan"]) == 41
        picture = recording.picture(17)
        assert picture is not None
        assert list(picture.values()) == [17.0, 0.5]
        assert recording.output("stdout").startswith(b"line 1\nline 2\n")
        assert recording.layers[0].source == "def update(self): ...\n"
        assert (recording.meta.title, recording.meta.rank) == ("golden", 1)
        assert recording.meta.clean_close
        tensor = recording.tensor(41, "delta")
        assert tensor is not None
        assert tensor.values()[:3] == [1.0, -2.0, math.inf]
        assert math.isnan(float(tensor.at(1, 1).real))


def test_every_column_of_every_table_is_documented() -> None:
    names = [row[1] for row in described()]
    for table in TABLES:
        prefix = "" if table.name == "call" else f"{table.name}."
        for column in table.columns:
            assert prefix + column in names
            assert f"| `{column}` |" in markdown()
    assert all(row[5] for row in described())


def test_the_file_for_people_says_what_each_column_means() -> None:
    """After a change: ``python tests/columns.py``."""
    assert columns.COLUMNS.read_text(encoding="utf-8") == columns.text()
