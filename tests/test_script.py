"""A script of a person's own under `pertdbg record` and in a live session."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from _scripts import LAYER, PERTDBG, recorded, write
from _terminal import Terminal
from pertdbg.errors import PertdbgError
from pertdbg.launch import live_script
from pertdbg.recording.reader import Recording
from pertdbg.session import Ended, Stopped, TargetEnded
from pertdbg.target import Script

TRAIN = f"{LAYER}\ntrain(Layer())\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def test_every_update_is_recorded_and_the_path_is_the_last_line_on_stderr(folder: Path) -> None:
    write(folder, TRAIN + "import sys\nsys.exit(6)\n")
    path = folder.parent / "x.pertdbg"
    done = recorded(folder, ["train.py", "--lr", "2e-5"], output=path)
    assert done.status == 6
    assert done.said.decode() == f"pertdbg: 4 calls recorded in {path}\n"
    with Recording.open(path) as recording:
        assert [record.call for record in recording] == [1, 2, 3, 4]
        assert [record.update.created for record in recording] == [True, False, False, False]
        # 0.01 in each element at first; the gradient of a square of 1.01 is positive, so each
        # update adds 0.001.
        norms = [record.delta.norm for record in recording]
        assert norms == pytest.approx([0.01 * 8**0.5 + n * 0.001 * 8**0.5 for n in range(4)])
        assert recording.meta.exit_status == 6
        assert recording.meta.target == "train.py"
        assert recording.meta.clean_close
        assert recording.meta.command.endswith("train.py --lr 2e-5")


@pytest.mark.parametrize(
    ("end", "status", "text"),
    [
        ("raise OSError('x')", 1, "OSError: x"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass", 0, ""),
        ("os.kill(os.getpid(), 2)\nwhile True: pass", 130, "KeyboardInterrupt"),
    ],
)
def test_the_recording_knows_how_the_script_ended(
    folder: Path, end: str, status: int, text: str
) -> None:
    write(folder, f"import os, sys\n{LAYER}\ntrain(Layer(), 1)\n{end}\n")
    recorded(folder, ["train.py"])
    with Recording.open(folder.parent / "work.pertdbg") as recording:
        meta = recording.meta
    assert (meta.state, meta.exit_status, meta.exit_text) == ("ended", status, text)


def test_our_process_becomes_the_script(folder: Path) -> None:
    write(folder, "import os\nprint(os.getpid(), os.getpgrp(), os.getppid())\n")
    command = [str(PERTDBG), "record", "train.py"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read().split() == [
            str(process.pid),
            str(os.getpgrp()),
            str(os.getpid()),
        ]


def test_a_job_that_is_ended_by_its_scheduler_leaves_its_records(folder: Path) -> None:
    write(
        folder,
        f"{LAYER}\ntrain(Layer())\nprint('trained', flush=True)\nimport time\ntime.sleep(60)\n",
    )
    command = [str(PERTDBG), "record", "train.py"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in ("trained\n", ""):
            pass
        process.terminate()
        assert process.wait(300) == -signal.SIGTERM
    with Recording.open(folder / "train.pertdbg") as recording:
        assert len(recording) == 4


WORKERS = f"""{LAYER}
import multiprocessing, os, sys
def work():
    train(Layer(), 2)
if __name__ == "__main__":
    train(Layer(), 1)
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=work)
        process.start()
        process.join()
    if not os.fork():
        work()
        sys.exit(0)
    os.wait()
    train(Layer(), 1)
"""


def test_processes_that_the_script_starts_neither_record_nor_speak(folder: Path) -> None:
    write(folder, WORKERS)
    done = recorded(folder, ["train.py"])
    assert done.status == 0, done.stderr
    assert done.said.decode().startswith("pertdbg: 4 calls recorded")
    assert done.stdout.count(b"step 1") == 3
    assert [path.name for path in folder.parent.iterdir() if path.is_file()] == ["work.pertdbg"]
    with Recording.open(folder.parent / "work.pertdbg") as recording:
        assert recording.meta.clean_close


def test_a_script_without_an_update_is_told_what_was_looked_for(folder: Path) -> None:
    write(folder, "import sys, torch\nprint(torch.ones(2).sum())\nsys.exit(5)\n")
    done = recorded(folder, ["train.py"])
    assert done.status == 5
    said = done.said.decode()
    assert said.startswith("pertdbg: nothing is recorded: no update of a perturbation was seen")
    assert "sift" in said
    assert "update_delta" in said
    assert "--adapter FILE" in said
    assert not (folder.parent / "work.pertdbg").exists()


def test_without_torch_that_is_what_is_said(folder: Path) -> None:
    write(folder, "print('hello')\n")
    done = recorded(folder, ["train.py"])
    assert b"did not import torch" in done.said
    assert list(folder.parent.glob("*.pertdbg*")) == []


def test_recordings_are_named_after_the_script_and_never_written_over(folder: Path) -> None:
    write(folder, TRAIN)
    (folder / "train.pertdbg").write_text("mine")
    subprocess.run([str(PERTDBG), "record", "-m", "train"], cwd=folder, capture_output=True)
    assert sorted(p.name for p in folder.glob("*.pertdbg")) == ["train-2.pertdbg", "train.pertdbg"]
    assert (folder / "train.pertdbg").read_text() == "mine"


NEEDED = (
    "torch",
    "torchgen",
    "functorch",
    "numpy",
    "numpy.libs",
    "typing_extensions.py",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "filelock",
    "fsspec",
    "nvidia",
    "triton",
)
"""What torch itself needs."""


def test_an_interpreter_that_has_only_torch_can_be_named(folder: Path) -> None:
    home = folder.parent / "theirs"
    venv.create(home, symlinks=True)
    (site,) = (home / "lib").glob("python*/site-packages")
    import torch

    for name in NEEDED:
        package = Path(torch.__file__).parents[1] / name
        if package.exists():
            (site / name).symlink_to(package)
    check = """
import importlib.util, sys
print(sys.prefix)
names = ("click", "textual", "pydantic", "rich", "safetensors")
print([name for name in names if importlib.util.find_spec(name)])
print([path for path in sys.path if "pertdbg" in path or "tui" in path])
"""
    write(folder, TRAIN + check)
    python = home / "bin" / "python"
    done = recorded(folder, ["--python", str(python), "train.py"])
    assert done.status == 0, done.stderr
    assert done.stdout.decode().splitlines()[-3:] == [str(home), "[]", "[]"]
    assert b"4 calls recorded" in done.said


def test_an_adapter_of_ones_own_is_looked_for_first(folder: Path) -> None:
    write(folder, TRAIN.replace("update_delta", "move").replace("perturbated_input", "shifted"))
    (folder / "own.toml").write_text(
        'name = "own"\ntitle = "a layer of the test"\nseam = "method"\n'
        '[match]\nmethods = ["move"]\nuses = [["shifted"]]\n'
        '[roles]\ndelta = "self.delta"\ninput = "self.input"\nperturbed_input = "self.shifted"\n'
    )
    own = recorded(folder, ["--adapter", "own.toml", "train.py"], output=folder / "own.pertdbg")
    assert b"4 calls recorded" in own.said
    with Recording.open(folder / "own.pertdbg") as recording:
        assert recording.record(2).tensors.after.perturbed_input is not None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["nope.py"], ("nope.py", "no such script")),
        (["."], (".", "folder")),
        (["notes.txt"], ("notes.txt", "neither Python")),
        (["--steps", "3", "train.py"], ("--steps", "scenario")),
        (["--python", "/no/python", "train.py"], ("/no/python", "no such program")),
        (["--python", "/bin/cat", "train.py"], ("/bin/cat", "not a Python")),
        (["--python", sys.executable, "sift"], ("--python", "script")),
        (["--adapter", "no.toml", "train.py"], ("no.toml", "read")),
        (["-o", "/no/folder/x.pertdbg", "train.py"], ("/no/folder", "no folder")),
        (["-o", "notes.txt", "train.py"], ("notes.txt", "exists")),
        (["-m"], ("-m", "module")),
    ],
)
def test_a_mistake_is_one_line_and_nothing_runs(
    folder: Path, given: list[str], words: tuple[str, ...]
) -> None:
    write(folder, "print('ran')\n")
    (folder / "notes.txt").write_text("hello\n")
    command = [str(PERTDBG), "record", *given]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pertdbg: ")
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in words)


def test_what_stands_behind_the_script_is_never_ours(folder: Path) -> None:
    write(folder, "import sys\nprint(sys.argv[1:])\n1 / 0\n")
    given = ["--debug", "--help", "-o", "x", "--python", "y", "-m", "z", "--", "-h"]
    done = recorded(folder, ["train.py", *given])
    assert done.stdout.decode() == f"{given}\n"
    assert done.status == 1


def test_a_script_steps_and_ends_in_a_live_session(folder: Path) -> None:
    write(folder, TRAIN + "raise ValueError('the end')\n")
    seen: list[object] = []

    async def run() -> None:
        session = live_script(
            Script.of([str(folder / "train.py")]), adapters=(), facts="all", command=""
        )
        await session.start()
        async for event in session.events():
            if isinstance(event, Stopped):
                assert session.recording is not None
                seen.append((event.id, session.recording.record(event.id).call))
                session.next()
            if isinstance(event, TargetEnded):
                seen.append(event.ended.text)
                break
        await session.close()

    asyncio.run(asyncio.wait_for(run(), 300))
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 4), "exit status 1: ValueError: the end"]


def test_a_script_that_ends_with_2_is_not_taken_for_one_that_could_not_start(
    folder: Path,
) -> None:
    write(folder, "import sys\nprint('x', file=sys.stderr)\nsys.exit(2)\n")

    async def run() -> Ended:
        session = live_script(
            Script.of([str(folder / "train.py")]), adapters=(), facts="all", command=""
        )
        await session.start()
        try:
            async for event in session.events():
                if isinstance(event, TargetEnded):
                    return event.ended
        finally:
            await session.close()
        raise AssertionError("the session closed")

    ended = asyncio.run(asyncio.wait_for(run(), 300))
    assert ended == Ended(2, None, "exit status 2: x")


def test_ctrl_c_while_stopped_raises_in_the_script_without_frames_of_ours(folder: Path) -> None:
    source = f"{LAYER}\nimport traceback\ntry:\n    train(Layer())\nexcept KeyboardInterrupt:\n"
    path = write(folder, source + "    traceback.print_exc()\n    raise SystemExit(9)\n")

    async def run() -> tuple[Ended, str]:
        session = live_script(Script.of([str(path)]), adapters=(), facts="core", command="")
        await session.start()
        try:
            async for event in session.events():
                if isinstance(event, Stopped):
                    session.interrupt()
                if isinstance(event, TargetEnded):
                    assert session.stderr_path is not None
                    return event.ended, session.stderr_path.read_text()
        finally:
            await session.close()
        raise AssertionError("the session closed")

    ended, shown = asyncio.run(asyncio.wait_for(run(), 300))
    assert ended.status == 9
    assert shown.rstrip().endswith("KeyboardInterrupt")
    assert "pertdbg" not in shown


def test_the_app_opens_on_a_script_with_its_arguments(folder: Path) -> None:
    path = write(folder, f"import sys\nprint(sys.argv[1:])\n{TRAIN}")
    with Terminal(str(path), "--lr", "2e-5", size=(200, 60)) as app:
        app.wait_for("STOPPED")
        app.wait_for("['--lr', '2e-5']")
        app.press("n")
        app.wait_for("call 2")
        app.press("c")
        app.wait_for("exit status 0")


def test_a_piped_script_can_not_be_opened_in_the_app() -> None:
    with pytest.raises(PertdbgError, match="pipe"):
        live_script(Script.of(["-"]), adapters=(), facts="all", command="")


def test_a_script_can_come_through_a_named_pipe(folder: Path) -> None:
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [str(PERTDBG), "record", str(fifo), "a"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        fifo.write_text("import sys\nprint(sys.argv[1:])\n")
        assert process.stdout is not None
        assert process.stdout.read() == "['a']\n"
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.returncode == 0
