"""A call as plain text: readable at 80 columns, and safe whatever the recording holds."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import _records
from pertdbg.errors import PertdbgError
from pertdbg.output import verdict
from pertdbg.output.safe import printable
from pertdbg.output.show import show
from pertdbg.output.text import describe
from pertdbg.record import Raised, Unknown, from_json
from pertdbg.recording.writer import Recorder

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.\u2066\r\n\x00\ud800[red]x[/]"


def test_a_call_is_told_by_its_verdicts_and_then_its_numbers() -> None:
    record = _records.healthy(5)
    text = "\n".join(describe(record))
    assert text.startswith("call 5 of encoder.pert: batch 1, step 4, line 31 (record 5, rank 0")
    assert "called from /home/me/train.py:57" in text
    heads = ["GRADIENT  gradient norm", "DELTA     creation bound 0.02: 3 of 4,096 elements beyond"]
    heads += ["LEAF      delta is a leaf", "STORAGE   separate storages: input A, delta B"]
    places = [text.index(head) for head in heads]
    assert places == sorted(places)
    for fact in ("moved by at most 0.0001", "at bound 0", "backward passes 1", "NaN 0", "4x16x64"):
        assert fact in text
    address = record.storages["B"].address
    assert address is not None
    assert f"B  {hex(address)}  16,384 bytes  delta" in text


def test_each_section_begins_with_the_words_of_the_panel() -> None:
    random = Random(4)
    for ident in range(1, 100):
        record = _records.record(random, ident)
        words = "".join("".join(describe(record)).split())
        for function in (verdict.gradient, verdict.delta, verdict.leaf, verdict.storage):
            title = function.__name__.upper() + printable(function(record).text)
            assert "".join(title.split()) in words


def test_no_line_is_longer_than_a_terminal_or_moves_its_cursor() -> None:
    random = Random(9)
    for ident in range(1, 300):
        for line in describe(_records.record(random, ident)):
            assert len(line) <= 79
            assert printable(line) == line


def test_what_is_unknown_is_listed_by_its_reason() -> None:
    reason = "sparse tensors have no stride"
    unknown = (Unknown("delta.min", reason), Unknown("tensors.after.input.stride", reason))
    lines = describe(replace(_records.healthy(2), unknown=unknown))
    assert lines[-2:] == ["UNKNOWN", f"  {reason}: delta.min, tensors.after.input.stride"]


def test_hostile_strings_reach_the_terminal_as_escapes_only() -> None:
    record = _records.healthy(2)
    record = replace(
        record,
        layer=HOSTILE,
        update=replace(record.update, raised=Raised(HOSTILE, HOSTILE, 1)),
        unknown=(Unknown(HOSTILE, HOSTILE),),
        findings=(HOSTILE,),
    )
    text = "\n".join(describe(record))
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "\\x1b[2J" in text


def test_printable_escapes_what_a_terminal_would_obey_and_nothing_else() -> None:
    assert printable("plain text, with [markup] & caf\u00e9 \u65e5\u672c \U0001f600") == (
        "plain text, with [markup] & caf\u00e9 \u65e5\u672c \U0001f600"
    )
    assert printable("a\tb\nc\x1b\x7f\x9b\u202e\u200b\ud800") == (
        "a\\tb\\nc\\x1b\\x7f\\x9b\\u202e\\u200b\\ud800"
    )
    for code in [*range(32), *range(127, 160)]:
        assert printable(chr(code)).isprintable()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    recorder = Recorder(tmp_path / "a.pertdbg", {"rank": 1})
    for ident, (layer, call) in enumerate([("a", 1), ("b", 1), ("a", 2)], 1):
        recorder.write(_records.healthy(ident, layer=layer, call=call))
    recorder.close()
    return tmp_path / "a.pertdbg"


def test_show_prints_the_call_that_was_asked_for(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show(path)
    told = capsys.readouterr().out.splitlines()
    assert told[:-2] == describe(_records.healthy(3, layer="a", call=2))
    assert told[-1].startswith("ENDED")
    show(path, call=1, layer="b", rank=1)
    assert capsys.readouterr().out.startswith("call 1 of b: ")
    show(path, layer="b")
    assert capsys.readouterr().out.startswith("call 1 of b: ")
    show(path, call=2, as_json=True)
    assert from_json(json.loads(capsys.readouterr().out)).id == 3


def test_show_says_what_there_is_where_the_question_has_no_single_answer(
    path: Path, tmp_path: Path
) -> None:
    with pytest.raises(PertdbgError, match=r"several layers have a call 1: add --layer"):
        show(path, call=1)
    with pytest.raises(PertdbgError, match=r"no layer is called 'c'; there are: a, b"):
        show(path, call=1, layer="c")
    with pytest.raises(PertdbgError, match=r"there is no call 9; the last record is 3"):
        show(path, call=9)
    with pytest.raises(PertdbgError, match=r"is of rank 1, not of rank 0"):
        show(path, rank=0)
    Recorder(tmp_path / "empty.pertdbg", {}).close()
    with pytest.raises(PertdbgError, match=r"empty\.pertdbg holds no call"):
        show(tmp_path / "empty.pertdbg")


def test_show_escapes_what_an_ascii_terminal_lacks(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.write(_records.healthy(1, layer="caf\u00e9"))
    recorder.close()
    code = (
        "import sys; from pathlib import Path; from pertdbg.output.show import show\n"
        "sys.stdout.reconfigure(encoding='ascii')\n"
        "show(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.pertdbg")], capture_output=True, check=True
    )
    assert b"of caf\\xe9:" in done.stdout
