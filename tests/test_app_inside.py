"""Inside a call: line by line forward and back, what each line did, and the graph behind it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Tree

from _app import (
    HOSTILE,
    LARGE,
    MIDDLE,
    SIZES,
    SMALL,
    after,
    calls,
    check_lines,
    play,
    record_to,
    shown,
)
from _inside import GRAPH, event, inside, record_inside, several, tensor
from pertdbg.app import PertdbgApp
from pertdbg.app.inside import lettered, moment
from pertdbg.app.lines import plain
from pertdbg.app.panels import inside as panels
from pertdbg.app.panels.lines import lines_of
from pertdbg.event import LineEvent, Operation
from pertdbg.recording.parts import LayerSource
from pertdbg.recording.reader import Recording


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("eight") / "run.pertdbg"
    return record_inside(path, several(8), without=[3])


Place = tuple[int, int | None]

MOVES: dict[str, Place] = {
    "s": (2, 0),
    "s s": (2, 3),  # over the lines of the function that was called
    "s S": (2, 1),
    "s S s": (2, 2),
    "s S s s": (2, 3),
    "s s s s": (2, None),
    "s s s s s": (3, None),  # its lines were not recorded
    "P": (1, 4),
    "P P P": (1, 0),
    "P P I": (1, 2),
    "P P P P": (1, 0),
    "n P": (2, 4),
    "n P P n": (2, None),
    "n P P p": (1, None),
    "n P right": (2, None),
    "n left_square_bracket": (2, 0),
    "n left_square_bracket right_square_bracket": (2, None),
    "end s": (8, None),
    "f11": (2, 0),
}
"""Keys from the end of the first call, and the place that they lead to."""


def test_keys_move_from_line_to_line_and_back(eight: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for keys, place in MOVES.items():
            await pilot.press("home", *keys.split())
            assert ((app.cursor, app.line), keys) == (place, keys)

    play(eight, act)


@pytest.mark.parametrize("size", SIZES)
def test_the_way_back_shows_what_the_way_forward_showed(eight: Path, size: tuple[int, int]) -> None:
    seen: list[str] = []

    def panels_of(app: PertdbgApp) -> str:
        return "\n".join(shown(app).splitlines()[1:])

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("6")
        for key in ["S"] * 8 + ["I"] * 8:
            app.unsay()
            await pilot.pause()
            seen.append(panels_of(app))
            await pilot.press(key)
        app.unsay()
        await pilot.pause()
        seen.append(panels_of(app))

    play(eight, act, size)
    assert seen[:8] == seen[:8:-1]
    assert len(set(seen)) == 9


def test_the_source_says_what_each_line_did_and_the_operations_of_the_current_one(
    eight: Path,
) -> None:
    with Recording.open(eight) as recording:
        (grad, _, _, added, _), _ = lettered(recording.events(2))
    text = " ".join(after(eight, "s", "s", "6", "z", size=LARGE).split())
    assert "> 34 self.delta = self.delta + 1e-4 * grad # no clamp " + added.says in text
    assert "· " + added.operations[0].says in text
    assert "33 grad = self.delta.grad " + grad.says in text
    assert "35 return True" in text
    assert ":34 after 4 lines" in text
    assert "3 times" not in text


def test_what_a_called_function_ran_is_shown_on_the_way_into_it(eight: Path) -> None:
    text = after(eight, "s", "S", "S", "6", size=SMALL)
    assert "in helper, called from the update (depth 1)" in text
    assert "x = helper(5)" in text
    assert ">   6  " in text
    assert "line 6" in text.splitlines()[0]


def test_the_four_panels_say_which_line_and_which_call_they_are_about(eight: Path) -> None:
    lines = after(eight, "s", "s", size=LARGE)
    assert lines.count("after line 34:") == 4
    assert lines.count("call 1 as it ended:") == 4  # the second record is call 1 of its layer
    assert re.search(r"\*self\.delta +4 +4 +float32", lines)  # 2 + the call's id
    assert re.search(r"grad +0\.002 +0\.002", lines)
    assert re.search(r"\*self\.delta +no +yes +Add +0", lines)
    assert "e: self.delta" in lines
    assert "of these, a is F, e is B" in lines
    assert "gradient norm" in lines


def test_a_call_whose_lines_were_not_recorded_says_so_and_how_to_get_them(eight: Path) -> None:
    text = after(eight, "n", "n", "6", size=MIDDLE)
    assert "no lines were recorded of this call: `record --lines`" in text.replace("│", " ")
    assert "record --lines" in after(eight, "n", "s", size=LARGE).splitlines()[0]
    assert "record --lines" in after(eight, "n", "n", "P", size=LARGE).splitlines()[0]


def test_a_recording_without_any_lines_can_still_be_stepped(tmp_path: Path) -> None:
    path = record_to(tmp_path / "r.pertdbg", calls(3))

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("s", "s", "s", "P", "left_square_bracket")
        assert (app.cursor, app.line) == (2, None)

    play(path, act)


def test_a_call_that_never_came_to_its_end_is_seen_up_to_its_last_line(tmp_path: Path) -> None:
    path = record_inside(tmp_path / "r.pertdbg", several(2), under_way=4)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("end")
        assert (app.cursor, app.line) == (3, 3)
        await pilot.press("P", "P", "s", "s")
        assert (app.cursor, app.line) == (3, 3)
        await pilot.pause()
        text = shown(app)
        assert "#3 under way, line 34" in text.splitlines()[0]
        assert "the call is under way" in text
        await pilot.press("s", "P", "P")
        assert (app.cursor, app.line) == (2, None)

    play(path, act)


def test_the_state_at_a_line_is_that_of_its_own_function() -> None:
    events = inside(1).events
    assert set(moment(events, 0).tensors) == {"grad"}
    assert set(moment(events, 2).tensors) == {"x"}
    assert moment(events, 2).before["x"].norm == 5.0
    after_call = moment(events, 3)
    assert set(after_call.tensors) == {"grad", "self.delta"}
    assert after_call.names[0] == "self.delta"


def test_storages_have_the_letters_of_their_order_whatever_they_are_called_later() -> None:
    events = inside(1).events
    whole, letters = lettered(events)
    # `grad`, the two of the function, then what the operation was given and what it gave.
    assert letters == {"a": "F", "b": "Q", "c": "R", "d": "D", "e": "B"}
    assert lettered(events[:3])[0] == whole[:3]
    many = [LineEvent(1, "", "f", tensors={"x": tensor(str(k), 1.0)}) for k in range(30)]
    assert list(lettered(many)[1])[-5:] == ["z", "aa", "ab", "ac", "ad"]


def test_a_tensor_that_is_gone_is_no_longer_shown() -> None:
    first = LineEvent(1, "x = 1", "f", tensors={"x": tensor("A", 1.0)}, made=("x",))
    second = LineEvent(2, "del x", "f", gone=("x",))
    assert moment((first, second), 1).tensors == {}


@pytest.mark.parametrize("size", SIZES)
def test_the_graph_opens_where_it_is_asked_to(eight: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("A")
        await pilot.pause()
        text = shown(app)
        assert "3 nodes; a backward fills delta; 1 tensor saved for it, 16.0 KiB" in text
        assert "AddBackward0" in text
        assert "MulBackward0" not in text
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "MulBackward0  saved: self 4x16x64 (16.0 KiB)" in shown(app)
        assert "AccumulateGrad  fills delta.grad" in shown(app)
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    play(eight, act, size)


def test_a_call_without_graphs_says_how_they_are_recorded(eight: Path) -> None:
    assert "no graph was recorded" in after(eight, "n", "n", "A", size=LARGE).splitlines()[0]


def test_a_graph_that_meets_itself_opens_as_far_as_one_goes(tmp_path: Path) -> None:
    nodes = (*GRAPH.nodes[:2], replace(GRAPH.nodes[0], name="Again", inputs=()))
    with_twice = replace(GRAPH, nodes=nodes, complete=False)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        from pertdbg.app.screens.graph import GraphOf

        app.push_screen(GraphOf("a graph", {"delta": with_twice}))
        await pilot.pause()
        assert "at least" in shown(app)
        for _ in range(6):
            await pilot.press("down", "enter")
        await pilot.pause()
        tree = app.screen.query_one(Tree)
        assert sum(1 for line in range(tree.last_line + 1)) >= 4

    play(record_to(tmp_path / "r.pertdbg", calls(1)), act)


def test_nothing_hostile_in_an_event_is_obeyed_and_every_line_fits() -> None:
    facts = tensor(HOSTILE, float("nan"), dtype=HOSTILE, grad_fn=HOSTILE, leaf=None, version=None)
    bad = LineEvent(
        33,
        HOSTILE,
        HOSTILE,
        tensors={HOSTILE: facts, "grad" + HOSTILE: facts},
        made=(HOSTILE,),
        shared=((HOSTILE, "delta"),),
        operations=(
            Operation(HOSTILE, facts, facts, False, True),
            Operation("x", None, None, None, None),
        ),
        raised=HOSTILE,
    )
    deep = replace(bad, depth=1)
    layer = LayerSource("pert", HOSTILE, HOSTILE, 31, f"x = 1\ny = 2\nz = 3 # {HOSTILE}\n")
    for width in (20, 38, 78, 120):
        for events in ((bad,), (bad, deep), (deep,)):
            at = moment(events, len(events) - 1)
            for write in (
                panels.gradient,
                panels.delta,
                panels.leaf,
                panels.storage,
                panels.heading,
            ):
                check_lines(write(at, width), width)
            for layer_or_none in (layer, None):
                check_lines(lines_of(layer_or_none, events, len(events) - 1, 7, width)[0], width)
                check_lines(lines_of(layer_or_none, events, None, 0, width)[0], width)


def test_a_gradient_is_known_by_where_it_lies_and_not_by_its_name() -> None:
    given = replace(tensor("D", 1.0), has_grad=True)
    read = Operation("grad", given, tensor("F", 0.25), same_tensor=False, same_storage=False)
    lines = (
        event(33, operations=(read,)),
        event(34, tensors={"g": tensor("F", 0.25), "step": tensor("G", 2.0)}, made=("g", "step")),
    )
    before, after = (plain(panels.gradient(moment(lines, at), 60)) for at in (0, 1))
    assert before.startswith("line 33 read one, grad: float32[4, 16, 64], norm 0.25")
    assert [line.split()[0] for line in after.splitlines()[1:2]] == ["*g"]
    sizes = plain(panels.delta(moment(lines, 1), 60))
    assert "step" in sizes
    assert "*g" not in sizes
