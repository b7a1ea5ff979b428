"""Searching recordings, and series of expressions, against going over every record."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import _records
from _expressions import number_text, truth_text
from pertdbg.conditions import (
    NAMED,
    Condition,
    Expression,
    ExpressionSeries,
    Search,
    parse,
    previous_of,
    search,
    series,
)
from pertdbg.record import CallRecord
from pertdbg.recording import LayerSource
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.writer import Recorder

CALLS = 120

TEXTS = [
    *("gradient.norm > 0.5", "not gradient.norm > 0.5", "gradient.norm != 1", "0.25 < delta.norm"),
    *(
        "not delta.norm == delta.norm",
        "isnan(delta.norm)",
        "delta.norm == inf",
        "delta.norm != nan",
    ),
    *("call % 7 == 0", "call % 7 != 3", "not call % 2 == 1", "call % 3 > 1", "1 <= step <= 20"),
    *(
        "update.created",
        "not update.created",
        "update.returned is False",
        "update.returned is None",
    ),
    *("update.returned is not True", "update.returned is not None", "update.returned == 'Tensor'"),
    *("update.returned != 'Tensor'", "update.returned == True", "update.returned != False"),
    *("not update.returned", "update.raised is None", "update.raised is not None"),
    *(
        "update.raised.type == 'ValueError'",
        "'two' in update.raised.message",
        "gradient.reason is None",
    ),
    *(
        "gradient.reason in ('nonleaf', 'no-delta')",
        "gradient.reason not in ('nonleaf', 'no-delta')",
    ),
    *("gradient.reason != 'nonleaf'", "gradient.reason < 'no'", "delta.bound_kind == 'always'"),
    *("layer == 'decoder.pert'", "layer != 'decoder.pert'", "layer in ('decoder.pert', 'x')"),
    *("layer not in ('decoder.pert', 'x')", "layer == 'nobody'", "'enc' in layer", "layer > 'e'"),
    *(
        "tensors.after.delta is None",
        "tensors.after.delta is not None",
        "tensors.after.delta.is_leaf",
    ),
    *("not tensors.after.delta.is_leaf", "tensors.after.delta.is_leaf is not False"),
    *("tensors.after.delta.is_leaf is None", "tensors.after.delta.is_leaf is False"),
    *("tensors.before.gradient.dtype == 'float16'", "tensors.before.gradient.dtype != 'float16'"),
    *("tensors.after.delta.dtype in ('float32', 'x')", "tensors.after.delta.grad_fn is None"),
    *("tensors.after.delta.nbytes > 100", "tensors.after.delta.version > 3", "rank == 3"),
    *("tensors.after.delta.data_ptr > 9223372036854775807", "len(tensors.after.delta.shape) == 2"),
    *(
        "0 in tensors.after.delta.shape",
        "tensors.after.delta.shape == (1, 2)",
        "graph.delta is None",
    ),
    *(
        "graph.delta.complete",
        "graph.delta.nodes > 500",
        "'fc.weight' in backward_reaches.perturbed_input",
    ),
    *("not backward_reaches.complete", "'nan-gradient' in findings", "len(unknown) > 0"),
    *(
        "shares(input, perturbed_input)",
        "not shares(input, perturbed_input)",
        "shares(delta, gradient)",
    ),
    *("shares(input, before.input)", "caller is None", "caller.line == 12", "'A' in storages"),
    *("source_line is None", "delta.histogram is None", "delta.histogram_range[0] < -0.5"),
    *(
        "changed(gradient.norm)",
        "not changed(update.created)",
        "changed(tensors.after.delta.is_leaf)",
    ),
    *("changed(layer)", "changed(delta.norm > 0) and call > 5", "changed(tensors.after.delta)"),
    *(
        "changed(delta.mean) or gradient.norm > 1.9",
        "changed(findings)",
        "changed(update.returned)",
    ),
    *("delta.norm > 2 * gradient.norm", "delta.norm - gradient.norm != 0", "abs(delta.mean) > 1"),
    *(
        "not delta.norm / gradient.norm > 1",
        "delta.norm * call > 50.0",
        "step + 1 == 9007199254740994",
    ),
    *(
        "min(delta.norm, gradient.norm) > 0",
        "delta.beyond > delta.at_bound",
        "gradient.norm > delta.norm",
    ),
    *("delta.beyond == 9223372036854775807", "delta.beyond > 9223372036854775808", "call == 3.0"),
    *(
        "step in (1, 2, 3)",
        "step not in (1, 2, 3)",
        "gradient.norm in (1, 2)",
        "gradient.norm not in (1, nan)",
    ),
    *(
        "gradient.norm > 1 and call > 100 or step == 3",
        "call > 1e300",
        "time >= 0",
        "delta.norm is None",
    ),
    *("delta.norm is not None", "gradient.norm is None or gradient.norm > 1", "id == 12"),
]


def many(seed: int, n: int, layers: Sequence[str]) -> list[CallRecord]:
    """Records with facts at random whose calls are counted for each layer, as a run does."""
    random, counts = Random(seed), dict.fromkeys(layers, 0)
    made: list[CallRecord] = []
    for ident in range(1, n + 1):
        layer = random.choice(layers)
        counts[layer] += 1
        new = _records.record(random, ident, layer=layer, call=counts[layer])
        old = made[-1] if made else new
        if random.random() < 0.5:  # so that something stays as it was
            new = dataclasses.replace(new, delta=old.delta, tensors=old.tensors, update=old.update)
        made.append(new)
    return made


def write(path: Path, records: Sequence[CallRecord]) -> None:
    recorder = Recorder(path, {"target": "test"})
    for layer in dict.fromkeys(record.layer for record in records):
        recorder.add_layer(LayerSource(layer, "test.Layer", "test.py", 1, "pass"))
    for record in records:
        recorder.write(record)
    recorder.close()


Pair = tuple[CallRecord, CallRecord | None]


def with_the_call_before(recording: Recording) -> list[Pair]:
    """Every sound record, and that of the layer's call before."""
    last: dict[str, CallRecord] = {}
    found: list[Pair] = []
    for record in recording.scan():
        if isinstance(record, DamagedRecord):
            continue
        before = last.get(record.layer)
        near = before is not None and before.call == record.call - 1
        last[record.layer] = record
        found.append((record, before if near else None))
    return found


def brute(pairs: Sequence[Pair], condition: Condition | Expression) -> list[int]:
    """Every call at which a condition holds."""
    return [record.id for record, before in pairs if condition.holds(record, before)]


def by_search(
    recording: Recording, condition: Condition | Expression, *, forward: bool = True
) -> list[int]:
    looking = Search(recording, condition, 0 if forward else recording.head + 1, forward)
    found: list[int] = []
    while True:
        if looking.step():
            if looking.found is None:
                return found
            found.append(looking.found)


@pytest.fixture(scope="module", params=[("one",), ("encoder.pert", "decoder.pert")], ids=["1", "2"])
def recording(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recording]:
    path = tmp_path_factory.mktemp("search") / "many.pertdbg"
    write(path, many(11, CALLS, request.param))
    with Recording.open(path) as found:
        yield found


@pytest.fixture(scope="module")
def pairs(recording: Recording) -> list[Pair]:
    return with_the_call_before(recording)


ALL = [*TEXTS, *(named.text for named in NAMED.values())]


@pytest.mark.parametrize("place", range(0, len(ALL), 10))
def test_a_search_finds_what_going_over_every_record_finds(
    recording: Recording, pairs: list[Pair], place: int
) -> None:
    for text in ALL[place : place + 10]:
        expression = parse(text)
        assert by_search(recording, expression) == brute(pairs, expression), text


def test_searches_at_random_find_what_going_over_every_record_finds(
    recording: Recording, pairs: list[Pair], whole: bool
) -> None:
    random = Random(5)
    for _ in range(2000 if whole else 40):
        expression = parse(truth_text(random, 2))
        wanted = brute(pairs, expression)
        assert by_search(recording, expression) == wanted, expression.text
        start = random.randrange(CALLS + 2)
        after = [k for k in wanted if k > start]
        before = [k for k in wanted if k < start]
        assert search(recording, expression, start) == (after[0] if after else None)
        found = search(recording, expression, start, forward=False)
        assert found == (before[-1] if before else None), (expression.text, start)


def test_a_search_backward_finds_the_same_in_the_other_order(
    recording: Recording, pairs: list[Pair]
) -> None:
    for text in TEXTS[::7]:
        expression = parse(text)
        found = by_search(recording, expression, forward=False)
        assert found == brute(pairs, expression)[::-1], text


def test_a_condition_is_searched_in_its_layer_and_rank_and_hits_do_not_count(
    recording: Recording, pairs: list[Pair]
) -> None:
    for line in ("gradient.norm > 0; layer decoder.pert", "rank > 0; rank 3; after 4 hits; skip 2"):
        condition = Condition.of(line)
        assert by_search(recording, condition) == brute(pairs, condition)


def test_the_call_before_is_the_layers_own(recording: Recording) -> None:
    last: dict[str, CallRecord] = {}
    for record in recording:
        assert previous_of(recording, record) == last.get(record.layer) or record.call == 1
        last[record.layer] = record


def test_a_search_can_be_left_after_any_step_and_taken_up_again(
    recording: Recording, pairs: list[Pair]
) -> None:
    expression = parse("changed(delta.norm) or gradient.norm > 1")
    looking, found, steps = Search(recording, expression, 0), [], 0
    while True:
        steps += 1
        if looking.step(0.0):
            if looking.found is None:
                break
            found.append(looking.found)
    assert found == brute(pairs, expression)
    assert looking.done
    assert looking.left == 0
    assert steps > len(found)


def changed_file(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("gradient.norm > 5", "UPDATE call SET gradient_norm = 99 WHERE id IN (7, 30)"),
        ("delta.beyond is not None", "UPDATE call SET delta_beyond = 3 WHERE id IN (7, 30)"),
        (
            "changed(update.created)",
            "UPDATE call SET update_created = 1 - update_created WHERE id=7",
        ),
        ("changed(update.created)", "DELETE FROM call WHERE id IN (7, 30, 31)"),
        ("delta.norm * call > 3", "UPDATE call SET delta_norm = 'aaaa' WHERE id = 7"),
        ("step * call > 3", "UPDATE call SET step = 'a', call = 'b' WHERE id = 7"),
        ("layer == 'one'", "UPDATE call SET layer = 77 WHERE id = 7"),
        ("tensors.after.delta.is_leaf", "UPDATE call SET after_delta = 9999 WHERE id = 7"),
        ("'x' in findings", "UPDATE detail SET json = '[' WHERE id = 1"),
        ("gradient.reason == 'nonleaf'", "UPDATE call SET gradient_reason = 'nonleaf' WHERE id=7"),
    ],
)
def test_what_is_damaged_is_neither_found_nor_in_the_way(
    tmp_path: Path, text: str, change: str
) -> None:
    path = tmp_path / "damaged.pertdbg"
    write(path, many(3, 60, ("one",)))
    changed_file(path, change)
    with Recording.open(path) as found:
        expression = parse(text)
        wanted = brute(with_the_call_before(found), expression)
        assert by_search(found, expression) == wanted
        assert by_search(found, expression, forward=False) == wanted[::-1]


def cells_of(pairs: list[Pair], expression: Expression, edges: Sequence[int]) -> list[Any]:
    """Least, greatest, how many not finite and how many known, of the calls between two edges."""
    values = {record.id: expression.value(record, before) for record, before in pairs}
    cells = []
    for lo, hi in itertools.pairwise(edges):
        known = [values[k] for k in range(lo, hi) if values.get(k) is not None]
        finite = [float(v) for v in known if math.isfinite(v)]
        low, high = (min(finite), max(finite)) if finite else (math.nan, math.nan)
        cells.append((repr(low), repr(high), len(known) - len(finite), len(known)))
    return cells


@pytest.mark.parametrize(
    ("lo", "hi", "points"), [(1, CALLS, 13), (40, 77, 100), (9, 9, 4), (5, 4, 3)]
)
def test_a_series_holds_the_extremes_of_every_cell(
    recording: Recording, pairs: list[Pair], lo: int, hi: int, points: int
) -> None:
    random = Random(8)
    texts = [number_text(random, 2) for _ in range(12)]
    texts += [
        "gradient.norm",
        "delta.norm + 0",
        "changed(delta.norm)",
        "len(findings)",
        "delta.beyond",
    ]
    for text in texts:
        expression = parse(text)
        made = series(recording, expression, lo, hi, points)
        edges = [*made.first, made.last + 1]
        found = zip(map(repr, made.low), map(repr, made.high), made.bad, made.n, strict=True)
        assert list(found) == cells_of(pairs, expression, edges if len(made) else []), text
        assert made.last == (hi if len(made) else 0)


def test_a_series_can_be_shown_while_it_is_made(recording: Recording) -> None:
    making = ExpressionSeries(recording, parse("delta.norm * 2"), 1, CALLS, 20)
    before = making.series()
    assert list(before.n) == [0.0] * 20
    while not making.step(0.0):
        pass
    assert making.done
    assert sum(making.series().n) == sum(r.delta.norm is not None for r in recording)


def test_a_spike_that_nobody_wrote_is_in_no_series(tmp_path: Path) -> None:
    path = tmp_path / "damaged.pertdbg"
    write(path, [_records.healthy(k) for k in range(1, 101)])
    changed_file(path, "UPDATE call SET gradient_norm = 1e9 WHERE id = 50")
    with Recording.open(path) as found:
        made = series(found, parse("gradient.norm * 2"), 1, 100, 4)
        assert max(made.high) < 1
        assert sum(made.n) == 98  # the first call has no gradient


def test_only_numbers_and_truths_have_a_series(recording: Recording) -> None:
    for text in ("layer", "findings", "tensors.after.delta"):
        with pytest.raises(Exception, match="only numbers"):
            series(recording, parse(text), 1, 10, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("find")
    write(folder / "well.pertdbg", [_records.healthy(k) for k in range(1, 41)])
    return folder


def find(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pertdbg", "find", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)


def test_find_prints_the_calls_and_says_by_its_status_whether_there_are_any(folder: Path) -> None:
    done = find(folder, "well.pertdbg", "call % 10 == 0 and step > 10")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"call {k} (record {k}): step {k - 1}" for k in (20, 30, 40)
    ]
    assert find(folder, "well.pertdbg", "update.created", "--first").stdout.startswith("call 1 ")
    none = find(folder, "well.pertdbg", "nan-gradient")
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr == "pertdbg: well.pertdbg: it holds at none of 40 calls\n"
    unknown = find(folder, "well.pertdbg", "update.raised.line > 3")
    assert "update.raised.line is unknown at call 40: there is no update.raised" in unknown.stderr


def test_find_stops_at_twenty_unless_all_are_wanted_and_writes_json(folder: Path) -> None:
    some = find(folder, "well.pertdbg", "call > 0")
    assert len(some.stdout.splitlines()) == 20
    assert some.stderr == "pertdbg: well.pertdbg: there are more; --all prints them\n"
    done = find(folder, "well.pertdbg", "changed(gradient.norm)", "--all", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["call"] for one in found] == list(range(2, 41))
    assert found[0]["values"] == {"gradient.norm": _records.healthy(2).gradient.norm}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("well.pertdbg", "gradiant.norm > 1"), "did you mean gradient.norm?"),
        (("well.pertdbg", "gradient.norm"), "it is neither true nor false"),
        (("well.pertdbg", "call > 1; layer nobody"), "no layer is called nobody; there are: encod"),
        (("well.pertdbg", "call > 1; after 3"), "after and skip count in a run"),
        (("no.pertdbg", "call > 1"), "no.pertdbg"),
        (("well.pertdbg", "call > 1", "--first", "--all"), "exclude each other"),
    ],
)
def test_a_mistake_in_find_is_one_line(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = find(folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pertdbg: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_find_goes_through_the_ranks_of_a_run_in_a_folder(tmp_path: Path) -> None:
    for rank in (0, 1):
        recorder = Recorder(
            tmp_path / f"rank{rank}.pertdbg", {"rank": rank, "world_size": 2, "uuid": "same"}
        )
        recorder.add_layer(LayerSource("encoder.pert", "test.Layer", "test.py", 1, "pass"))
        for k in range(1, 4):
            recorder.write(dataclasses.replace(_records.healthy(k), rank=rank))
        recorder.close()
    done = find(tmp_path, ".", "call == 3 and rank == 1")
    assert done.stdout == "call 3, rank 1 (record 3)\n"
    assert done.returncode == 0
