"""Targets that run by themselves, and apps that come and go."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from _attach import LOOP, end, head, pertdbg, plain, runtime, started, stop
from _scripts import write
from _terminal import Terminal
from _wait import SECONDS, soon, until
from pertdbg.agent.config import Config
from pertdbg.agent.control import SOCKET
from pertdbg.attach import PointSession
from pertdbg.controlpoint import Point, claim, find, holds, points
from pertdbg.errors import PertdbgError
from pertdbg.launch import attached
from pertdbg.process import began, lives
from pertdbg.session import State
from pertdbg.wire import pack

SLEEP = "import time\ntime.sleep(600)\n"


@pytest.fixture(autouse=True)
def base() -> Iterator[Path]:
    """The folder of this test's control points."""
    with runtime() as folder:
        yield folder / "pertdbg"


def running(name: str) -> Point:
    """Wait for a target that has made a call."""
    until(lambda: any(p.name == name and p.seats for p in points()), f"{name} at its point")
    point = find(name)
    until(lambda: head(Path(point.seats[0].recording)), f"a call of {name}")
    return point


def test_apps_come_and_go_and_the_target_never_knows(tmp_path: Path, base: Path) -> None:
    write(tmp_path, LOOP)
    words = ("record", "--control", "run", "-o", "run.pertdbg", "train.py", "300", "0.01")
    with started(tmp_path, *words) as target:
        running("run")
        with Terminal("attach") as app:
            app.wait_for("RUNNING")
            app.press(" ")
            app.wait_for("STOPPED")
            with Terminal("attach", "run") as second:
                second.wait_for(f"pertdbg: run: process {app.process.pid} is attached already")
                assert second.end() == 2
            assert f"process {app.process.pid} is attached" in pertdbg("attach", "--list").stdout
            stopped_at = head(tmp_path / "run.pertdbg")
            app.press("n")
            until(lambda: head(tmp_path / "run.pertdbg") == stopped_at + 1, "one more call")
            app.press("q")
            app.wait_for("runs on; `pertdbg attach run` opens it again")
            assert app.end() == 0
        until(lambda: head(tmp_path / "run.pertdbg") > stopped_at + 1, "it runs on")
        with Terminal("attach", "run") as killed:
            killed.wait_for("RUNNING")
            killed.press(" ")
            killed.wait_for("STOPPED")
            os.kill(killed.process.pid, signal.SIGKILL)
        with Terminal("attach", "run") as again:
            again.wait_for("exit status 0")
            again.press("q")
            assert again.end() == 0
        out, err = target.communicate(timeout=SECONDS)
    assert target.returncode == 0
    assert out == plain(LOOP, "300", "0")
    assert err.splitlines() == [
        "pertdbg: the app has gone; the target runs on",
        f"pertdbg: 301 calls recorded in {tmp_path / 'run.pertdbg'}",
    ]
    assert list(base.iterdir()) == []


COMMANDS = (
    {"do": "next"},
    {"do": "go"},
    {"do": "go", "until": 1 << 40},
    {"do": "pause"},
    {"do": "look", "what": ["map", "histogram"]},
    {"do": "leave"},
    {"do": "break", "conditions": [1]},
    {"do": "ask", "number": 1, "text": "1 + 1"},
    {"do": ["nothing"], "until": {}},
)


def test_connections_that_break_at_random_moments_leave_the_result_as_it_is(
    tmp_path: Path, whole: bool
) -> None:
    write(tmp_path, LOOP)
    moments, steps = Random(4), "2000" if whole else "500"
    words = ("record", "--control", "run", "-o", "run.pertdbg", "train.py", steps, "0.005")
    with started(tmp_path, *words) as target:
        point = running("run")
        for _ in range(100 if whole else 20):
            visit(point, moments)
        assert target.poll() is None
        out, err = target.communicate(timeout=SECONDS)
    assert target.returncode == 0
    assert out == plain(LOOP, steps, "0")
    assert set(err.splitlines()[:-1]) <= {"pertdbg: the app has gone; the target runs on"}
    assert head(tmp_path / "run.pertdbg") == int(steps) + 1


def connects(end_: socket.socket, path: Path) -> bool:
    """Try to connect; so many who broke off may be waiting that there is no room."""
    end_.setblocking(False)
    try:
        end_.connect(str(path))
    except BlockingIOError:
        return False
    return True


def visit(point: Point, moments: Random) -> None:
    """Connect, say something, perhaps only half of it, and break off."""
    with socket.socket(socket.AF_UNIX) as end_:
        until(lambda: connects(end_, Path(point.seats[0].control) / SOCKET), "a connection")
        end_.settimeout(SECONDS)
        said = pack({"key": point.seats[0].key})
        for command in moments.choices(COMMANDS, k=moments.randrange(4)):
            said += pack(command)
        if moments.random() < 0.3:
            said = said[: moments.randrange(len(said))] + moments.randbytes(moments.randrange(9))
        end_.sendall(said)
        if moments.random() < 0.5:
            time.sleep(moments.random() * 0.05)


def test_with_wait_the_first_call_waits_and_later_apps_see_the_end(tmp_path: Path) -> None:
    write(tmp_path, LOOP + "sys.exit(7)\n")
    words = ("record", "--control", "run", "--wait", "-o", "x.pertdbg", "train.py", "30", "0.02")
    with started(tmp_path, *words) as target:
        running("run")

        async def first() -> list[int]:
            session = attached("run")
            await session.start()
            calls = [await stop(session)]
            session.go(3)
            calls.append(await stop(session))
            await session.close()
            assert session.left.startswith("train.py runs on; `pertdbg attach run`")
            return calls

        async def last() -> int | None:
            session = attached(None)
            await session.start()
            ended = await end(session)
            assert session.state is State.ENDED
            assert session.recording is not None
            assert session.recording.head == 31
            await session.close()
            assert session.left == ""
            return ended.status

        assert asyncio.run(first()) == [1, 3]
        assert asyncio.run(last()) == 7
        assert target.communicate(timeout=SECONDS)[0] == plain(LOOP, "30", "0")
        assert target.returncode == 7


def test_a_killed_target_is_seen_to_be_gone_and_its_point_is_cleaned_up(
    tmp_path: Path, base: Path
) -> None:
    write(tmp_path, LOOP)
    words = ("record", "--control", "run", "-o", "x.pertdbg", "train.py", "20000", "0.01")
    with started(tmp_path, *words) as target:
        point = running("run")

        async def watch() -> str:
            session = attached("run")
            await session.start()
            await soon(lambda: session.state is State.RUNNING)
            target.kill()
            target.wait()
            ended = await end(session)
            assert ended.status is None
            await session.close()
            return ended.text

        text = asyncio.run(watch())
    assert text == f"process {target.pid} is gone and did not close its recording"
    assert point.folder.exists()
    done = pertdbg("attach", "run")
    assert done.returncode == 2
    assert pertdbg("attach", "--list").stdout == ""
    assert list(base.iterdir()) == []


def test_a_scenario_can_be_attached_to_as_well(tmp_path: Path, base: Path) -> None:
    path = str(tmp_path / "sift.pertdbg")
    words = ("record", "sift", "--control", "s", "--wait", "-o", path)
    with started(tmp_path, *words) as target:
        running("s")

        async def visit() -> None:
            session = attached("s")
            await session.start()
            assert await stop(session) == 1
            await session.close()

        asyncio.run(visit())
        assert target.communicate(timeout=SECONDS)[0].splitlines()[-1] == path
    assert list(base.iterdir()) == []


def test_several_are_listed_and_a_name_chooses(tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    none = pertdbg("attach")
    assert none.returncode == 2
    assert none.stderr.startswith("pertdbg: no running target has a control point")
    with (
        started(tmp_path, "record", "-o", "1.pertdbg", "--control", "one", "sleep.py"),
        started(tmp_path, "record", "-o", "2.pertdbg", "--control", "two", "sleep.py"),
    ):
        until(lambda: len([p for p in points() if p.seats]) == 2)
        until(lambda: pertdbg("attach", "--list").stdout.count("starting the script") == 2)
        done = pertdbg("attach")
        assert done.returncode == 2
        assert done.stdout.splitlines() == [
            "one  sleep.py  starting the script",
            "two  sleep.py  starting the script",
        ]
        assert done.stderr == "pertdbg: attach to which one? `pertdbg attach NAME`\n"
        unknown = pertdbg("attach", "three")
        assert unknown.returncode == 2
        taken = pertdbg("record", "--control", "two", str(tmp_path / "sleep.py"))
        assert taken.returncode == 2
        assert taken.stderr.startswith("pertdbg: --control two: process ")
        assert "has this name; choose another" in taken.stderr


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "x" * 41, "a b", "-o"])
def test_names_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(PertdbgError, match=r"^--control .*: a name has letters"):
        claim(name, holds(Config(recording=""), os.getpid()))


def test_a_folder_that_others_can_write_is_not_used(base: Path) -> None:
    base.mkdir()
    base.chmod(0o770)
    (base / "run").mkdir()
    (base / "run" / "point.json").write_text("{}")
    assert points() == []
    assert (base / "run").exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"pid": 1}', "[" * 100_000, "\0", '{"pid": "1", "began": 2}']
)
def test_a_broken_point_is_none(base: Path, text: str) -> None:
    (base / "run" / "rank0").mkdir(parents=True)
    base.chmod(0o700)
    (base / "run" / "point.json").write_text(text)
    (base / "run" / "rank0" / "seat.json").write_text(text)
    assert points() == []


def test_a_process_is_known_by_its_beginning_and_not_by_its_number() -> None:
    own = began(os.getpid())
    assert own
    assert lives(os.getpid(), own)
    assert not lives(os.getpid(), f"1{own}")
    child = os.fork()
    if not child:
        os._exit(0)
    until(lambda: not lives(child, ""), "a zombie counts as gone")
    os.waitpid(child, 0)
    assert not lives(child, "")
    assert not lives(0, "")
    assert not lives(-1, "")


def test_a_target_that_the_app_has_started_can_be_left_running_and_found_again(
    tmp_path: Path,
) -> None:
    write(tmp_path, "print('hello')\n" + LOOP)

    async def come_back() -> int:
        session = attached(None)
        assert isinstance(session, PointSession)
        await session.start()
        await soon(lambda: session.recording is not None and session.recording.head > 5)
        session.pause()
        call = await stop(session)
        assert session.stdout_path is not None
        assert session.stdout_path.read_text() == "hello\n"
        await session.close()
        return call

    with Terminal(str(tmp_path / "train.py"), "20000", "0.01") as app:
        app.wait_for("STOPPED")
        app.press("q")
        app.wait_for("Leave it running (l)")
        app.press("l")
        app.wait_for("train.py runs on; `pertdbg attach train` opens it again")
        assert app.end() == 0
        (point,) = points()
        try:
            assert asyncio.run(come_back()) > 5
        finally:
            os.kill(point.seats[0].pid, signal.SIGKILL)
            until(lambda: not point.seats[0].alive)


def test_a_point_whose_app_lives_can_not_be_taken_by_another_one(tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    with started(tmp_path, "record", "--control", "one", "sleep.py"):
        until(lambda: [p for p in points() if p.seats])
        point = find("one")
        lock = point.lock()
        assert point.attached() == os.getpid()
        with pytest.raises(PertdbgError, match=f"process {os.getpid()} is attached already"):
            attached("one")
        os.close(lock)
        assert point.attached() is None


def test_wait_needs_a_control_point() -> None:
    done = pertdbg("record", "--wait", "sift")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pertdbg: --wait is for --control NAME")
