"""Recordings that another process writes: it begins, goes on, ends, is killed, begins anew."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from textual.pilot import Pilot

from _app import MIDDLE, shown
from _records import healthy
from _wait import soon
from conftest import REPOSITORY
from pertdbg.app import PertdbgApp
from pertdbg.errors import PertdbgError
from pertdbg.ranks import follow
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder
from pertdbg.session import Session, State

WRITER = """
import sys
from pathlib import Path
from _records import healthy
from pertdbg.recording.writer import Recorder
recorder = Recorder(Path(sys.argv[1]), {"title": sys.argv[2]})
head = 0
for line in sys.stdin:
    for head in range(head + 1, head + 1 + int(line)):
        recorder.write(healthy(head))
    print(head, flush=True)
recorder.state(state="ended", exit_status=3, exit_text="ValueError: of the target")
recorder.close()
"""


class Writer:
    """A process that writes a recording, as many calls as it is told."""

    def __init__(self, path: Path, title: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), title],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def write(self, calls: int) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(calls, file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()

    def kill(self) -> int:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()
        return self._process.pid


def watch(path: Path, act: Callable[[Session], Awaitable[None]]) -> None:
    """Follow a file without a screen."""

    async def run() -> None:
        session = follow(path)
        await session.start()
        try:
            await act(session)
        finally:
            await session.close()

    asyncio.run(run())


def head(session: Session) -> int:
    return session.recording.head if session.recording is not None else 0


def has(session: Session, calls: int) -> bool:
    return head(session) == calls


def test_a_file_that_comes_later_is_followed_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"

    async def act(session: Session) -> None:
        assert session.state is State.LOADING
        assert f"waiting for {path}" in session.loading
        writer = Writer(path, "a title")
        writer.write(5)
        await soon(lambda: head(session) == 5)
        assert (session.state, session.title, session.live) == (State.RUNNING, "a title", False)
        for wanted in (7, 9, 11):
            assert writer.write(2) == wanted
            await soon(partial(has, session, wanted))
        writer.end()
        await soon(lambda: session.state is State.ENDED)
        assert session.ended is not None
        assert (session.ended.status, session.ended.text) == (3, "ValueError: of the target")
        assert head(session) == 11

    watch(path, act)


def test_a_writer_that_was_killed_is_missed_and_its_calls_stay(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"

    async def act(session: Session) -> None:
        writer = Writer(path)
        writer.write(7)
        await soon(lambda: head(session) == 7)
        pid = writer.kill()
        await soon(lambda: session.state is State.ENDED)
        assert session.ended is not None
        assert session.ended.text == f"process {pid} is gone and did not close its recording"
        assert session.recording is not None
        assert session.recording.record(7) == healthy(7)

    watch(path, act)


def test_a_recording_begun_anew_under_the_same_name_is_followed_too(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"

    async def act(session: Session) -> None:
        first = Writer(path, "first")
        first.write(9)
        await soon(lambda: head(session) == 9)
        first.end()
        await soon(lambda: session.state is State.ENDED)
        for file in tmp_path.iterdir():
            file.unlink()
        second = Writer(path, "second")
        second.write(2)
        await soon(lambda: session.title == "second" and head(session) == 2)
        await soon(lambda: session.state is State.RUNNING)
        assert session.ended is None
        second.end()
        await soon(lambda: session.state is State.ENDED)

    watch(path, act)


def test_a_recording_moved_over_another_one_replaces_it(tmp_path: Path) -> None:
    path, other = tmp_path / "run.pertdbg", tmp_path / "other"
    for place, calls in ((path, 3), (other, 8)):
        recorder = Recorder(place, {"title": place.name})
        for ident in range(1, calls + 1):
            recorder.write(healthy(ident))
        recorder.close()

    async def act(session: Session) -> None:
        assert head(session) == 3
        other.replace(path)
        await soon(lambda: head(session) == 8)
        assert session.title == "other"

    watch(path, act)


def test_the_newest_recording_of_a_folder_is_followed(tmp_path: Path) -> None:
    async def act(session: Session) -> None:
        assert session.state is State.LOADING
        old = Writer(tmp_path / "z.pertdbg", "old")
        old.write(4)
        await soon(lambda: head(session) == 4)
        old.end()
        new = Writer(tmp_path / "a.pertdbg", "new")
        new.write(1)
        await soon(lambda: session.title == "new" and head(session) == 1)
        new.end()

    watch(tmp_path, act)


STRANGER = """
import os, sys, time
from pathlib import Path
from pertdbg.ranks import follow
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
assert not os.access(sys.argv[1], os.W_OK)
session = follow(Path(sys.argv[1]) / "run.pertdbg")
print(session.recording.head, session.recording._source._copy is not None, flush=True)
sys.stdin.readline()
deadline = time.monotonic() + 120
while session.recording.head < 5 and time.monotonic() < deadline:
    session.poll()
print(session.recording.head, session.recording.record(5).id, session.state.name)
"""


@pytest.mark.parametrize("shared", [True, False], ids=["in its place", "as a copy"])
def test_a_stranger_follows_in_a_folder_that_cannot_be_written(shared: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="pertdbg-test-") as name:
        folder = Path(name)
        writer = Writer(folder / "run.pertdbg")
        writer.write(3)
        if not shared:  # SQLite needs it to read a journal that it does not own
            (folder / "run.pertdbg-shm").chmod(0)
        folder.chmod(0o555)
        before = sorted(file.name for file in folder.iterdir())
        reader = subprocess.Popen(
            [sys.executable, "-c", STRANGER, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout is not None
        assert reader.stdout.readline() == f"3 {not shared}\n"
        writer.write(2)
        assert reader.communicate("\n")[0] == "5 5 RUNNING\n"
        assert sorted(file.name for file in folder.iterdir()) == before
        folder.chmod(0o755)
        writer.end()


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"
    path.write_text("something else")
    with pytest.raises(PertdbgError, match="is not a pertdbg recording"):
        follow(path)


def show(path: Path, act: Callable[[PertdbgApp, Pilot[int]], Awaitable[None]]) -> None:
    """Follow a file in the app."""
    home = {"XDG_CONFIG_HOME": str(path.parent / "config"), "TEXTUAL_ANIMATIONS": "none"}

    async def run() -> None:
        app = PertdbgApp(follow(path))
        async with app.run_test(size=MIDDLE, notifications=True) as pilot:
            await pilot.pause()
            await act(app, pilot)

    with mock.patch.dict(os.environ, home):
        asyncio.run(run())


def test_the_app_waits_keeps_up_stays_where_it_is_put_and_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"

    async def act(app: PertdbgApp, pilot: Pilot[int]) -> None:
        def screen() -> str:
            return shown(app)

        assert "WAITING waiting for" in screen().splitlines()[0]
        writer = Writer(path, "a title")
        writer.write(3)
        await soon(lambda: app.cursor == 3, screen)
        await soon(lambda: "FOLLOWING 3 calls" in screen().splitlines()[0], screen)
        await pilot.press("n")
        assert "followed, not steered" in screen().splitlines()[0]
        await pilot.press("p")
        writer.write(2)
        await soon(lambda: app.store.head == 5, screen)
        assert app.cursor == 2
        await pilot.press("end")
        writer.write(1)
        await soon(lambda: app.cursor == 6, screen)
        writer.end()
        await soon(lambda: "ENDED ValueError: of the target" in screen(), screen)
        for file in tmp_path.glob("run.*"):
            file.unlink()
        writer = Writer(path)
        writer.write(2)
        await soon(lambda: app.cursor == 2 and "call 2 " in screen(), screen)
        await soon(lambda: "2/2" in screen(), screen)
        pid = writer.kill()
        await soon(lambda: f"process {pid} is gone" in screen().splitlines()[0], screen)
        await pilot.press("q")
        await soon(lambda: not app.is_running)

    show(path, act)
    with Recording.open(path) as recording:
        assert recording.head == 2
