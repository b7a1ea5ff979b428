"""A stopped target stores its tensors when their values are asked for: through the session."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
import torch

from _records import healthy
from _scripts import LAYER, pertdbg
from pertdbg.agent.config import Config
from pertdbg.agent.paused import Paused
from pertdbg.agent.run import Run
from pertdbg.answer import Stored
from pertdbg.event import LineEvent
from pertdbg.launch import live_script
from pertdbg.output.diff import compared
from pertdbg.recording.events import Inside
from pertdbg.recording.reader import Recording
from pertdbg.recording.verify import verify
from pertdbg.recording.writer import Recorder
from pertdbg.session import Session, Stopped
from pertdbg.target import Script
from test_ask_live import play, stop

SCRIPT = (
    LAYER
    + """
class Turning(Layer):
    def update_delta(self, requires_grad=False):
        turned = (self.input + torch.arange(4.0)).t()
        return super().update_delta(requires_grad)

train(Layer())
train(Turning(), 1)
"""
)
"""Calls 1 to 4 are the first layer's, 5 and 6 the other's."""


def target(folder: Path) -> Session:
    path = folder / "train.py"
    path.write_text(SCRIPT)
    return live_script(Script.of([str(path)]), adapters=[], facts="all", command="pertdbg")


async def to_line(session: Session, text: str) -> None:
    """Go on inside the call until a line has run."""
    while True:
        session.line()
        async for event in session.events():
            if isinstance(event, Stopped):
                break
        assert session.recording is not None
        events = session.recording.events(session.recording.head + 1)
        if events and text in events[-1].source:
            return


def values(session: Session, number: int, role: str) -> list[float]:
    assert session.recording is not None
    tensor = session.recording.tensor(number, role)
    assert tensor is not None, [each.role for each in session.recording.tensors(number)]
    return [float(value) for value in tensor.values()]  # type: ignore[arg-type]


def test_what_a_stopped_target_stores_is_there_and_changes_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "kept.pertdbg"

    async def act(session: Session) -> None:
        assert (await session.store()).why == "the target is not stopped; stop it first"
        await stop(session)
        session.next()
        assert await stop(session) == 2
        found = await session.store()
        assert (sorted(found.roles), found.why) == (
            ["delta", "gradient", "input", "perturbed_input"],
            "",
        )
        # delta began at 0.01 and moved by 0.001; the loss is the sum of (1 + delta) squared.
        for role, value in {"delta": 0.011, "gradient": 2.02, "perturbed_input": 1.011}.items():
            assert values(session, 2, role) == pytest.approx([value] * 8, rel=1e-6)
        assert values(session, 2, "input") == [1.0] * 8
        assert await session.store() == found
        assert (await session.store(answer=True)).why == "the last answer is no tensor"
        await session.ask("delta * torch.arange(4)", confirmed=True)
        (role,) = (await session.store(answer=True)).roles
        assert role == "= delta * torch.arange(4)"
        assert values(session, 2, role) == pytest.approx([0, 0.011, 0.022, 0.033] * 2, rel=1e-6)
        await session.ask("delta * torch.arange(4)", confirmed=True)
        assert (await session.store(answer=True)).roles == (f"{role} (2)",)
        await session.ask("3", confirmed=True)
        assert (await session.store(answer=True)) == Stored(why="the last answer is no tensor")
        session.go(4)
        assert await stop(session) == 4
        await to_line(session, "turned = ")
        found = await session.store()
        assert session.recording is not None
        line = session.recording.events(5)[-1].line
        assert f"turned after line {line}" in found.roles
        assert f"self.input after line {line}" in found.roles
        turned = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
        assert values(session, 5, f"turned after line {line}") == turned
        assert session.recording.head == 4
        session.go()
        assert await stop(session) is None
        assert values(session, 5, f"turned after line {line}") == turned
        session.keep(kept)

    play(target(tmp_path), act)
    assert verify(kept).sound
    plain = tmp_path / "plain.pertdbg"
    done = pertdbg("record", "-o", plain, tmp_path / "train.py")
    assert done.returncode == 0, done.stderr
    found, same = compared(plain, kept, None)
    assert same, found


def test_tensors_stored_inside_a_call_are_never_shown_as_those_of_another(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"
    run = Run(Config(str(path)))
    run.record(healthy(1), None)
    event, same_line = (LineEvent(7, "delta = new()", "update") for _ in range(2))

    def paused() -> Paused:
        found = Paused({"delta": torch.ones(3)})
        found.place = " after line 7"
        return found

    assert run._answers(2, paused(), event)({"do": "store", "number": 1}) == {
        "now": "stored",
        "number": 1,
        "roles": ["delta after line 7"],
        "why": "",
    }
    with Recording.open(path) as recording:
        assert [tensor.values() for tensor in recording.tensors(2)] == [[1.0] * 3]
        run.record(healthy(2), None, inside=(Inside((same_line,)), {}))  # another thread's
        assert recording.tensors(2) == ()
        assert run._answers(3, paused(), event)({"do": "store", "number": 2})["why"] == ""
        run.record(healthy(3), None, inside=(Inside((same_line, event)), {}))
        assert [tensor.role for tensor in recording.tensors(3)] == ["delta after line 7"]
    run.end(0, "")


def test_what_was_stored_of_a_call_that_never_ended_is_read_after_a_kill(tmp_path: Path) -> None:
    path, killed = tmp_path / "run.pertdbg", tmp_path / "killed.pertdbg"
    recorder = Recorder(path, {})
    recorder.write(healthy(1))
    role, data = "delta after line 7", bytes([0, 0, 128, 63])  # 1.0 as float32
    assert recorder.tensor(2, role, "float32", (1,), data, under_way=True)
    for name in ("run.pertdbg", "run.pertdbg-wal"):
        shutil.copy(tmp_path / name, tmp_path / name.replace("run", "killed"))
    recorder.close()
    assert verify(killed).sound
    with Recording.open(killed) as recording:
        assert recording.head == 1
        (tensor,) = recording.tensors(2)
        assert (tensor.role, tensor.values()) == (role, [1.0])


def test_without_room_it_says_so(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.pertdbg", {}, budget=1000)
    recorder.write(healthy(1))
    assert recorder.tensor(1, "delta", "uint8", (100,), bytes(100))
    assert not recorder.tensor(1, "input", "uint8", (1000,), bytes(1000))
    assert recorder.stored_roles(1) == {"delta"}
    recorder.close()


def test_a_recording_stores_nothing() -> None:
    found = asyncio.run(Session("a recording").store())
    assert (found.roles, found.why.endswith("this is a recording")) == ((), True)
