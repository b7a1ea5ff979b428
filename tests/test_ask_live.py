"""Questions to a stopped target, through the session and its control socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pertdbg.agent.ask import SECONDS
from pertdbg.launch import live_script, live_session
from pertdbg.scenario.library import find
from pertdbg.session import Session, Stopped, TargetEnded
from pertdbg.target import Script

Play = Callable[[Session], Awaitable[None]]


def play(session: Session, act: Play) -> None:
    async def run() -> None:
        await session.start()
        try:
            await asyncio.wait_for(act(session), 300)
        finally:
            await session.close()

    asyncio.run(run())


async def stop(session: Session) -> int | None:
    async for event in session.events():
        if isinstance(event, Stopped):
            return event.id
        if isinstance(event, TargetEnded):
            return None
    raise AssertionError("the session closed")


def sift() -> Session:
    return live_session(find("sift"), steps=None, facts="all", command="pertdbg")


async def one(session: Session, text: str, *, confirmed: bool = True) -> str:
    return (await session.ask(text, confirmed)).line


def test_a_question_sees_the_layer_its_tensors_and_the_caller() -> None:
    async def act(session: Session) -> None:
        await stop(session)
        assert (await session.ask("gradient")).error == "NameError: name 'gradient' is not defined"
        session.next()
        await stop(session)
        assert session.recording is not None
        record = session.recording.record(2)
        norms = await session.ask("[t.norm().item() for t in (delta, gradient)]")
        assert norms.value is not None
        found = [float(item["text"]) for item in norms.value["items"]]
        assert found == pytest.approx([record.delta.norm, record.gradient.norm], rel=1e-5)
        assert await one(session, "delta is self.delta, input is self.input") == (
            "tuple of 2: True, True"
        )
        shape = await session.ask("self.perturbated_input")
        assert shape.value is not None
        assert shape.value["tensor"]["shape"] == list(record.tensors.after.perturbed_input.shape)  # type: ignore[union-attr]
        assert await one(session, "type(caller.self).__name__") == "'Steps'"
        assert await one(session, "torch.is_grad_enabled()") == "False"
        assert "self.input" in await session.complete("1 + self.in")
        assert (await session.ask("delta.norm()")).changed == ()
        # Nothing of it is in the run: no record, no random number, no gradient mode.
        session.go()
        assert await stop(session) is None
        assert session.recording.head == 20

    play(sift(), act)


def test_what_may_change_something_is_confirmed_and_what_changed_is_said() -> None:
    async def act(session: Session) -> None:
        await stop(session)
        session.next()
        await stop(session)
        refused = await session.ask("delta.mul_(2)")
        assert refused.confirm == ("mul_ ends in _, as what writes in place does",)
        assert refused.value is None
        assert refused.line.startswith("not run: mul_ ends in _")
        done = await session.ask("delta.mul_(2)", confirmed=True)
        assert done.changed == ("delta: written in place, version 0 is 1 now",)
        drawn = await session.ask("torch.rand(2)", confirmed=True)
        assert drawn.changed == ("the random state of torch has moved on",)
        bound = await session.ask("y = delta.sum()", confirmed=True)
        assert (bound.line, bound.bound) == ("done", ("y",))
        assert await one(session, "y == delta.sum()") != ""
        assert (await session.ask("self.extra = 1", confirmed=True)).changed == (
            "self.extra is new",
        )
        again = await session.ask("self.update_delta(requires_grad=True)", confirmed=True)
        assert again.error.startswith("AttributeError: ")  # its gradient was taken by the call
        session.next()
        assert await stop(session) == 3  # the update that was asked for made no record
        assert (await session.ask("y")).error == "NameError: name 'y' is not defined"

    play(sift(), act)


def test_whatever_a_question_does_the_target_goes_on_as_it_would() -> None:
    texts = {
        "1 / 0": "ZeroDivisionError: division by zero",
        "raise SystemExit(3)": "SystemExit: 3",
        "raise KeyboardInterrupt": "KeyboardInterrupt: ",
        "exit()": "SystemExit: None",
        "def f(): return f()\nf()": "RecursionError: ",
        "(": "SyntaxError: ",
        "[0 for _ in iter(int, 1)]": f"TimeUp: it took longer than {SECONDS:g} s",
        "raise type('E', (Exception,), {'__str__': lambda s: 1 / 0})": "E: <exception str()",
    }

    async def act(session: Session) -> None:
        assert (await session.ask("1")).error.startswith("the target is not stopped")
        await stop(session)
        for text, said in texts.items():
            assert (await session.ask(text, confirmed=True)).error.startswith(said), text
        large = await session.ask("'a' * 10_000_000")
        assert len(large.line) <= 1000
        several = [session.ask(f"{k} + 1") for k in range(20)]
        assert [a.line for a in await asyncio.gather(*several)] == [str(k + 1) for k in range(20)]
        session.go()
        assert await stop(session) is None
        assert session.ended is not None
        assert session.ended.status == 0
        assert session.recording is not None
        assert session.recording.head == 20
        stderr = session.recording.output("stderr", None).decode()
        assert "Traceback" not in stderr

    play(sift(), act)


LOOP = """
import torch
torch.manual_seed(1)
model = torch.nn.Linear(3, 2)
x = torch.randn(4, 3)
def attack(x, steps, scale):
    secret = 41
    delta = torch.zeros_like(x)
    for number in range(steps):
        delta.requires_grad_(True)
        loss = model(x + delta).pow(2).sum()
        gradient, = torch.autograd.grad(loss, [delta])
        delta = (delta + scale * gradient.sign()).clamp(-0.1, 0.1).detach()
    return delta, secret
result, secret = attack(x, 3, 0.03)
print("secret", secret, float(result.abs().max()))
"""


def test_in_a_loop_a_question_sees_the_functions_locals(tmp_path: Path) -> None:
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    session = live_script(Script.of([str(path)]), adapters=[], facts="all", command="pertdbg")

    async def act(session: Session) -> None:
        await stop(session)
        session.go(3)
        assert await stop(session) == 3
        assert await one(session, "secret + 1") == "42"
        assert await one(session, "(steps, scale, number)") == "tuple of 3: 3, 0.03, 1"
        assert await one(session, "[scale * n for n in (1, 2)]") == "list of 2: 0.03, 0.06"
        assert await one(session, "delta.shape == x.shape and model.weight.shape[0]") == "2"
        assert session.recording is not None
        norm = await session.ask("gradient.norm().item()")
        assert norm.value is not None
        known = session.recording.record(3).gradient.norm
        assert float(norm.value["text"]) == pytest.approx(known, rel=1e-5)
        assert "secret" in await session.complete("sec")
        # A local name is bound for questions, not in the function.
        assert (await session.ask("secret = 7", confirmed=True)).bound == ("secret",)
        session.go()
        assert await stop(session) is None
        assert session.ended is not None
        assert session.ended.status == 0, session.ended
        assert session.stdout_path is not None
        assert session.stdout_path.read_text().startswith("secret 41 ")

    play(session, act)


def test_a_recording_is_not_asked(tmp_path: Path) -> None:
    async def act() -> None:
        session = Session("a recording")
        assert "recording" in (await session.ask("1")).error
        assert await session.complete("1") == []

    asyncio.run(act())
