"""A recording from a stranger does no harm: it ends in time, in little memory, and runs nothing."""

from __future__ import annotations

import functools
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import _hostile
from pertdbg.errors import PertdbgError
from pertdbg.recording import schema
from pertdbg.recording.safeopen import DamagedRecording, Source

SECONDS = 180
MEMORY = 200 << 10


def looked_at(path: Path, out: Path) -> bytes:
    """Open and show a file in a process with limits; give what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", _hostile.LOOK, str(path), str(out)],
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    assert is_plain(done.stderr)
    assert b"Traceback" not in done.stderr
    found = re.search(rb"memory (\d+)\n", done.stdout)
    assert found is not None
    assert int(found[1]) < MEMORY
    return done.stdout


class OlderConnection(sqlite3.Connection):
    """One as Python 3.10 has it."""

    @property
    def setlimit(self) -> None:  # type: ignore[override]
        raise AttributeError


def opened_by_an_older_python(path: Path) -> Source:
    older = functools.partial(sqlite3.connect, factory=OlderConnection)
    with mock.patch("pertdbg.recording.safeopen.sqlite3.connect", older):
        return Source(path)


def test_long_values_are_refused_unread_where_sqlite3_offers_no_limit(
    recording: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.pertdbg"
    path.write_bytes(recording)
    _hostile.forge(path, schema.PICTURES, "id = 1", data=bytes(60 << 20))
    _hostile.forge(path, schema.LAYERS, "1", source="x" * (60 << 20))
    source = opened_by_an_older_python(path)
    for column, table in (("data", "picture"), ("source", "layer")):
        with pytest.raises(DamagedRecording, match="too big"):
            source.query(f"SELECT {column} FROM {table} WHERE id = 1")
    assert source.query("SELECT id FROM picture WHERE id = 2") == [(2,)]
    source.close()


def test_where_no_limit_can_be_set_only_small_files_are_read(
    recording: bytes, tmp_path: Path
) -> None:
    small, large = tmp_path / "small.pertdbg", tmp_path / "large.pertdbg"
    small.write_bytes(recording)
    large.write_bytes(recording)
    _hostile.forge(large, schema.PICTURES, "id = 1", data=bytes(60 << 20))
    with mock.patch("ctypes.CDLL", side_effect=OSError):
        opened_by_an_older_python(small).close()
        with pytest.raises(PertdbgError, match=r"large\.pertdbg is too large .* Python 3\.11"):
            opened_by_an_older_python(large)


def is_plain(printed: bytes) -> bool:
    """No control character but the end of a line, and nothing that turns the direction."""
    text = printed.decode()
    return not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "a.pertdbg"
    _hostile.good(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", _hostile.CRAFTED)
def test_a_crafted_file_is_refused_or_shown_in_part(
    name: str, recording: bytes, tmp_path: Path
) -> None:
    path, out = tmp_path / "a.pertdbg", tmp_path / "out"
    out.mkdir()
    path.write_bytes(recording)
    _hostile.CRAFTED[name](path)
    assert is_plain(looked_at(path, out))
    for file in out.iterdir():
        if file.name in ("csv", "jsonl", "html"):
            assert is_plain(file.read_bytes())
    if (out / "html").exists():
        text = (out / "html").read_text()
        assert "<script" not in text


def test_a_file_changed_at_random_is_refused_or_shown_in_part(
    recording: bytes, tmp_path: Path, whole: bool
) -> None:
    for seed in range(300 if whole else 12):
        out = tmp_path / str(seed)
        out.mkdir()
        (out / "a.pertdbg").write_bytes(_hostile.mutated(recording, seed))
        assert is_plain(looked_at(out / "a.pertdbg", out))
