"""What is not a recording that pertdbg wrote is refused, in one line, before anything is read."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import _records
from pertdbg.errors import PertdbgError
from pertdbg.recording import columns, schema
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder

FIRST_RELEASED_TABLES = "79ede1e8d6249656733772f32514f4916d828cd621f2ef6b534edc9f54789fb3"
"""SHA-256 of the statements that make the tables of format 1.0."""

TABLE_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"
TABLE_INFO = "SELECT * FROM pragma_table_info(?)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {})
    for ident in range(1, 21):
        recorder.write(_records.healthy(ident))
    recorder.close()
    return path


def refused(path: Path) -> str:
    with pytest.raises(PertdbgError) as caught:
        Recording.open(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def alter(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(";".join(statements))
    connection.close()


def test_a_missing_file_a_folder_and_another_file_are_named_as_such(tmp_path: Path) -> None:
    assert "there is no file" in refused(tmp_path / "none.pertdbg")
    assert "is a folder" in refused(tmp_path)
    for content in (b"", b"hello", b"SQLite format 3\0" + bytes(84), bytes(5000)):
        (tmp_path / "x").write_bytes(content)
        assert "is not a pertdbg recording" in refused(tmp_path / "x")
    alter(tmp_path / "other.db", "CREATE TABLE t(a)")
    assert "is not a pertdbg recording" in refused(tmp_path / "other.db")


def test_a_recording_of_a_newer_version_says_to_update(path: Path) -> None:
    alter(path, "PRAGMA user_version=2001")
    assert "made by a newer pertdbg (format 2.1; this one reads 1.0): update" in refused(path)
    alter(path, "PRAGMA user_version=1")
    assert "format 0.1, which no released pertdbg wrote" in refused(path)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW v AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON mark BEGIN DELETE FROM call; END",
        "CREATE TABLE more(a, b GENERATED ALWAYS AS (zeroblob(900000000)))",
        "CREATE INDEX more ON call(abs(batch))",
        "CREATE VIRTUAL TABLE more USING fts5(a)",
        "DROP INDEX mark_call",
        "ALTER TABLE call ADD COLUMN more",
        "DROP TABLE layer; CREATE VIEW layer AS SELECT 1 AS id",
    ],
)
def test_a_file_with_other_tables_is_not_read(path: Path, statement: str) -> None:
    alter(path, statement)
    assert "its tables are others" in refused(path)


def test_a_journal_that_names_other_files_is_not_played_back(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    name = str(victim).encode()
    length, total = len(name).to_bytes(4, "big"), (sum(name) & 0xFFFFFFFF).to_bytes(4, "big")
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + bytes(4) + bytes(8) + (21).to_bytes(4, "big") + (512).to_bytes(4, "big")
    header += (4096).to_bytes(4, "big")
    journal = path.with_name(path.name + "-journal")
    journal.write_bytes(header.ljust(512, b"\0") + bytes(4) + name + length + total + magic)
    with pytest.raises(PertdbgError):
        Recording.open(path)
    assert victim.read_text() == "precious"


def test_opening_leaves_nothing_beside_the_recording(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    with Recording.open(path) as recording:
        list(recording)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            recording._source._connection.execute("DELETE FROM call")
    assert [file.name for file in tmp_path.iterdir()] == ["a.pertdbg"]
    assert path.read_bytes() == before


def test_a_question_that_takes_too_long_is_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pertdbg.recording.safeopen.DEADLINE", 0.05)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with Recording.open(path) as recording:
        with pytest.raises(PertdbgError, match="interrupted"):
            recording._source.query(endless)
        assert len(list(recording)) == 20


def test_the_tables_do_not_change_without_a_change_of_the_version() -> None:
    assert schema.VERSION == 1000
    digest = hashlib.sha256("\n".join(schema.DDL).encode()).hexdigest()
    assert digest == FIRST_RELEASED_TABLES
    assert len({column.name for column in columns.CALL}) == len(columns.CALL)


def test_the_file_describes_itself_to_people_who_read_it_with_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    described = connection.execute("SELECT name, path, type, unit, doc FROM scalar ORDER BY id")
    names = [row[0] if "." in row[0] else f"call.{row[0]}" for row in described]
    tables = {row[0] for row in connection.execute(TABLE_NAMES)} - {"scalar"}
    assert len(tables) == 13
    for table in tables:
        columns = [f"{table}.{row[1]}" for row in connection.execute(TABLE_INFO, (table,))]
        assert [
            *(name for name in names if name.startswith(f"{table}.")),
            f"{table}.crc",
        ] == columns
    norms = connection.execute("SELECT gradient_norm FROM call WHERE update_created = 0").fetchall()
    assert [norm for (norm,) in norms] == [
        _records.healthy(ident).gradient.norm for ident in range(2, 21)
    ]
    dtypes = connection.execute(
        "SELECT DISTINCT dtype FROM call JOIN tensor_kind ON tensor_kind.id = after_delta"
    ).fetchall()
    assert dtypes == [("float32",)]
    connection.close()


def test_reading_showing_and_exporting_need_neither_torch_nor_numpy(path: Path) -> None:
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "textual", "rich", "click", "pydantic"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import importlib, pkgutil
from pathlib import Path
import pertdbg.output, pertdbg.recording
for package in (pertdbg.output, pertdbg.recording):
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
from pertdbg.output.show import show
from pertdbg.output.export import export
show(Path(sys.argv[1]), call=2)
export(Path(sys.argv[1]), "csv", None)
export(Path(sys.argv[1]), "jsonl", None)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "delta is a leaf: backward will fill delta.grad" in done.stdout
