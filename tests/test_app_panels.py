"""Panels as functions of a record: verdict first, numbers second, unknowns with their reason."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from random import Random

import pytest

from _app import HOSTILE, LAYER, SOURCE, check_lines, heat_map, pictured
from _records import healthy, records
from pertdbg.app.lines import Line, plain
from pertdbg.app.panels.about import about
from pertdbg.app.panels.delta import delta
from pertdbg.app.panels.gradient import gradient
from pertdbg.app.panels.leaf import leaf
from pertdbg.app.panels.map import heat_map as map_panel
from pertdbg.app.panels.source import coloured, source
from pertdbg.app.panels.storage import storage
from pertdbg.output import verdict
from pertdbg.record import CallRecord, StorageFacts, Unknown
from pertdbg.recording.parts import HeatMap, LayerSource
from pertdbg.recording.series import Series

SIZES = [(38, 6), (38, 11), (58, 7), (81, 14), (115, 14), (98, 9), (38, 3)]


def norms(*values: float) -> Series:
    n = len(values)
    low = array("d", [v if math.isfinite(v) else math.nan for v in values])
    bad = array("d", [float(not math.isfinite(v)) for v in values])
    return Series(
        "gradient.norm", array("q", range(1, n + 1)), n, low, low, bad, array("d", [1.0] * n)
    )


def panels(record: CallRecord, width: int, height: int) -> dict[str, list[Line]]:
    return {
        "gradient": gradient(record, norms(1.0, math.nan, 3.0), 1, width, height),
        "delta": delta(record, width, height),
        "leaf": leaf(record, width, height),
        "storage": storage(record, width),
        "map": map_panel(record, heat_map(), width, height, colour=True),
    }


@pytest.mark.parametrize("size", SIZES)
def test_no_panel_is_wider_than_its_place_whatever_the_record_holds(size: tuple[int, int]) -> None:
    for record in records(1, 60):
        for lines in panels(record, *size).values():
            check_lines(lines, size[0])


@pytest.mark.parametrize("name", ["gradient", "delta", "leaf", "storage"])
def test_a_panel_begins_with_its_verdict(name: str) -> None:
    for record in [healthy(1), healthy(2), *records(2, 20)]:
        words = getattr(verdict, name)(record)
        if words.text.isascii() and "\n" not in words.text:
            lines = panels(record, 200, 20)[name]
            assert (plain(lines[:1]), lines[0][0][1]) == (words.text, words.level)


def test_the_gradient_panel_shows_its_numbers_and_what_was_returned() -> None:
    base = healthy(2)
    found = replace(base.gradient, norm=0.00208, norm_in_dtype=0.00209, max_abs=7.1e-4, nan=2)
    text = plain(gradient(replace(base, gradient=found), None, None, 58, 7))
    for part in ("0.00208", "in dtype 0.00209", "0.00071", "NaN, Inf 2, 0", "returned True"):
        assert part in text


def test_the_gradient_panel_says_that_the_guard_dominates() -> None:
    base = healthy(2)
    record = replace(base, gradient=replace(base.gradient, guard_fraction=0.91))
    assert "guard 1e-6 dominates" in plain(gradient(record, None, None, 58, 7))
    assert "guard 91 %" in plain(gradient(record, None, None, 200, 7))


def test_the_delta_panel_says_what_its_bound_is_good_for() -> None:
    text = plain(delta(healthy(3), 58, 7)).replace("\n", " ")
    assert "creation bound 0.02: 3 of 4,096 elements beyond" in text
    assert "(creation is clamped, later updates are not)" in text


def test_the_delta_panel_names_what_is_unknown_with_the_reason() -> None:
    record = healthy(1)
    assert record.reason("delta.moved_max") == "created"
    text = plain(delta(record, 115, 14))
    assert "unknown (created)" in text
    assert "moved" in text[: text.index("unknown")]


def test_the_histogram_comes_with_room_and_without_one_the_panel_says_so() -> None:
    assert "█" not in plain(delta(pictured(healthy(2)), 38, 6))
    assert "█" in plain(delta(pictured(healthy(2)), 115, 14))
    assert "histogram: not recorded at this call" in plain(delta(healthy(2), 115, 14))


def test_the_leaf_panel_shows_each_tensor_and_what_changed_over_the_call() -> None:
    rows = {line.split()[0]: line.split() for line in plain(leaf(healthy(2), 98, 9)).splitlines()}
    assert rows["delta"][1:5] == ["yes", "yes", "-", "set→none"]
    assert rows["input"][1:4] == ["no", "yes", "Add"]
    assert rows["perturbed"][1:4] == ["no", "yes", "Add"]
    assert rows["gradient"][1:3] == ["yes", "no"]


def test_in_a_narrow_place_the_leaf_facts_stand_under_each_other() -> None:
    text = plain(leaf(healthy(2), 38, 11)).splitlines()
    assert text[2].split() == ["delta", "input", "perturbed"]
    assert ["leaf", "yes", "no", "no"] in [line.split() for line in text]


def test_the_leaf_panel_says_what_a_backward_fills_and_how_deep_the_graph_is() -> None:
    text = plain(leaf(healthy(2), 98, 9))
    assert "backward from perturbed fills: delta; graph behind it: 2 nodes, depth 2" in text


def test_the_leaf_panel_brings_a_tangent_forward_and_names_an_unknown_version() -> None:
    base = healthy(2)
    after = base.tensors.after
    assert after.input is not None
    dual = replace(after.input, has_tangent=True, version=None)
    record = replace(
        base,
        tensors=replace(base.tensors, after=replace(after, input=dual)),
        unknown=(Unknown("tensors.after.input.version", "inference tensor"),),
    )
    lines = plain(leaf(record, 98, 9)).splitlines()
    assert lines[1].split()[:3] == ["leaf", "req", "tangent"]
    assert "input.version: unknown (inference tensor)" in lines


def test_the_storage_panel_shows_label_address_and_bytes_of_each_tensor() -> None:
    record = healthy(2)
    address = record.storages["A"].address
    assert address is not None
    rows = [line.split() for line in plain(storage(record, 58)).splitlines()]
    assert ["input", "A", hex(address), "16.0", "KiB"] in rows
    assert "compared among live tensors only" in plain(storage(record, 98))
    assert any(row[:3] == ["old", "delta", "D"] for row in rows)


def test_the_storage_panel_shows_which_part_of_its_storage_a_view_covers() -> None:
    base = healthy(1)
    after = base.tensors.after
    assert after.input is not None
    view = replace(after.input, shape=(2, 3), stride=(8, 1), storage_offset=4, nbytes=24)
    record = replace(
        base,
        tensors=replace(base.tensors, after=replace(after, input=view)),
        storages={**base.storages, "A": StorageFacts(0x7F00, 4096, ("input",))},
    )
    # The last of 2 x 3 elements lies 8 + 2 after the first: 11 elements of 4 bytes.
    assert "input: view at offset 16 B, spans 44 B of 4.0 KiB" in plain(storage(record, 98))


def test_a_tensor_without_an_address_says_why() -> None:
    base = healthy(1)
    after = base.tensors.after
    assert after.delta is not None
    sparse = replace(after.delta, storage=None, data_ptr=None)
    record = replace(
        base,
        tensors=replace(base.tensors, after=replace(after, delta=sparse)),
        unknown=(Unknown("tensors.after.delta.storage", "sparse"),),
    )
    assert "unknown (sparse)" in plain(storage(record, 98))


def test_all_pairs_that_share_are_named() -> None:
    three = (("input", "delta"), ("input", "perturbed_input"), ("delta", "perturbed_input"))
    text = plain(storage(replace(healthy(2), shared=three), 200))
    expected = "input and delta; input and perturbed input; delta and perturbed input"
    assert f"share storage: {expected}" in text


def test_the_map_says_its_range_and_what_a_field_stands_for() -> None:
    values = array("f", [0.25, 0.5, 1.0, 0.75])
    picture = HeatMap(2, 2, values.tobytes(), 100, 40)
    text = plain(map_panel(healthy(2), picture, 58, 12, colour=True))
    assert "|delta| of 100 x 40: 0.25 to 1" in text
    assert "largest of each of 2 x 2 fields" in text


def test_a_map_with_nan_says_so_and_a_missing_one_too() -> None:
    picture = HeatMap(1, 2, array("f", [math.nan, 1.0]).tobytes(), 1, 2)
    assert "1 with NaN" in plain(map_panel(healthy(2), picture, 58, 12, colour=False))
    assert "map: not recorded" in plain(map_panel(healthy(2), None, 58, 12, colour=True))


def test_the_source_panel_marks_the_current_line() -> None:
    lines, index = source(LAYER, 33, 80)
    text = plain(lines).splitlines()
    assert text[index].split() == [">", "33", "grad", "=", "self.delta.grad"]
    assert [line[0] for line in text].count(">") == 1
    assert "/home/me/layer.py:33" in text[0]


def test_the_source_panel_leaves_out_the_rest_of_a_docstring_but_never_the_current_line() -> None:
    code = 'def f(self):\n    """One.\n\n    Two.\n    """\n    return 1\n'
    layer = LayerSource("pert", "C", "f.py", 40, code)

    def rows(current: int) -> list[str]:
        lines, _ = source(layer, current, 60)
        return ["".join(text for text, _ in line)[2:6].strip() for line in lines[1:]]

    assert rows(45) == ["40", "41", "45"]
    assert rows(43) == ["40", "41", "43", "45"]


def test_source_is_coloured_without_being_changed() -> None:
    lines = coloured(SOURCE)
    assert plain(lines) == SOURCE.rstrip("\n")
    styles = {style for line in lines for _, style in line}
    assert {"keyword", "string", "comment", "number"} <= styles


def test_source_that_is_no_python_is_shown_as_it_is() -> None:
    broken = "    def f(:\n  '''never closed\n\tx ="
    assert plain(coloured(broken)) == broken.replace("\t", " ")
    assert plain(source(None, None, 60)[0]) == "no source was recorded for this layer"
    assert "could not be read" in plain(source(LayerSource("x"), 3, 60)[0])


def test_no_string_of_a_recording_reaches_the_terminal_as_it_is() -> None:
    base = healthy(2)
    after = base.tensors.after
    assert after.delta is not None
    bad = replace(after.delta, dtype=HOSTILE, grad_fn=HOSTILE, storage=HOSTILE)
    record = replace(
        base,
        tensors=replace(base.tensors, after=replace(after, delta=bad)),
        update=replace(base.update, returned=HOSTILE),
        unknown=(Unknown("delta.mean", HOSTILE), Unknown("tensors.after.delta.version", HOSTILE)),
        delta=replace(base.delta, mean=None),
    )
    for lines in panels(record, 98, 14).values():
        check_lines(lines, 98)
    layer = LayerSource("x", HOSTILE, HOSTILE, 1, f"x = '{HOSTILE}'")
    check_lines(source(layer, 1, 60)[0], 60)
    check_lines(about(HOSTILE, HOSTILE, HOSTILE, 60), 60)
    assert "[red]" in plain(about(HOSTILE, "", "", 60))


def test_random_records_at_random_sizes_never_raise() -> None:
    random = Random(5)
    for record in records(6, 80):
        width, height = random.randrange(38, 130), random.randrange(1, 40)
        for lines in panels(record, width, height).values():
            check_lines(lines, width)
