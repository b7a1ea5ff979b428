"""Stop when, where it holds, only some calls, and finding a text: questions over many calls."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from _app import HOSTILE, MIDDLE, SIZES, SMALL, after, calls, play, record_to, shown
from _inside import record_inside, several
from _records import healthy
from pertdbg.app import PertdbgApp
from pertdbg.app.stops import proposed
from pertdbg.conditions import Condition
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording


def typed(text: str) -> list[str]:
    """The keys that write a text."""
    names = {" ": "space", ".": "full_stop", ",": "comma", ":": "colon", "(": "left_parenthesis",
             ")": "right_parenthesis", ">": "greater_than_sign", "<": "less_than_sign",
             "=": "equals_sign", "%": "percent_sign", "_": "underscore", "/": "slash",
             "[": "left_square_bracket", "]": "right_square_bracket", ";": "semicolon",
             "-": "minus", "#": "number_sign"}  # fmt: skip
    return [names.get(character, character) for character in text]


async def settled(app: PertdbgApp, pilot: Pilot[int]) -> None:
    """Wait until no search goes on."""
    while True:
        going = [w for w in app.workers if w.group in ("seek", "only", "find")]
        if not going:
            break
        await app.workers.wait_for_complete(going)
    await pilot.pause()


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calls of two layers in turn; the gradient's norm is the call's number in thousandths."""
    records = []
    for record in several(20):
        norm = record.id / 1000
        gradient = replace(record.gradient, norm=norm, present=True, reason=None, nan=0)
        records.append(replace(record, gradient=gradient))
    return record_inside(tmp_path_factory.mktemp("twenty") / "run.pertdbg", records)


@pytest.mark.parametrize("size", SIZES)
def test_a_condition_that_is_typed_is_checked_as_one_types_and_leads_to_where_it_holds(
    twenty: Path, size: tuple[int, int]
) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("b", "ctrl+u", *typed("gradient.nrm > 0.01"))
        await pilot.pause()
        assert "did you mean gradient.norm" in str(app.screen.query_one("#said", Static).render())
        assert "`gradient.nrm > 0.01`, column 1" in shown(app)
        await pilot.press("enter")
        assert len(app.screen_stack) == 2, "what is wrong is not taken"
        await pilot.press("ctrl+u", *typed("gradient.norm > 0.0105"))
        await pilot.pause()
        assert "not at this call" in shown(app)
        await pilot.press("enter")
        await settled(app, pilot)
        assert app.cursor == 11
        await pilot.press("full_stop")
        await settled(app, pilot)
        assert app.cursor == 12
        await pilot.press("comma", "comma")
        await settled(app, pilot)
        assert "no call before this one" in shown(app).splitlines()[0] or app.cursor == 11

    play(twenty, act, size)


def test_first_next_and_previous_of_a_condition_in_the_list(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        app.stops.set(Condition("id % 7 == 0"))
        for key, call in (("f", 7), ("full_stop", 14), ("comma", 7), ("f", 7)):
            await pilot.press("b", "down", key)
            await settled(app, pilot)
            assert (key, app.cursor) == (key, call)

    play(twenty, act)


def test_a_condition_is_switched_off_and_on_and_removed(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        app.stops.set(Condition("id % 7 == 0"))
        await pilot.press("b")
        await pilot.pause()
        assert "[x] id % 7 == 0" in shown(app)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "[ ] id % 7 == 0" in shown(app)
        await pilot.press("escape", "full_stop")
        await settled(app, pilot)
        assert "no condition is set: b sets one" in shown(app).splitlines()[0]
        assert not app.session.conditions
        await pilot.press("b", "down", "enter", "escape")
        await pilot.pause()
        assert list(app.session.conditions) == [Condition("id % 7 == 0")]
        await pilot.press("b", "down", "x", "escape")
        await pilot.pause()
        assert app.stops.all == []
        assert not app.session.conditions

    play(twenty, act)


def test_a_named_condition_is_chosen_from_the_list(tmp_path: Path) -> None:
    bad = replace(healthy(4), gradient=replace(healthy(4).gradient, nan=3))
    path = record_to(tmp_path / "r.pertdbg", [*calls(3), bad, *calls(6)[4:]])

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("b", *["down"] * 4)
        await pilot.pause()
        await pilot.press("enter")
        await settled(app, pilot)
        assert app.stops.all[0].condition == Condition("nan-gradient")
        assert app.cursor == 4

    play(path, act)


PROPOSED = {
    "gradient": "gradient.norm > ",
    "delta": "delta.max_abs > 0.0209",
    "leaf": "not tensors.after.delta.is_leaf",
    "storage": "shares(input, perturbed_input)",
    "source": "gradient.norm > ",
}


@pytest.mark.parametrize("panel", PROPOSED)
def test_each_panel_proposes_a_condition_on_what_it_shows(panel: str) -> None:
    record = replace(healthy(2), delta=replace(healthy(2).delta, max_abs=0.0209))
    text = proposed(panel, record)
    assert text.startswith(PROPOSED[panel])
    assert not Condition(text).holds(record), "it is to stop where more happens than here"


def test_a_proposal_never_holds_where_it_is_made() -> None:
    for value in (1e-12, 0.0021, 0.00827449, 0.9999999, 12345.678, 3.0, 1e30, 0.0):
        record = replace(healthy(2), gradient=replace(healthy(2).gradient, norm=value))
        assert not Condition(proposed("gradient", record)).holds(record), value


def test_only_the_calls_of_a_layer_are_walked_through_and_drawn(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("o", "down", "down", "down", "enter")
        await settled(app, pilot)
        assert "only call > 0; layer encoder.pert: 10" in shown(app)
        seen = []
        for _ in range(4):
            await pilot.press("n")
            record = app.view.record
            assert record is not None
            seen.append((record.layer, app.cursor))
        assert seen == [("encoder.pert", ident) for ident in (3, 5, 7, 9)]
        await pilot.press("p")
        assert app.cursor == 7
        line = shown(app).splitlines()[-3]
        await pilot.press("o", "down", "enter")
        await settled(app, pilot)
        whole = shown(app).splitlines()[-3]
        assert line.count("─") < whole.count("─")
        await pilot.press("n")
        assert app.cursor == 8

    play(twenty, act, MIDDLE)


def test_the_calls_are_collapsed_to_the_last_of_each_training_step(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("o", "down", "down", "enter")
        await settled(app, pilot)
        seen = []
        for _ in range(4):
            await pilot.press("n")
            seen.append(app.cursor)
        # Three calls of two layers make a step.
        assert seen == [6, 12, 18, 20]
        await pilot.press("p", "p")
        assert app.cursor == 12

    play(twenty, act, MIDDLE)


def test_only_the_calls_of_a_condition(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("o", *typed("gradient.norm > 0.0175"), "enter")
        await settled(app, pilot)
        await pilot.press("n", "n", "n")
        assert app.cursor == 20
        await pilot.press("p", "p", "p")
        assert app.cursor == 18
        assert "no other call before this one" in shown(app).splitlines()[0]

    play(twenty, act, MIDDLE)


def test_the_layer_is_switched_and_steps_are_gone_over(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        async def press(*keys: str) -> CallRecord:
            for key in keys:
                await pilot.press(key)
                await settled(app, pilot)
            record = app.view.record
            assert record is not None
            return record

        first = await press("L")
        assert (first.layer, first.call) == ("head.pert", 1)
        again = await press("L")
        assert (again.layer, again.call) == ("encoder.pert", 1)
        second = await press("u")
        assert (second.batch, second.step, second.layer) == (2, 0, "encoder.pert")
        inside_it = await press("n", "n", "U")
        assert (inside_it.batch, inside_it.step) == (2, 0)
        assert (await press("U")).batch == 1
        await press("U")
        assert "first training step" in shown(app).splitlines()[0]

    play(twenty, act)


@pytest.mark.parametrize("size", SIZES)
def test_a_text_is_found_in_the_source_and_leads_there(twenty: Path, size: tuple[int, int]) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("slash", *typed("no clamp"))
        await settled(app, pilot)
        assert "source" in shown(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.is_seen("source")
        assert app.line == 3, "the line was run in this call"

    play(twenty, act, size)


def test_a_text_is_found_in_the_output_at_the_call_before_whose_end_it_was_printed(
    tmp_path: Path,
) -> None:
    printed = {ident: f"loss of {ident} is fine\n".encode() for ident in range(1, 9)}
    printed[6] = b"loss ex" + b"ploded\nand more\n"
    path = record_to(tmp_path / "r.pertdbg", calls(8), printed=printed)

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press(
            "slash",
            *typed("exploded"),
        )
        await settled(app, pilot)
        assert "1 place" in shown(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.cursor == 6
        assert app.main.is_seen("output")
        await pilot.press("slash", *typed("nowhere at all"))
        await settled(app, pilot)
        assert "nothing found" in shown(app)

    play(path, act, MIDDLE)


def test_a_layer_and_a_finding_are_found(tmp_path: Path) -> None:
    bad = replace(healthy(4), gradient=replace(healthy(4).gradient, nan=3))
    path = record_to(tmp_path / "r.pertdbg", [*calls(3), bad, *calls(6)[4:]])

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("end", "slash", *typed("encoder"))
        await settled(app, pilot)
        assert "layer" in shown(app)
        await pilot.press("enter")
        await pilot.pause()
        assert app.cursor == 1
        await pilot.press("slash", *typed("nan"))
        await settled(app, pilot)
        assert "finding" in shown(app), shown(app)

    play(path, act, MIDDLE)


def test_a_value_leads_to_the_first_and_the_next_call_where_it_changed(tmp_path: Path) -> None:
    def with_bound(record: CallRecord) -> CallRecord:
        bound = 0.02 if record.id < 4 else 0.03 if record.id < 7 else 0.04
        return replace(record, delta=replace(record.delta, bound=bound))

    path = record_to(tmp_path / "r.pertdbg", map(with_bound, calls(9)))

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        for place, call in ((0, 4), (0, 7), (1, 4)):
            await pilot.press("slash", *typed("delta.bound"))
            await settled(app, pilot)
            assert "delta.bound = 0.0" in shown(app)
            await pilot.press(*["down"] * (place + 1), "enter")
            await settled(app, pilot)
            assert app.cursor == call

    play(path, act, MIDDLE)


def test_a_long_search_is_ended_by_escape_and_keys_are_heard_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pertdbg.conditions.searching.SLICE", 0.0)
    monkeypatch.setattr("pertdbg.app.walker._BREATH", 0.0)
    path = record_to(tmp_path / "r.pertdbg", calls(400))

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        from pertdbg.app.seek import Looking

        def endless() -> Looking:
            while True:
                yield None

        app.seek(endless(), "nothing")
        await pilot.press("n", "n")
        assert app.cursor == 3
        while "escape ends it" not in shown(app).splitlines()[0]:
            await pilot.pause(0.01)
        await pilot.press("escape")
        await asyncio.sleep(0)
        assert not any(worker.group == "seek" and worker.is_running for worker in app.workers)
        await pilot.press("n")
        assert app.cursor == 4

    play(path, act)


def test_right_completes_the_name_of_a_field(twenty: Path) -> None:
    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        await pilot.press("b", "ctrl+u", *typed("gradient.nor"))
        await pilot.pause(0.1)
        await pilot.press("right")
        assert app.screen.query_one(Input).value == "gradient.norm"

    play(twenty, act)


def test_no_hostile_text_is_obeyed_in_the_dialogs(tmp_path: Path) -> None:
    from pertdbg.recording.parts import LayerSource

    records = [replace(record, layer=HOSTILE) for record in calls(3)]
    layer = LayerSource(HOSTILE, HOSTILE, HOSTILE, 1, f"x = 1  # {HOSTILE}")
    path = record_to(tmp_path / "r.pertdbg", records, layers=[layer], printed={1: HOSTILE.encode()})
    for keys in (["slash", *typed("x")], ["o"], ["b", "ctrl+u", *typed(HOSTILE[:9])], ["A"]):
        text = after(path, *keys, size=SMALL)
        assert not any(character in text for character in "\x1b\x07\x9b\u202e\r")


def test_the_recording_is_only_read(twenty: Path) -> None:
    with Recording.open(twenty) as recording:
        assert [ident for ident, _ in recording.printed("stdout")] == []
