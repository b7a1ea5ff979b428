"""Stopping inside a call of a live target, line by line, over and into what it calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from pertdbg.launch import live_script, live_session
from pertdbg.scenario.library import find
from pertdbg.session import Session, Stopped, TargetEnded
from pertdbg.target import Script

Play = Callable[[Session], Awaitable[None]]

SCRIPT = """
import torch
from pertdbg import PerturbationLayer

def scaled(tensor):
    smaller = tensor * 0.5
    return smaller.detach()

class Mine(PerturbationLayer):
    def update_delta(self, requires_grad=False):
        if self.delta is None:
            self.delta = torch.ones_like(self.input)
        half = scaled(self.delta)
        self.delta = half.requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.delta
        return True

torch.manual_seed(0)
layer = Mine(4)
layer(torch.randn(2, 4))
layer.adversarial_()
for _ in range(4):
    layer(torch.randn(2, 4)).sum().backward()
    layer.update_delta(requires_grad=True)
"""


def play(session: Session, act: Play) -> None:
    async def run() -> None:
        await session.start()
        try:
            await asyncio.wait_for(act(session), 300)
        finally:
            await session.close()

    asyncio.run(run())


async def stop(session: Session) -> tuple[int, int | None]:
    """Wait for the next stop; gives the call's id, and the event's place inside it."""
    async for event in session.events():
        if isinstance(event, Stopped):
            return event.id, event.line
        assert not isinstance(event, TargetEnded), event
    raise AssertionError("the session closed")


def scenario() -> Session:
    return live_session(find("sift"), steps=6, facts="all", command="pertdbg")


def script(tmp_path: Path) -> Session:
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT)
    return live_script(Script.of([str(path)], None), adapters=(), facts="all", command="pertdbg")


def test_each_line_of_a_call_is_stopped_at_and_then_its_end() -> None:
    async def act(session: Session) -> None:
        assert await stop(session) == (1, None)
        assert session.recording is not None
        assert len(session.recording.events(1)) > 5  # recorded, since the target was to stop there
        sources = []
        for place in range(100):
            session.line()
            found = await stop(session)
            if found == (2, None):
                break
            assert found == (2, place)
            assert session.recording.head == 1
            events = session.recording.events(2)
            assert len(events) == place + 1
            sources.append(events[-1].source)
        assert session.recording.head == 2
        whole = session.recording.events(2)
        assert [event.source for event in whole[:-1]] == sources
        assert whole[-1].source == "return True"
        assert "with torch.no_grad():" in sources
        # The labels are those of the record, once there is one.
        left = session.recording.record(2).tensors.after.delta
        assert left is not None
        named = [event.tensors["self.delta"] for event in whole if "self.delta" in event.tensors]
        assert named[-1].storage == left.storage

    play(scenario(), act)


def test_from_inside_a_call_one_goes_to_its_end_or_on_to_a_later_one() -> None:
    async def act(session: Session) -> None:
        assert await stop(session) == (1, None)
        session.line()
        assert await stop(session) == (2, 0)
        session.next()
        assert await stop(session) == (2, None)
        session.line()
        assert await stop(session) == (3, 0)
        session.go(5)
        assert await stop(session) == (5, None)
        assert session.recording is not None
        assert session.recording.events(4) == ()  # nobody was to stop there
        assert session.recording.events(5)

    play(scenario(), act)


def test_a_function_is_gone_over_or_into(tmp_path: Path) -> None:
    async def act(session: Session) -> None:
        assert await stop(session) == (1, None)
        assert session.recording is not None
        seen = []
        for into in (False, False, True, False, False, False):
            session.line(into=into)
            call, place = await stop(session)
            event = session.recording.events(call)[-1]
            assert place in (None, len(session.recording.events(call)) - 1)
            seen.append((event.depth, event.source))
        assert seen == [
            (0, "if self.delta is None:"),
            (0, "half = scaled(self.delta)"),
            (0, "self.delta = half.requires_grad_(requires_grad)"),
            (0, "self.perturbated_input = self.input.detach() + self.delta"),
            (0, "return True"),
            (0, "if self.delta is None:"),
        ]

    async def into(session: Session) -> None:
        assert await stop(session) == (1, None)
        assert session.recording is not None
        seen = []
        for _ in range(4):
            session.line(into=True)
            call, _ = await stop(session)
            event = session.recording.events(call)[-1]
            seen.append((event.depth, event.function, event.source))
        assert seen == [
            (0, "Mine.update_delta", "if self.delta is None:"),
            (1, "scaled", "smaller = tensor * 0.5"),
            (1, "scaled", "return smaller.detach()"),
            (0, "Mine.update_delta", "half = scaled(self.delta)"),
        ]
        inner = session.recording.events(2)[1]
        assert [each.op for each in inner.operations] == ["mul"]

    play(script(tmp_path), act)
    play(script(tmp_path), into)


def test_a_target_that_is_stopped_inside_a_call_runs_on_when_it_is_let_go() -> None:
    async def act(session: Session) -> None:
        assert await stop(session) == (1, None)
        session.line()
        assert await stop(session) == (2, 0)
        session.go()
        async for event in session.events():
            if isinstance(event, TargetEnded):
                assert event.ended.status == 0
                break
        assert session.recording is not None
        assert session.recording.head == 6

    play(scenario(), act)
