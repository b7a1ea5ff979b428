"""Conditions in a live target: set before the start, live, by a scenario, and in a recorded run."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from pertdbg.conditions import Condition
from pertdbg.launch import live_script, live_session
from pertdbg.recording.reader import Recording
from pertdbg.scenario.library import find
from pertdbg.session import Session, Stopped, TargetEnded
from pertdbg.target import Script

Play = Callable[[Session], Awaitable[None]]

SCRIPT = """
import torch
from pertdbg import PerturbationLayer
torch.manual_seed(0)
layers = [PerturbationLayer(4), PerturbationLayer(4)]
for number in range(12):
    for layer in layers:
        layer(torch.randn(3, 4))
        layer.adversarial_(True)
        layer.update_delta(requires_grad=True)
        loss = (layer(None) ** 2).sum()
        if number == 7 and layer is layers[1]:
            loss = loss * float("nan")
        loss.backward()
        layer.update_delta(requires_grad=True)
        layer.adversarial_(False)
"""


def play(session: Session, act: Play) -> None:
    """Run a session and close it, whatever happens."""

    async def run() -> None:
        await session.start()
        try:
            await asyncio.wait_for(act(session), 300)
        finally:
            await session.close()

    asyncio.run(run())


async def stop(session: Session) -> Stopped | None:
    """Wait for the next stop; None where the target has ended."""
    async for event in session.events():
        if isinstance(event, Stopped):
            return event
        if isinstance(event, TargetEnded):
            return None
    raise AssertionError("the session closed")


async def stops(session: Session) -> list[tuple[int, tuple[str, ...]]]:
    """Let the target run from stop to stop until its end."""
    found: list[tuple[int, tuple[str, ...]]] = []
    while True:
        session.go()
        at = await stop(session)
        if at is None:
            return found
        found.append((at.id, at.because))


def scenario(stop_when: Sequence[Condition] = (), path: Path | None = None) -> Session:
    return live_session(
        path or find("sift"), steps=None, facts="all", command="pertdbg", stop_when=stop_when
    )


TOML = """
title = "own"
about = "a scenario of the test"
breakpoints = ["call == 3", "update.returned is False; after 1 hit"]
watches = ["delta.norm / delta.bound", "gradient.norm"]
[model]
kind = "perceptron"
width = 4
outputs = 3
[input]
distribution = "normal"
shape = [2, 4]
[loop]
calls = 20
[[fault]]
kind = "nan-gradient"
call = 5
"""


def test_a_target_stops_where_conditions_of_the_scenario_and_the_person_hold(
    tmp_path: Path,
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(TOML)
    given = [Condition.of(line) for line in ("call % 7 == 0", "delta.norm > 0; after 3; skip 9")]
    session = scenario(given, path)
    assert session.watches == ("delta.norm / delta.bound", "gradient.norm")
    texts = ["call == 3", "update.returned is False", *map(str, given)]
    assert [str(one) for one in session.conditions] == texts

    async def act(session: Session) -> None:
        assert await stop(session) == Stopped(1)
        wanted = {
            3: ("call == 3", "delta.norm > 0; after 3 hits; skip 9"),
            5: ("update.returned is False",),
            7: ("call % 7 == 0",),
            13: ("delta.norm > 0; after 3 hits; skip 9",),
            14: ("call % 7 == 0",),
        }
        assert await stops(session) == list(wanted.items())
        assert session.recording is not None
        marks = [(m.id, m.text) for m in session.recording.marks(1, 20) if m.kind == "stopped"]
        assert marks == [(k, "; ".join(texts)) for k, texts in wanted.items()]

    play(session, act)


def test_conditions_are_set_and_taken_away_while_the_target_runs() -> None:
    async def act(session: Session) -> None:
        await stop(session)
        session.stop_when([Condition("call == 4"), Condition("changed(step)", skip=4)])
        session.go()
        assert await stop(session) == Stopped(2, because=("changed(step); skip 4",))
        session.go()
        assert await stop(session) == Stopped(4, because=("call == 4",))
        session.stop_when([Condition("changed(step)", skip=4)])
        session.go()  # it goes on counting
        assert await stop(session) == Stopped(7, because=("changed(step); skip 4",))
        session.stop_when([Condition("call == 9")])
        send = session._send  # type: ignore[attr-defined]
        for bad in (None, 3, [3], [{"text": "__import__('os')"}], ["call == 8"] * 65):
            send({"do": "break", "conditions": bad})
        session.go()
        assert await stop(session) == Stopped(9, because=("call == 9",))
        session.stop_when([])
        session.go(19)
        assert await stop(session) == Stopped(19)
        session.next()
        assert await stop(session) == Stopped(20)
        session.go()
        assert await stop(session) is None

    play(scenario(), act)


def test_a_script_stops_at_a_layer_only_and_at_the_call_that_met_the_fault(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(SCRIPT)
    script = Script.of([str(tmp_path / "two.py")])
    lines = ("nan-gradient", "update.created; after 12 hits; layer PerturbationLayer#2")
    session = live_script(
        script,
        adapters=[],
        facts="core",
        command="pertdbg",
        stop_when=[Condition.of(line) for line in lines],
    )

    async def act(session: Session) -> None:
        await stop(session)
        found = await stops(session)
        assert session.recording is not None
        names = [layer.name for layer in session.recording.layers]
        assert names == ["PerturbationLayer", "PerturbationLayer#2"]
        assert [because for _, because in found] == [(line,) for line in lines]
        nan, last = (session.recording.record(ident) for ident, _ in found)
        assert (nan.layer, nan.batch, nan.gradient.nan) == ("PerturbationLayer#2", 8, 12)
        assert (last.layer, last.batch, last.update.created) == ("PerturbationLayer#2", 12, True)

    play(session, act)


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pertdbg", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)


def marked(path: Path) -> list[tuple[int, str]]:
    with Recording.open(path) as recording:
        marks = recording.marks(1, recording.head)
        return [(mark.id, mark.text) for mark in marks if mark.kind == "stopped"]


def test_a_recorded_run_does_not_stop_and_marks_the_calls(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(TOML)
    done = run("record", "own.toml", "--stop-when", "call % 4 == 0", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = [(k, "call % 4 == 0") for k in range(4, 21, 4)]
    wanted += [(3, "call == 3"), (5, "update.returned is False")]
    assert marked(tmp_path / "own.pertdbg") == sorted(wanted)
    (tmp_path / "two.py").write_text(SCRIPT)
    words = ("record", "--stop-when", "nan-gradient", "--stop-when", "call == 3; rank 0")
    done = run(*words, "two.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [text for _, text in marked(tmp_path / "two.pertdbg")] == [
        *("call == 3; rank 0", "call == 3; rank 0"),
        "nan-gradient",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("record", "sift", "--stop-when", "gradiant > 3"), "there is no field gradiant"),
        (("record", "--stop-when", "call", "two.py"), "it is neither true nor false"),
        (("--stop-when", "nan-gradent", "sift"), "did you mean nan-gradient?"),
    ],
)
def test_a_condition_that_is_none_is_one_line_and_nothing_runs(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "two.py").write_text("open('ran', 'w')")
    done = run(*words, folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("pertdbg: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["two.py"]


AGENT = """
import json, sys
before = set(sys.modules)
from pertdbg.agent.stops import Stops
lazy = [name for name in sys.modules if name.startswith("pertdbg.conditions")]
stops = Stops(["nan-gradient", "changed(delta.norm); skip 2"])
new = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
print(json.dumps([lazy, new]))
"""


def test_in_the_agent_the_language_brings_the_standard_library_only() -> None:
    done = subprocess.run([sys.executable, "-c", AGENT], capture_output=True, text=True)
    lazy, new = json.loads(done.stdout)
    assert lazy == []  # a run without conditions does not even load it
    assert set(new) - set(sys.stdlib_module_names) == {"pertdbg"}
    assert not {"sqlite3", "difflib", "tomllib", "asyncio"} & set(new)
