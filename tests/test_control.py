"""The control socket, by a target process of its own that makes calls without torch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pertdbg.agent.control import SOCKET
from pertdbg.wire import LIMIT, BadFrame, Frame, Unpacker, pack

TARGET = """
import sys
from pathlib import Path
from pertdbg.agent.control import Control
control = Control(Path(sys.argv[1]), "the key", int(sys.argv[3]))
for call in range(1, int(sys.argv[2]) + 1):
    print(call, flush=True)
    control.at_call(call)
control.done(0, "")
print("done", sorted(control.looking), flush=True)
"""


class App:
    """The app's end of the socket, reduced to what a test needs."""

    def __init__(self, folder: Path, key: str = "the key") -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        deadline = time.monotonic() + 120
        while True:
            try:
                self.socket.connect(str(folder / SOCKET))
                break
            except OSError:
                assert time.monotonic() < deadline, "the agent never listened"
                time.sleep(0.01)
        self.unpacker = Unpacker()
        self.frames: list[Frame] = []
        self.send({"key": key})

    def send(self, frame: Frame) -> None:
        self.socket.sendall(pack(frame))

    def receive(self) -> Frame | None:
        while not self.frames:
            data = self.socket.recv(4096)
            if not data:
                return None
            self.frames += self.unpacker.feed(data)
        return self.frames.pop(0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


class Target:
    def __init__(self, folder: Path, calls: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", TARGET, str(folder), str(calls), str(os.getpid())],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[str, str]:
        return self.process.communicate(timeout=300)


Connect = Callable[..., App]
Start = Callable[[int], Target]


@pytest.fixture
def connect(folder: Path) -> Iterator[Connect]:
    apps: list[App] = []

    def app(key: str = "the key") -> App:
        apps.append(App(folder, key))
        return apps[-1]

    yield app
    for each in apps:
        each.socket.close()


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    started: list[Target] = []

    def target(calls: int) -> Target:
        started.append(Target(folder, calls))
        return started[-1]

    yield target
    for each in started:
        each.process.kill()
        each.process.communicate()


def test_the_target_stops_at_each_call_that_it_is_told_to(start: Start, connect: Connect) -> None:
    target, app = start(5), connect()
    assert app.receive() == {"now": "stopped", "id": 1}
    app.send({"do": "next"})
    assert app.receive() == {"now": "running"}
    assert app.receive() == {"now": "stopped", "id": 2}
    app.send({"do": "go", "until": 4})
    assert app.receive() == {"now": "running"}
    assert app.receive() == {"now": "stopped", "id": 4}
    app.send({"do": "go"})
    assert app.receive() == {"now": "running"}
    assert app.receive() == {"now": "done", "status": 0, "text": ""}
    assert app.receive() is None
    assert target.end()[0].split() == ["1", "2", "3", "4", "5", "done", "[]"]


def test_pausing_a_free_target_stops_it_at_the_end_of_a_call(
    start: Start, connect: Connect
) -> None:
    start(10_000_000)
    app = connect()
    app.receive()
    app.send({"do": "go"})
    assert app.receive() == {"now": "running"}
    app.send({"do": "pause"})
    stopped = app.receive()
    assert stopped is not None
    assert stopped["now"] == "stopped"
    assert 1 < stopped["id"] < 10_000_000


def test_an_app_that_dies_while_the_target_is_stopped_lets_it_run_on(
    start: Start, connect: Connect
) -> None:
    target, app = start(5), connect()
    app.receive()
    app.socket.close()
    out, err = target.end()
    assert out.split()[:5] == ["1", "2", "3", "4", "5"]
    assert err == "pertdbg: the app has gone; the target runs on\n"
    assert target.process.returncode == 0


def test_an_app_that_dies_before_it_connects_lets_the_target_run_on(folder: Path) -> None:
    script = f"""
import os, subprocess, sys
arguments = [{str(folder)!r}, "3", str(os.getpid())]
subprocess.Popen([sys.executable, "-c", {TARGET!r}, *arguments], start_new_session=True)
"""
    app = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert app.stdout.split() == ["1", "2", "3", "done", "[]"]


def test_a_stranger_without_the_key_can_not_command_and_the_app_still_can(
    start: Start, connect: Connect
) -> None:
    start(3)
    stranger = connect("a guess")
    with suppress(ConnectionError):  # it may have been sent away by now
        stranger.send({"do": "go"})
        assert stranger.receive() is None
    app = connect()
    assert app.receive() == {"now": "stopped", "id": 1}


def test_another_app_can_connect_after_one_has_gone(start: Start, connect: Connect) -> None:
    start(10_000_000)
    first = connect()
    first.receive()
    first.socket.close()
    second = connect()
    second.send({"do": "pause"})
    assert second.receive() == {"now": "running"}
    stopped = second.receive()
    assert stopped is not None
    assert stopped["now"] == "stopped"


def test_ctrl_c_interrupts_a_stopped_target(start: Start, connect: Connect) -> None:
    target, app = start(5), connect()
    assert app.receive() == {"now": "stopped", "id": 1}
    os.kill(target.process.pid, signal.SIGINT)
    _, err = target.end()
    assert target.process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_what_is_looked_at_is_known_to_the_target(start: Start, connect: Connect) -> None:
    target, app = start(1), connect()
    app.receive()
    app.send({"do": "look", "what": ["map", "histogram"]})
    app.send({"do": "go"})
    assert target.end()[0].split("\n")[1] == "done ['histogram', 'map']"


def test_frames_arrive_whole_in_whatever_pieces_they_come() -> None:
    frames: list[Frame] = [{"n": i, "text": "\N{GREEK SMALL LETTER DELTA}" * i} for i in range(9)]
    stream = b"".join(pack(frame) for frame in frames)
    for size in (1, 2, 3, 7, 64, len(stream)):
        unpacker = Unpacker()
        pieces = (stream[i : i + size] for i in range(0, len(stream), size))
        assert [f for piece in pieces for f in unpacker.feed(piece)] == frames


@pytest.mark.parametrize(
    "stream",
    [(LIMIT + 1).to_bytes(4, "big"), (2).to_bytes(4, "big") + b"[]", (1).to_bytes(4, "big") + b"{"],
    ids=["too long", "no object", "no JSON"],
)
def test_what_is_no_frame_is_refused(stream: bytes) -> None:
    with pytest.raises(BadFrame):
        Unpacker().feed(stream)
