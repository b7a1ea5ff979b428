"""Several recordings as one sequence of steps, against a merge of lists of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import _records
from _records import healthy
from pertdbg.compare import Merged, Step, differences, in_kind
from pertdbg.compare.outline import outlines
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder

STEP = ("batch", "step")


def record_to(path: Path, records: Sequence[CallRecord]) -> Path:
    recorder = Recorder(path, {})
    for ident, record in enumerate(records, 1):
        recorder.write(replace(record, id=ident))
    recorder.close()
    return path


def at(batch: int, step: int, layer: str = "a") -> CallRecord:
    return replace(healthy(step + 2), batch=batch, step=step, layer=layer, call=batch * 100 + step)


def steps_of(records: Sequence[CallRecord]) -> list[Step]:
    return [Step((record.batch, record.step), record.layer) for record in records]


class Opened:
    """Recordings of lists of records, merged."""

    def __init__(self, folder: Path, lists: Sequence[Sequence[CallRecord]]) -> None:
        self.lists = lists
        self._stack = ExitStack()
        paths = [record_to(folder / f"{k}.pertdbg", some) for k, some in enumerate(lists)]
        self.recordings = [self._stack.enter_context(Recording.open(path)) for path in paths]

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def merged(self) -> Merged:
        return Merged(self.recordings, STEP, "in kind")

    def ids(self, step: Step) -> list[int | None]:
        """Where each list has a step."""
        return [
            steps_of(some).index(step) + 1 if step in steps_of(some) else None
            for some in self.lists
        ]


def walked(merged: Merged, *, forward: bool) -> list[tuple[Step, list[int | None]]]:
    found = []
    while merged.forward() if forward else merged.backward():
        assert merged.step is not None
        found.append((merged.step, list(merged.ids)))
    return found


WHOLE = [(batch, step, layer) for batch in range(1, 5) for step in range(6) for layer in "abc"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lacking=st.lists(st.sets(st.sampled_from(WHOLE), max_size=40), min_size=1, max_size=5))
def test_each_step_comes_once_in_order_with_the_calls_of_all_that_have_it(
    lacking: list[set[tuple[int, int, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("merged")
    lists = [[at(*which) for which in WHOLE if which not in lacks] for lacks in lacking]
    there = sorted({step for some in lists for step in steps_of(some)})
    with Opened(folder, lists) as opened:
        wanted = [(step, opened.ids(step)) for step in there]
        merged = opened.merged()
        assert walked(merged, forward=True) == wanted
        merged.to_end(first=False)
        assert walked(merged, forward=False) == wanted[::-1]
        for which, some in enumerate(lists):
            for ident in (1, len(some) // 2, len(some)):
                if not 1 <= ident <= len(some):
                    continue
                assert merged.go_to(which, ident)
                place = there.index(steps_of(some)[ident - 1])
                assert (merged.step, merged.ids) == wanted[place]
                onward, back = copy.copy(merged), copy.copy(merged)
                assert walked(onward, forward=True) == wanted[place + 1 :]
                assert walked(back, forward=False) == wanted[:place][::-1]
                assert (merged.step, merged.ids) == wanted[place]


def test_layers_that_do_not_take_turns_keep_the_order_of_their_recordings(tmp_path: Path) -> None:
    # Layer b begins only when a is at its second batch: numbers alone would put b first.
    order = [(1, 0, "a"), (1, 1, "a"), (2, 0, "a"), (1, 0, "b"), (2, 1, "a"), (1, 1, "b")]
    whole = [at(*which) for which in order]
    for lacking in range(len(order)):
        lists = [whole, [record for k, record in enumerate(whole) if k != lacking], whole[2:]]
        (folder := tmp_path / str(lacking)).mkdir()
        with Opened(folder, lists) as opened:
            merged = opened.merged()
            found = walked(merged, forward=True)
            assert [step for step, _ in found] == steps_of(whole)
            assert [ids for _, ids in found] == [opened.ids(step) for step in steps_of(whole)]
            merged.to_end(first=False)
            assert [step for step, _ in walked(merged, forward=False)] == steps_of(whole)[::-1]


def test_no_step_is_lost_and_it_ends_whatever_the_numbers_say(tmp_path: Path) -> None:
    random = Random(4)
    for case in range(6):
        lists = [
            [at(random.randint(1, 3), random.randint(0, 3), random.choice("ab")) for _ in range(20)]
            for _ in range(3)
        ]
        (folder := tmp_path / str(case)).mkdir()
        with Opened(folder, lists) as opened:
            merged, there = opened.merged(), {step for some in lists for step in steps_of(some)}
            assert {step for step, _ in walked(merged, forward=True)} == there
            merged.to_end(first=False)
            assert {step for step, _ in walked(merged, forward=False)} == there


def test_a_place_far_from_the_others_is_found_in_long_recordings(tmp_path: Path) -> None:
    one = [at(batch, step) for batch in range(1, 151) for step in range(4)]
    other = one[200:]
    with Opened(tmp_path, [one, other]) as opened:
        merged = opened.merged()
        assert merged.go_to(0, 500)
        assert merged.ids == [500, 300]
        assert merged.go_to(1, 1)
        assert merged.ids == [201, 1]
        assert merged.backward()
        assert merged.ids == [200, None]
        assert merged.forward()
        assert merged.ids == [201, 1]
        assert merged.go_to(0, 100)
        assert merged.ids == [100, None]


def test_it_goes_on_where_a_recording_grows(tmp_path: Path) -> None:
    lists = [[at(1, step) for step in range(3)], [at(1, step) for step in range(2)]]
    record_to(tmp_path / "0.pertdbg", lists[0])
    growing = Recorder(tmp_path / "1.pertdbg", {})
    for ident, record in enumerate(lists[1], 1):
        growing.write(replace(record, id=ident))
    with (
        Recording.open(tmp_path / "0.pertdbg") as one,
        Recording.open(tmp_path / "1.pertdbg") as other,
    ):
        merged = Merged([one, other], STEP, "in kind")
        assert [ids for _, ids in walked(merged, forward=True)] == [[1, 1], [2, 2], [3, None]]
        growing.write(replace(at(1, 2), id=3))
        growing.write(replace(at(1, 3), id=4))
        other.refresh()
        assert merged.go_to(0, 3)
        assert merged.ids == [3, 3]
        assert [ids for _, ids in walked(merged, forward=True)] == [[None, 4]]
    growing.close()


def test_outlines_that_are_equal_are_of_records_without_a_difference(tmp_path: Path) -> None:
    random = Random(8)
    one = [_records.record(random, 1) for _ in range(60)]
    other = [_changed(random, record) for record in one]
    with Opened(tmp_path, [one, other]) as opened:
        a, b = opened.recordings
        for alike in ("exactly", "in kind"):
            first, second = outlines(a, ("call",), alike), outlines(b, ("call",), alike)
            seen = set()
            for ident in range(1, 61):
                left, right = first.one(ident), second.one(ident)
                assert left is not None
                assert right is not None
                found = differences(a.record(ident), b.record(ident))
                if alike == "in kind":
                    found = [each for each in found if in_kind(each.fact, each.a, each.b)]
                equal = left.facts == right.facts
                assert not (equal and found), found
                seen.add(equal)
            assert seen == {True, False}


def _changed(random: Random, record: CallRecord) -> CallRecord:
    """The same call as another run has it, with one part of another record or none."""
    moved = replace(record, time=record.time + 1, rank=7)
    other = _records.record(random, record.id, layer=record.layer, call=record.call)
    part = random.choice(
        ("update", "gradient", "delta", "effect", "tensors", "shared", "graph", "unknown", "", "")
    )
    return replace(moved, **{part: getattr(other, part)}) if part else moved


def test_equal_numbers_of_other_size_are_alike_in_kind_only(tmp_path: Path) -> None:
    one = healthy(3)
    assert one.gradient.norm is not None
    larger = replace(one, gradient=replace(one.gradient, norm=2 * one.gradient.norm))
    broken = replace(one, gradient=replace(one.gradient, norm=float("nan")))
    with Opened(tmp_path, [[one, one], [larger, broken]]) as opened:
        exact, kind = (
            [[outlines(r, STEP, alike).one(k) for r in opened.recordings] for k in (1, 2)]
            for alike in ("exactly", "in kind")
        )
        facts = [[found.facts for found in row if found is not None] for row in (*exact, *kind)]
        assert [a == b for a, b in facts] == [False, False, True, False]
    found = differences(one, larger)
    assert found
    assert not [each for each in found if in_kind(each.fact, each.a, each.b)]
