"""The checker on records of any content, and how it groups, counts and looks at many of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from _records import healthy, record
from _scripts import pertdbg
from pertdbg.findings.checker import Checker
from pertdbg.findings.engine import check, check_paths
from pertdbg.findings.kinds import CAUSES, KINDS
from pertdbg.findings.model import to_json
from pertdbg.findings.rule import ENDINGS, RULES, Closing
from pertdbg.record import CallRecord, GradientFacts, UpdateFacts
from pertdbg.recording.writer import Recorder

KINDS_RULED = {rule.kind for rule in RULES} | {ending.kind for ending in ENDINGS}


def numbered(like: CallRecord, ident: int) -> CallRecord:
    return replace(like, id=ident, call=ident, step=ident - 1, batch=1)


def refused(like: CallRecord) -> CallRecord:
    """A call whose gradient holds a NaN, and which declined."""
    gradient = GradientFacts(
        present=True, norm=float("nan"), norm_in_dtype=float("nan"), nan=3, inf=0, backwards=1
    )
    delta = replace(like.delta, moved_max=0.0, moved_fraction=0.0)
    return replace(like, gradient=gradient, delta=delta, update=UpdateFacts(False, False, None))


def written(path: Path, records: list[CallRecord]) -> Path:
    recorder = Recorder(path, {"target": "made"})
    for one in records:
        recorder.write(one)
    recorder.close()
    return path


@pytest.mark.parametrize("seed", range(40))
def test_records_of_any_content_are_checked_without_an_error(seed: int) -> None:
    random = Random(seed)
    checker = Checker()
    for ident in range(1, 60):
        checker.feed(replace(record(random, ident), layer="one", rank=0))
    checker.end(lambda layer: Closing(None, None))
    for found in checker.findings:
        assert found.kind in KINDS
        json.dumps(to_json(found), allow_nan=False)


def test_a_consequence_names_its_cause_and_later_calls_are_counted() -> None:
    checker = Checker()
    for ident in range(1, 9):
        like = numbered(healthy(ident), ident)
        checker.feed(refused(like) if ident >= 5 else like)
    found = {one.kind: one for one in checker.findings}
    assert set(found) == {"grad-nonfinite", "update-refused"}
    assert {one.call for one in found.values()} == {5}
    assert found["grad-nonfinite"].because is None
    assert str(found["update-refused"].because) == "grad-nonfinite@5"
    assert [one.more for one in found.values()] == [3, 3]
    assert checker.findings[0].kind == "grad-nonfinite"


def test_what_is_new_is_given_once_as_the_records_come() -> None:
    checker = Checker()
    new = [
        [found.kind for found in checker.feed(refused(like) if ident in (3, 5) else like)]
        for ident in range(1, 7)
        for like in [numbered(healthy(ident), ident)]
    ]
    assert new == [[], [], ["grad-nonfinite", "update-refused"], [], [], []]


def test_layers_and_ranks_are_checked_each_by_itself() -> None:
    checker = Checker()
    for ident in range(1, 5):
        for layer, rank in (("a", 0), ("b", 0), ("a", 1)):
            like = replace(numbered(healthy(ident), ident), layer=layer, rank=rank)
            checker.feed(refused(like) if (layer, rank) == ("a", 1) and ident > 2 else like)
    assert {(one.layer, one.rank) for one in checker.findings} == {("a", 1)}


def test_a_long_recording_gives_what_looking_at_each_record_gives(tmp_path: Path) -> None:
    """Most records are passed over as like others; nothing is lost, and the counts are the same."""
    records = []
    for ident in range(1, 4001):
        like = numbered(healthy(2 + ident % 64) if ident > 1 else healthy(1), ident)
        if ident == 3500 or ident % 900 == 0:
            like = refused(like)
        if ident > 2500:
            gradient = replace(like.gradient, norm=0.0, norm_in_dtype=0.0, max_abs=0.0)
            like = like if like.gradient.nan else replace(like, gradient=gradient)
        records.append(like)
    checker = Checker()
    for one in records:
        checker.feed(one)
    path = written(tmp_path / "long.pertdbg", records)
    found = [(one.kind, one.reason, one.call, one.more) for one in check(path)]
    assert found == [(one.kind, one.reason, one.call, one.more) for one in checker.findings]
    assert ("grad-nonfinite", "elements", 900, 4) in found
    assert ("grad-zero", None, 2501, 1496) in found


def test_a_damaged_record_is_left_out_and_the_rest_is_checked(tmp_path: Path) -> None:
    records = [numbered(healthy(ident), ident) for ident in range(1, 21)]
    records[14] = refused(records[14])
    path = written(tmp_path / "some.pertdbg", records)
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("UPDATE call SET gradient_norm = 7 WHERE id = 15")
    connection.execute("UPDATE call SET delta_nan = 4 WHERE id = 9")
    connection.commit()
    connection.close()
    checked = check_paths([path])
    assert (checked.findings, checked.calls) == ([], 20)


def test_every_rule_names_a_kind_says_what_it_is_and_where_that_comes_from() -> None:
    looks = [*(rule.look for rule in RULES), *(ending.look for ending in ENDINGS)]
    assert all((look.__doc__ or "").strip() for look in looks)
    assert {*CAUSES, *(kind for causes in CAUSES.values() for kind in causes)} <= set(KINDS)


def test_every_kind_has_a_rule() -> None:
    assert set(KINDS) == KINDS_RULED


def test_json_of_a_record_names_what_is_first_seen_with_it(tmp_path: Path) -> None:
    records = [numbered(healthy(ident), ident) for ident in range(1, 8)]
    records[4:] = [refused(one) for one in records[4:]]
    path = written(tmp_path / "some.pertdbg", records)
    shown = json.loads(pertdbg("show", path, "--call", "5", "--json").stdout)
    assert shown["findings"] == ["grad-nonfinite", "update-refused"]
    lines = pertdbg("export", path, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["findings"] for line in lines] == [[]] * 4 + [
        shown["findings"],
        [],
        [],
    ]
