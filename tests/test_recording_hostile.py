"""A recording from a stranger does no harm: it ends in time, in little memory, and runs nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import _hostile

SECONDS = 60
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
