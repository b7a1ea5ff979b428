"""A live session: a real target process under the host, without a screen."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pertdbg.errors import PertdbgError
from pertdbg.launch import live_session
from pertdbg.recording.reader import Recording
from pertdbg.scenario.library import find
from pertdbg.session import LiveSession, Session, State, Stopped, TargetEnded

Play = Callable[[LiveSession], Awaitable[None]]


def play(what: str | Path, act: Play, steps: int | None = None) -> LiveSession:
    """Run a session on a scenario and close it, whatever happens."""
    path = what if isinstance(what, Path) else find(what)

    async def run() -> LiveSession:
        session = live_session(path, steps=steps, facts="all", command="pertdbg")
        assert isinstance(session, LiveSession)
        await session.start()
        try:
            await asyncio.wait_for(act(session), 300)
        finally:
            await session.close()
        return session

    return asyncio.run(run())


async def stop(session: Session) -> int:
    """Wait for the next stop; gives the call's id."""
    async for event in session.events():
        if isinstance(event, Stopped):
            return event.id
        assert not isinstance(event, TargetEnded), event
    raise AssertionError("the session closed")


async def end(session: Session) -> TargetEnded:
    async for event in session.events():
        if isinstance(event, TargetEnded):
            return event
    raise AssertionError("the session closed")


def group(session: LiveSession) -> int:
    assert session._process is not None
    return session._process.pid


def alive(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_next_runs_one_call_and_the_record_is_there_when_it_stops() -> None:
    async def act(session: LiveSession) -> None:
        for number in range(1, 6):
            assert await stop(session) == number
            assert session.state is State.STOPPED
            assert session.recording is not None
            assert session.recording.head == number
            assert session.recording.record(number).call == number
            session.next()

    play("sift", act)


def test_go_runs_to_a_call_and_then_to_the_end_and_quitting_leaves_nothing_behind() -> None:
    seen: list[int] = []

    async def act(session: LiveSession) -> None:
        await stop(session)
        session.go(7)
        seen.append(await stop(session))
        session.go()
        ended = (await end(session)).ended
        assert ended.status == 0
        assert session.recording is not None
        assert session.recording.head == 20
        seen.append(group(session))

    session = play("sift", act)
    assert seen[0] == 7
    assert not alive(seen[1])
    assert not session._folder.exists()


def test_quitting_while_the_target_is_stopped_or_runs_leaves_no_process_and_no_file() -> None:
    async def while_stopped(session: LiveSession) -> None:
        await stop(session)

    async def while_running(session: LiveSession) -> None:
        await stop(session)
        session.go()

    for act in (while_stopped, while_running):
        session = play("sift", act, steps=100_000)
        assert not alive(group(session))
        assert not session._folder.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_target_leaves_every_record_and_says_how_it_ended(number: int) -> None:
    async def act(session: LiveSession) -> None:
        await stop(session)
        session.go(6)
        assert await stop(session) == 6
        os.kill(group(session), number)
        ended = (await end(session)).ended
        assert ended.signal == signal.Signals(number).name
        assert session.recording is not None
        assert [r.id for r in session.recording] == [1, 2, 3, 4, 5, 6]

    play("sift", act)


def test_an_exception_ends_the_target_as_it_would_end_a_script() -> None:
    async def act(session: LiveSession) -> None:
        await stop(session)
        session.go()
        ended = (await end(session)).ended
        assert ended.status == 1
        assert ended.text.startswith("exit status 1: AttributeError: 'NoneType' object")
        recording = session.recording
        assert recording is not None
        raised = recording.record(recording.head).update.raised
        assert raised is not None
        assert raised.type == "AttributeError"
        stderr = recording.output("stderr", None).decode()
        assert stderr.startswith("Traceback (most recent call last):")
        assert "pertdbg/agent/" not in stderr

    play("no-backward", act)


def scenario(folder: Path, source: str) -> Path:
    """A scenario whose model is Python of the test's own."""
    (folder / "own.py").write_text(source)
    path = folder / "own.toml"
    path.write_text(
        'title = "own"\nabout = "a model of the test"\n[model]\nbuild = "own.py:build"\n'
        '[input]\ndistribution = "normal"\nshape = [2, 4]\n[layer]\n'
        "arguments = { hidden_size = 4 }\n[loop]\ncalls = 5\n"
    )
    return path


MODEL = """
import os, sys, torch
class Model(torch.nn.Sequential):
    passes = 0
    def forward(self, x):
        Model.passes += 1
        print("pass", Model.passes)
        if Model.passes == 4:
            {what}
        return super().forward(x)
def build(layer):
    return Model(layer, torch.nn.Linear(4, 3))
"""


@pytest.mark.parametrize(
    ("what", "status"),
    [("sys.exit(7)", 7), ("sys.exit('no')", 1), ("os._exit(9)", 9), ("raise OSError('x')", 1)],
)
def test_the_exit_status_is_the_scripts_own(tmp_path: Path, what: str, status: int) -> None:
    async def act(session: LiveSession) -> None:
        await stop(session)
        session.go()
        assert (await end(session)).ended.status == status
        assert session.recording is not None
        assert session.recording.head >= 2

    play(scenario(tmp_path, MODEL.format(what=what)), act)


def test_a_model_that_fails_to_build_is_one_line_and_status_2(tmp_path: Path) -> None:
    async def act(session: LiveSession) -> None:
        ended = (await end(session)).ended
        assert ended.could_not_start
        assert ended.status == 2
        assert "ZeroDivisionError" in ended.text
        assert "own.py" in ended.text

    play(scenario(tmp_path, "def build(layer):\n    1 / 0\n"), act)


def test_a_kept_recording_holds_every_call_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "kept.pertdbg"

    async def act(session: LiveSession) -> None:
        await stop(session)
        session.go(3)
        await stop(session)
        session.keep(path)
        session.go(5)
        await stop(session)
        os.kill(group(session), signal.SIGKILL)
        await end(session)

    play("sift", act)
    assert [p.name for p in tmp_path.iterdir()] == ["kept.pertdbg"]
    with Recording.open(path) as recording:
        assert [record.id for record in recording] == [1, 2, 3, 4, 5]


def test_keeping_under_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "taken.pertdbg"
    path.write_text("mine")

    async def act(session: LiveSession) -> None:
        await stop(session)
        with pytest.raises(PertdbgError, match=r"taken\.pertdbg"):
            session.keep(path)

    play("sift", act)
    assert path.read_text() == "mine"


HOST = """
import asyncio, sys
from pertdbg.launch import live_session
from pertdbg.session import Stopped
from pathlib import Path
async def main():
    session = live_session(Path(sys.argv[1]), steps=None, facts="all", command="")
    await session.start()
    print(session._folder, session._process.pid, flush=True)
    async for event in session.events():
        if isinstance(event, Stopped):
            if sys.argv[2] == "running":
                session.go()
            print("stopped", flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize("while_", ["stopped", "running"])
def test_killing_the_app_lets_the_target_go_on_to_its_own_end(tmp_path: Path, while_: str) -> None:
    source = MODEL.format(what="pass").replace("print(", "sys.stdout.write('x' * 100000); print(")
    toml = scenario(tmp_path, source + "\nimport atexit\natexit.register(print, 'its own end')\n")
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(toml), while_],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert host.stdout is not None
    folder, pid = host.stdout.readline().split()
    assert host.stdout.readline() == "stopped\n"
    host.kill()
    host.communicate()
    deadline = time.monotonic() + 120
    while alive(int(pid)):
        assert time.monotonic() < deadline, "the target hangs"
        time.sleep(0.02)
    with Recording.open(Path(folder) / "session.pertdbg") as recording:
        assert recording.head == 5
        assert recording.meta.exit_status == 0
    assert (Path(folder) / "session.stdout").read_text().rstrip().endswith("its own end")
