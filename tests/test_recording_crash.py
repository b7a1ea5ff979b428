"""What was acknowledged is readable, whatever happens to the program, the folder or the disk."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import pytest

import _records
from pertdbg.errors import PertdbgError
from pertdbg.recording import copy_recording, fold
from pertdbg.recording.create import PAGE_SIZE, on_network_disk
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.verify import verify
from pertdbg.recording.writer import Recorder, RecordingFailed

HERE = Path(__file__).parent

WRITE_FOREVER = """
import itertools, os, struct, sys
from pathlib import Path
import _records
from pertdbg.recording import create
from pertdbg.recording.parts import HeatMap
from pertdbg.recording.writer import Recorder

create.CHECKPOINT_PAGES = 50  # so that the journal is folded in all the time
if sys.argv[2] == "rollback":
    create.on_network_disk = lambda path: True
recorder = Recorder(Path(sys.argv[1]), {"title": "killed"}, tensors=sys.argv[3], budget=1 << 20)
picture = HeatMap(16, 16, bytes(1024), 16, 16)
for ident in itertools.count(1):
    recorder.write(_records.healthy(ident), picture if ident % 5 == 0 else None)
    if recorder.wants_tensors("encoder.pert", ident):
        recorder.tensor(ident, "delta", "float32", (40, 1000), struct.pack("<f", ident) * 40000)
    os.write(1, b"%d\\n" % ident)
"""


def child(code: str, *args: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )


def run(code: str, *args: str) -> str:
    """Run a program to its good end and give what it printed."""
    process = child(code, *args)
    told = process.communicate()[0].decode()
    assert process.returncode == 0
    return told


def killed(path: Path, wait: float, journal: str = "wal", tensors: str = "none") -> int:
    """Record in another process, kill it after a while, and give the last acknowledged id."""
    process = child(WRITE_FOREVER, str(path), journal, tensors)
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    time.sleep(wait)
    process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    return int([line for line in lines if line.endswith(b"\n")][-1])


@pytest.mark.parametrize("tensors", ["none", "all"])
@pytest.mark.parametrize("journal", ["wal", "rollback"])
def test_a_killed_process_loses_nothing_that_was_acknowledged(
    tmp_path: Path, journal: str, tensors: str, whole: bool
) -> None:
    random = Random(f"{journal} {tensors}")
    total = 0
    for round_ in range(50 if whole else 4):
        path = tmp_path / f"{round_}.pertdbg"
        acknowledged = killed(path, random.uniform(0, 0.3), journal, tensors)
        with Recording.open(path) as recording:
            assert acknowledged <= recording.head <= acknowledged + 1
            assert not recording.meta.clean_close
            for ident in range(1, recording.head + 1):
                assert recording.record(ident) == _records.healthy(ident)
                assert (recording.picture(ident) is None) == (ident % 5 != 0)
            if tensors == "all":
                kept = [k for k in recording.calls_with_tensors() if k <= acknowledged]
                assert {1, acknowledged} <= set(kept)
                for ident in kept:
                    tensor = recording.tensor(ident, "delta")
                    assert tensor is not None
                    assert b"".join(tensor.data()) == struct.pack("<f", ident) * 40000
        total += acknowledged
        if round_ % 10 == 0:
            assert verify(path).sound
        for file in tmp_path.iterdir():
            file.unlink()
    print(f"{journal}, tensors {tensors}: {total} acknowledged, none lost")


def test_a_commit_whose_last_page_was_being_written_is_no_damage(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    for ident in (1, 2, 3):
        recorder.write(_records.healthy(ident))
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / f"a.pertdbg{suffix}", tmp_path / f"b.pertdbg{suffix}")
    recorder.close()
    log = tmp_path / "b.pertdbg-wal"
    data = log.read_bytes()
    log.write_bytes(data[:-PAGE_SIZE] + bytes(PAGE_SIZE))  # its head is there, and what was before
    assert verify(tmp_path / "b.pertdbg").sound
    with Recording.open(tmp_path / "b.pertdbg") as recording:
        assert recording.record(recording.head) == _records.healthy(2)
        assert recording.notices() == [
            "b.pertdbg-wal ends with a commit that is not whole: it was being written when the "
            "program ended, or is damaged"
        ]


def test_a_crashed_recording_becomes_one_file_by_folding_or_copying(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    acknowledged = killed(path, 0.1)
    assert (tmp_path / "a.pertdbg-wal").exists()
    copy_recording(path, tmp_path / "copy.pertdbg")
    assert fold(path)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"a.pertdbg", "copy.pertdbg"}
    for name in names:
        with Recording.open(tmp_path / name) as recording:
            assert recording.head >= acknowledged
            assert recording.record(acknowledged) == _records.healthy(acknowledged)


DIE_IN_A_COMMIT = """
import os, sys
from pathlib import Path
import _records
from pertdbg.recording import create
from pertdbg.recording.writer import Recorder

if sys.argv[2] == "rollback":
    create.on_network_disk = lambda path: True
recorder = Recorder(Path(sys.argv[1]), {})
for ident in range(1, 21):
    recorder.write(_records.healthy(ident))
recorder._connection.execute("PRAGMA cache_size=2")  # so that pages are written before the commit
recorder._connection.execute("BEGIN IMMEDIATE")
for ident in range(100):
    recorder._connection.execute("UPDATE call SET layer = layer + 1")
    recorder._connection.execute("UPDATE call SET gradient_reason = ?", ("x" * 500,))
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("journal", ["wal", "rollback"])
def test_a_commit_that_was_not_finished_is_as_if_it_had_not_begun(
    tmp_path: Path, journal: str
) -> None:
    assert child(DIE_IN_A_COMMIT, str(tmp_path / "a.pertdbg"), journal).communicate()[0] == b""
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert list(recording) == [_records.healthy(ident) for ident in range(1, 21)]


@pytest.mark.parametrize("journal", ["wal", "rollback"])
@pytest.mark.parametrize("shared_memory", ["left", "gone"])
def test_a_crashed_recording_opens_in_a_folder_that_cannot_be_written(
    tmp_path: Path, journal: str, shared_memory: str
) -> None:
    child(DIE_IN_A_COMMIT, str(tmp_path / "a.pertdbg"), journal).communicate()
    if shared_memory == "gone":  # as after a copy to another machine
        (tmp_path / "a.pertdbg-shm").unlink(missing_ok=True)
    folder = Path(tempfile.mkdtemp())
    try:
        for file in tmp_path.iterdir():
            shutil.copy(file, folder)
            (folder / file.name).chmod(0o444)
        folder.chmod(0o555)
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        assert run(READ_AS_NOBODY, str(folder / "a.pertdbg")) == "20\n"
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


READ_AS_NOBODY = """
import os, sys
import ctypes, urllib.parse  # they are imported late, where nobody may not read the library
from pathlib import Path
from pertdbg.recording.reader import DamagedRecord, Recording
if os.getuid() == 0:
    os.setuid(65534)
with Recording.open(Path(sys.argv[1])) as recording:
    print(len(list(recording)))
"""


def test_a_full_disk_ends_the_recording_with_one_kind_of_error(tmp_path: Path, whole: bool) -> None:
    code = """
import resource, sys
from pathlib import Path
import _records
from pertdbg.recording.writer import Recorder, RecordingFailed
recorder = Recorder(Path(sys.argv[1]), {}, tensors="every:40")
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
done = 0
try:
    for done in range(1, 100_000):
        recorder.write(_records.healthy(done))
        written = done
        if recorder.wants_tensors("encoder.pert", done):
            recorder.tensor(done, "delta", "float32", (100, 100), bytes(40000))
except RecordingFailed as error:
    print(written, error)
for again in (lambda: recorder.write(_records.healthy(done)), lambda: recorder.state(x=1)):
    try:
        again()
    except RecordingFailed:
        print("still failed")
recorder.close()
"""
    random = Random(9)
    for limit in [random.randrange(150_000, 1_200_000) for _ in range(50 if whole else 3)]:
        path = tmp_path / f"{limit}.pertdbg"
        told = run(code, str(path), str(limit)).splitlines()
        acknowledged, words = told[0].split(" ", 1)
        assert f"recording to {path} ended after {acknowledged} calls" in words
        assert told[1:] == ["still failed", "still failed"]
        with Recording.open(path) as recording:
            assert recording.head == int(acknowledged) > 10
            assert list(recording) == [_records.healthy(k) for k in range(1, recording.head + 1)]


def test_a_file_that_is_gone_or_replaced_is_noticed_at_the_next_record(tmp_path: Path) -> None:
    for name in ("gone", "replaced"):
        folder = tmp_path / name
        folder.mkdir()
        recorder = Recorder(folder / "a.pertdbg", {})
        recorder.write(_records.healthy(1))
        shutil.rmtree(folder)
        if name == "replaced":
            folder.mkdir()
            (folder / "a.pertdbg").write_text("another")
        with pytest.raises(RecordingFailed, match="ended after 1 calls"):
            recorder.write(_records.healthy(2))
        recorder.close()


def test_ctrl_c_at_any_moment_loses_at_most_the_record_that_it_came_in(tmp_path: Path) -> None:
    random = Random(3)
    written, ident = set(), 0

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # a collector's callback that is interrupted can only warn
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    usual = 0.0
    try:
        while ident < 1500:
            ident += 1
            record = _records.record(Random(ident), ident)
            if ident <= 20:  # how long a write takes here, so that interrupts meet all of it
                began = time.perf_counter()
                recorder.write(record)
                usual = max(usual, time.perf_counter() - began)
                written.add(ident)
                continue
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.01, 1) * usual)
                recorder.write(record)
                written.add(ident)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    recorder.write(_records.healthy(ident + 1))
    recorder.close()
    assert 50 < len(written) < 1450  # the test interrupts, and not always
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        gaps = {mark.id for mark in recording.marks(1, ident + 1) if mark.kind == "gap"}
        for k in range(1, ident + 1):
            if k in written:
                assert _records.same(recording.record(k), _records.record(Random(k), k))
        missing = {r.id for r in recording.scan() if isinstance(r, DamagedRecord)}
        assert not missing & written
        assert {k + 1 for k in missing if k + 1 not in missing} == gaps


def test_a_change_of_the_working_directory_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = Recorder(Path("a.pertdbg"), {})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    recorder.write(_records.healthy(1))
    recorder.close()
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert len(recording) == 1


def test_a_forked_child_forgets_the_recording_and_the_parent_goes_on(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
import _records
from pertdbg.recording.writer import Recorder, RecordingFailed
recorder = Recorder(Path(sys.argv[1]), {})
recorder.write(_records.healthy(1))
if os.fork() == 0:
    recorder.forget()
    try:
        recorder.write(_records.healthy(2))
    except RecordingFailed:
        recorder.close()
        sys.exit(0)
    os._exit(1)
assert os.wait()[1] == 0
assert os.path.exists(sys.argv[1] + "-wal")
for ident in range(2, 101):
    recorder.write(_records.healthy(ident))
recorder.close()
"""
    path = tmp_path / "a.pertdbg"
    run(code, str(path))
    with Recording.open(path) as recording:
        assert len(list(recording)) == 100


def test_a_process_that_ends_without_closing_leaves_everything(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
import _records
from pertdbg.recording.writer import Recorder
recorder = Recorder(Path(sys.argv[1]), {}, durable=sys.argv[2])
for ident in range(1, 21):
    recorder.write(_records.healthy(ident))
if sys.argv[2] == "kill":
    os._exit(0)
"""
    for durable in ("kill", "power"):
        path = tmp_path / f"{durable}.pertdbg"
        run(code, str(path), durable)
        with Recording.open(path) as recording:
            assert len(list(recording)) == 20
            assert not recording.meta.clean_close


def test_a_network_disk_is_told_by_the_nearest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "40 22 0:40 / /home rw shared:2 - nfs4 server:/home rw\n"
        "41 40 0:41 / /home/me/my\\040disk rw - tmpfs tmpfs rw\n"
    )
    told = {
        path: on_network_disk(Path(path), str(mounts))
        for path in ("/var/x", "/home/me/x", "/home/me/my disk/x", "/homework/x")
    }
    assert list(told.values()) == [False, True, False, False]
    assert not on_network_disk(Path("/x"), str(tmp_path / "none"))


def test_a_truncated_recording_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {})
    for ident in range(1, 201):
        recorder.write(_records.healthy(ident))
    recorder.close()
    whole = path.read_bytes()
    for size in (0, 50, 100, 3000, 4096, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(PertdbgError) as caught, Recording.open(path) as recording:
            list(recording)
        assert "\n" not in str(caught.value)
