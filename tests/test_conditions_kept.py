"""Watches and conditions that are kept in a file, found again, and never lost to a broken one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from pertdbg.conditions import Kept
from pertdbg.errors import PertdbgError

TARGETS = [
    *(
        "scenario sift",
        "/home/me/train.py",
        "-m my.module",
        "/a/b c/d\N{GREEK SMALL LETTER ALPHA}.py",
    ),
    *("/", "", "..", "../../etc/passwd", "a" * 5000, "x\ny", "\udcff.py", '"quoted"\\'),
]


@pytest.fixture(autouse=True)
def _config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_kept_for_a_target_is_found_again_and_for_no_other(
    target: str, tmp_path: Path
) -> None:
    kept = Kept(target, ['layer == "\N{GREEK SMALL LETTER DELTA}"', "gradient.norm"], ["call > 3"])
    kept.save()
    again = Kept.load(target)
    assert (again.watches, again.stop_when) == (kept.watches, ["call > 3"])
    assert again.problems == []
    assert not again.broken
    assert Kept.load(target + "x").watches == []
    assert [p.parent for p in tmp_path.rglob("*.toml")] == [tmp_path / "config/pertdbg/watches"]


def test_another_process_finds_it_and_a_person_can_read_it(tmp_path: Path) -> None:
    kept = Kept("/home/me/train.py", ["gradient.norm / delta.norm"], ["nan-gradient; after 2 hits"])
    kept.save()
    script = "from pertdbg.conditions import Kept; k = Kept.load('/home/me/train.py');"
    script += "print([e.text for e in k.expressions()], list(map(str, k.conditions())))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "['gradient.norm / delta.norm'] ['nan-gradient; after 2 hits']\n"
    text = kept.path.read_text()
    assert 'target = "/home/me/train.py"' in text
    assert '    "gradient.norm / delta.norm",\n' in text
    assert kept.path.name.startswith("train.py-")


BROKEN = [
    *(
        b"watches = [",
        b"\xff\xfe",
        b"watches = 3",
        b'watches = ["call", 3]',
        b"stop_when = {a = 1}",
    ),
    *(b"\x00", b"[" * 100_000, b"a = " + b"[" * 100_000, b"#" * (2 << 20)),
]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file_is_said_and_put_aside_when_something_is_kept(data: bytes) -> None:
    kept = Kept("target")
    kept.path.parent.mkdir(parents=True)
    kept.path.write_bytes(data)
    kept = Kept.load("target")
    assert kept.broken
    assert len(kept.problems) == 1
    assert str(kept.path) in kept.problems[0]
    kept.watches.append("gradient.norm")
    kept.save()
    assert kept.path.with_suffix(".toml.broken").read_bytes() == data
    assert Kept.load("target").watches[-1] == "gradient.norm"
    assert Kept.load("target").problems == []


def test_an_expression_that_can_not_be_read_stays_in_the_file(tmp_path: Path) -> None:
    Kept("target", ["gradient.norm", "gradiant.norm"], ["cal > 3", "call > 3"]).save()
    kept = Kept.load("target")
    assert [e.text for e in kept.expressions()] == ["gradient.norm"]
    assert list(map(str, kept.conditions())) == ["call > 3"]
    assert len(kept.problems) == 2
    assert "did you mean gradient.norm?" in kept.problems[0]
    kept.watches.append("delta.norm")
    kept.save()
    assert Kept.load("target").watches == ["gradient.norm", "gradiant.norm", "delta.norm"]
    assert not list(tmp_path.rglob("*.broken"))


def test_nothing_kept_leaves_no_file() -> None:
    kept = Kept("target", ["call"])
    kept.save()
    kept.watches.clear()
    kept.save()
    kept.save()
    assert not kept.path.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written_is_one_line() -> None:
    kept = Kept("target", ["call"])
    kept.path.parent.parent.mkdir(parents=True)
    kept.path.parent.parent.chmod(0o500)
    with pytest.raises(PertdbgError, match="can't be written"):
        kept.save()


def test_a_file_in_the_place_of_the_folder_is_one_line() -> None:
    kept = Kept("target", ["call"])
    kept.path.parent.parent.mkdir(parents=True)
    kept.path.parent.write_text("mine")
    with pytest.raises(PertdbgError, match="can't be written"):
        kept.save()
    assert Kept.load("target").watches == []
    assert kept.path.parent.read_text() == "mine"


def test_any_bytes_can_stand_in_the_file() -> None:
    random = Random(4)
    Kept("target", ["gradient.norm"], ["call > 3; after 2 hits"]).save()
    whole = bytearray(Kept("target").path.read_bytes())
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        Kept("target").path.write_bytes(data)
        kept = Kept.load("target")
        assert all(isinstance(text, str) for text in kept.watches + kept.stop_when)
        kept.expressions()
        kept.conditions()
