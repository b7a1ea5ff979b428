"""Scripts that run in many ranks: launched, stepped, killed, left, and collected."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from _attach import pertdbg, plain, runtime, started, stop
from _scripts import LAYER, write
from _terminal import Terminal
from _wait import SECONDS, soon, until
from pertdbg.controlpoint import points
from pertdbg.launch import attached, live_ranks
from pertdbg.liveranks import LaunchedRanks, LiveRanks, Others
from pertdbg.process import lives
from pertdbg.ranklaunch import folder_for
from pertdbg.ranks import RankSession, open_ranks
from pertdbg.recording.reader import Recording
from pertdbg.session import State
from pertdbg.target import Script

STEP = """
import hashlib, sys, time
ranks, weight = RANKS, torch.ones(4)
layers = {rank: Layer() for rank in ranks}
for step in range(int(sys.argv[1])):
    shared = torch.zeros(4)
    for rank, layer in layers.items():
        (layer(torch.ones(2, 4) * (1 + rank)) * weight).square().sum().backward()
        shared = shared + layer.delta.grad.sum(0)
        layer.update_delta(True)
    REDUCE
    weight = weight - 1e-3 * shared
for rank in ranks:
    digest = hashlib.sha256(weight.numpy().tobytes()).hexdigest()
    # In one piece: the ranks share one pipe, and `print` writes each of its arguments alone.
    sys.stdout.write(f"{rank} {digest}\\n")
    sys.stdout.flush()
"""

TRAIN = f"""{LAYER}
import torch.distributed as dist
dist.init_process_group("gloo")
{STEP.replace("RANKS", "[dist.get_rank()]").replace("REDUCE", "dist.all_reduce(shared)")}
dist.destroy_process_group()
sys.exit(int(sys.argv[2]))
"""
"""Two ranks whose weights depend on the gradients of both in each step."""

ALONE = LAYER + STEP.replace("RANKS", "[0, 1]").replace("REDUCE", "pass")
"""The same two ranks one after the other in one process: a sum of two does not mind the order."""


@pytest.fixture(autouse=True)
def _points() -> Iterator[None]:
    with runtime():
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    write(path, TRAIN)
    return path


@pytest.fixture
def steps(whole: bool) -> int:
    """Of the training; the bar is 200."""
    return 200 if whole else 30


def expected(steps: int) -> list[str]:
    """What both ranks print, in the order of the ranks."""
    return plain(ALONE, str(steps)).splitlines()


def launch(folder: Path, steps: int) -> LaunchedRanks:
    words = [str(folder / "train.py"), str(steps), "0"]
    session = live_ranks(Script.of(words), 2, adapters=(), facts="core", command="pertdbg")
    assert isinstance(session, LaunchedRanks)
    return session


def check_recordings(folder: Path, calls: int) -> None:
    """Two recordings of one run, whose records know their rank."""
    runs = set()
    for rank in (0, 1):
        with Recording.open(folder / f"rank{rank}.pertdbg") as recording:
            meta = recording.meta
            runs.add(meta.uuid)
            assert (meta.rank, meta.world_size, meta.state) == (rank, 2, "ended")
            assert meta.extra["group_timeout"] == 1800  # what torch documents for gloo
            assert recording.head == calls
            assert {record.rank for record in recording} == {rank}
    assert len(runs) == 1
    session = open_ranks([folder])
    assert isinstance(session, RankSession)
    assert (session.problems, session.label) == ([], "rank 0 of 2")
    asyncio.run(session.close())


def test_recorded_ranks_run_as_torch_runs_them_and_an_app_comes_and_goes(folder: Path) -> None:
    words = ("record", "--ranks", "2", "--control", "job", "--wait", "train.py", "20", "3")
    with started(folder, *words) as target:
        until(lambda: points() and len(points()[0].seats) == 2, "both ranks")

        async def visit() -> None:
            session = attached("job")
            assert isinstance(session, LiveRanks)
            await session.start()
            assert await stop(session) == 1
            session.next()
            assert await stop(session) == 2
            await soon(lambda: [s.calls for s in session.states()] == [2, 2], "lockstep")
            await session.close()
            assert "`pertdbg attach job` opens it again" in session.left

        asyncio.run(visit())
        out, err = target.communicate(timeout=SECONDS)
    assert sorted(out.splitlines()) == expected(20)
    assert target.returncode == 1  # torch's launcher, whatever its ranks' statuses are
    assert "exitcode  : 3" in err
    assert [path.name for path in folder.iterdir() if "ranks" in path.name] == ["train.ranks"]
    check_recordings(folder / "train.ranks", 21)
    assert points() == []


def test_ranks_of_a_launcher_that_somebody_else_started_find_one_folder(folder: Path) -> None:
    (folder / "train.ranks").mkdir()
    (folder / "train.ranks" / "somebody's").touch()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node=2", "-m", "pertdbg", "record", "train.py", "5", "0"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == expected(5)
    check_recordings(folder / "train-2.ranks", 6)
    assert (folder / "train.ranks" / "somebody's").exists()


def test_ranks_are_stepped_and_left_and_the_job_ends_as_it_would_have(
    folder: Path, steps: int
) -> None:
    async def play() -> LaunchedRanks:
        session = launch(folder, steps)
        await session.start()
        await soon(lambda: [s.state for s in session.states()] == [State.STOPPED] * 2)
        session.switch(0)  # either may have come first
        for call in range(2, steps // 2):
            session.next()
            await soon(lambda: session.states()[0].calls == call)  # noqa: B023 - awaited here
            await soon(lambda: session.states()[0].state is State.STOPPED)
        session.choose_others(Others.HELD)
        await soon(lambda: {s.state for s in session.states()} == {State.STOPPED})
        here = session.states()[0].calls
        session.next()  # its collective waits for the other rank, which is held
        await soon(lambda: session.states()[0].waits_for == (1,), session.states)
        left = session.states()[0].left
        assert left is not None
        assert 1500 < left < 1800
        assert session.states()[1].calls == here
        session.switch()
        session.next()
        await soon(lambda: [s.calls for s in session.states()] == [here + 1, here + 1])
        session.choose_others(Others.FREE)
        session.next()
        await soon(lambda: session.states()[1].calls == here + 2)
        await session.leave()
        return session

    session = asyncio.run(play())
    (point,) = points()
    assert session.left.startswith("train.py runs on; `pertdbg attach train`")
    assert session._launcher is not None
    assert session._launcher.wait(SECONDS) == 0
    outputs = [Path(str(seat.stdout)).read_text() for seat in point.seats]
    assert "".join(outputs).splitlines() == expected(steps)
    check_recordings(session._room, steps + 1)
    assert points() == []
    shutil.rmtree(session._room)  # a session that is left leaves its recordings


def test_a_rank_that_is_killed_is_shown_and_its_recording_reads(folder: Path) -> None:
    with Terminal("--ranks", "2", str(folder / "train.py"), "100000", "0") as app:
        app.wait_for("STOPPED", SECONDS)
        app.wait_for("rank 0 of 2")
        app.press("n")
        app.wait_for("call 2 ")
        app.press("a")
        app.wait_for("rank 1  stopped at record 2")
        (point,) = points()
        zero, one = point.seats
        os.kill(one.pid, signal.SIGKILL)
        app.wait_for(f"ended, 2 calls: process {one.pid} is gone")
        app.press("escape")
        app.settle()
        app.press("R")
        app.wait_for("rank 1 of 2")
        app.press("home")
        app.wait_for("no gradient yet")
        with Recording.open(Path(one.recording)) as recording:
            assert [record.call for record in recording] == [1, 2]
        app.press("q")
        app.wait_for("Discard")
        app.press("d")
        assert app.end(SECONDS) == 0
        for seat in (zero, one):
            assert not lives(seat.pid, seat.began)
        assert not Path(zero.recording).exists()
        assert points() == []


def test_a_launcher_that_can_not_start_is_explained(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nsys.exit(5)\n")
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ncase "$1" in -c) echo "python 3.11";; *) echo no >&2; exit 4; esac'
    )
    python.chmod(0o755)

    async def play() -> None:
        script = Script.of([str(tmp_path / "train.py")], str(python))
        session = live_ranks(script, 2, adapters=(), facts="core", command="pertdbg")
        await session.start()
        await soon(lambda: session.ended is not None)
        assert session.ended is not None
        assert (session.ended.status, session.ended.text) == (4, "exit status 4: no")
        await session.close()

    asyncio.run(play())
    assert points() == []


def test_what_can_not_run_in_ranks_is_refused(tmp_path: Path) -> None:
    write(tmp_path, TRAIN)
    script = str(tmp_path / "train.py")
    refused = {
        ("record", "--ranks", "2", "sift"): "--ranks is for a script",
        ("record", "--ranks", "0", script): "0 is not in the range",
        ("record", "--ranks", "2", "-o", "x.pertdbg", script): "each rank has a recording",
        ("record", "--ranks", "2", "-o", str(tmp_path), script): "is not empty",
        ("record", "--ranks", "2", "-"): "a script from a pipe",
    }
    for words, said in refused.items():
        done = pertdbg(*words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_folder_is_given_to_one_run_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = folder_for("train", None, "run 1")
    assert first == tmp_path / "train.ranks"
    assert folder_for("train", None, "run 2") == tmp_path / "train-2.ranks"
    assert folder_for("train", None, "run 1") == first
    given = tmp_path / "given"
    given.mkdir(0o750)
    assert folder_for("train", Path("given"), "run 3") == given
    assert folder_for("train", Path("given"), "run 3") == given
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "given",
        "train-2.ranks",
        "train.ranks",
    ]
