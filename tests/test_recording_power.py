"""Recordings that outlive a failure of power: what is written is forced to the disk in groups."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import _records
from pertdbg.recording import create
from pertdbg.recording.flusher import Flusher
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder, RecordingFailed


class Disk:
    """Flushes as the real one does, and counts; fails from some flush on."""

    def __init__(self, fails_from: int = 10**9) -> None:
        self.flushes = 0
        self.fails_from = fails_from
        self.flushed = threading.Event()

    def __call__(self, file: int) -> None:
        self.flushes += 1
        if self.flushes >= self.fails_from:
            self.flushed.set()
            raise OSError(5, "Input/output error")
        os.fsync(file)
        self.flushed.set()


def test_records_are_flushed_in_groups_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    monkeypatch.setattr("pertdbg.recording.flusher._flush", disk)
    recorder = Recorder(tmp_path / "a.pertdbg", {}, durable="power")
    for ident in range(1, 501):
        recorder.write(_records.healthy(ident))
    assert disk.flushed.wait(10)  # without another record that would cause it
    flushes = disk.flushes
    assert 1 <= flushes < 100
    recorder.write(_records.healthy(501))
    recorder.close()
    assert disk.flushes > flushes
    assert not [thread for thread in threading.enumerate() if thread.name == "pertdbg flush"]
    assert [file.name for file in tmp_path.iterdir()] == ["a.pertdbg"]
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert len(list(recording)) == 501


def test_what_is_written_during_the_last_flush_is_flushed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, sizes = threading.Event(), threading.Event(), list[int]()

    def flush(file: int) -> None:
        sizes.append(os.fstat(file).st_size)
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setattr("pertdbg.recording.flusher._flush", flush)
    journal = tmp_path / "journal"
    journal.write_bytes(b"one")
    flusher = Flusher(journal, window=0)
    flusher.written()
    assert begun.wait(60)
    journal.write_bytes(b"one and two")
    flusher.written()
    closing = threading.Thread(target=flusher.close)
    closing.start()
    assert flusher._end.wait(60)
    go_on.set()
    closing.join(60)
    assert not closing.is_alive()
    assert sizes[-1] == len(b"one and two")


def write_on(recorder: Recorder) -> None:
    for ident in range(1, 100_000):
        recorder.write(_records.healthy(ident))
        time.sleep(0.001)


def test_a_disk_that_fails_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(fails_from=2)
    monkeypatch.setattr("pertdbg.recording.flusher._flush", disk)
    recorder = Recorder(tmp_path / "a.pertdbg", {}, durable="power")
    with pytest.raises(RecordingFailed, match="Input/output error"):
        write_on(recorder)
    with pytest.raises(RecordingFailed):
        recorder.state(state="ended")
    recorder.close()


def test_without_it_nothing_is_flushed_and_no_thread_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    monkeypatch.setattr("pertdbg.recording.flusher._flush", disk)
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.write(_records.healthy(1))
    assert threading.active_count() == 1 or "pertdbg flush" not in {
        thread.name for thread in threading.enumerate()
    }
    recorder.close()
    assert disk.flushes == 0


def test_on_a_network_disk_each_commit_is_flushed_by_sqlite_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create, "on_network_disk", lambda path: True)
    recorder = Recorder(tmp_path / "a.pertdbg", {}, durable="power")
    recorder.write(_records.healthy(1))
    assert recorder._connection is not None
    assert recorder._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # full
    recorder.close()
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert len(recording) == 1
