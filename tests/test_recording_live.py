"""A recording is read while it is written, copied while it is written, and ends as one file."""

from __future__ import annotations

from pathlib import Path

import pytest

import _records
from pertdbg.errors import PertdbgError
from pertdbg.recording import copy_recording, create, fold
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder


@pytest.fixture(params=["wal", "rollback"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "rollback":
        monkeypatch.setattr(create, "on_network_disk", lambda path: True)
    return tmp_path / "a.pertdbg"


def test_a_reader_sees_each_record_once_it_was_acknowledged(path: Path) -> None:
    recorder = Recorder(path, {})
    with Recording.open(path) as recording:
        assert (recording.head, len(recording)) == (0, 0)
        for ident in range(1, 30):
            recorder.write(_records.healthy(ident))
            assert recording.refresh()
            assert recording.head == ident
            assert recording.record(ident) == _records.healthy(ident)
        assert not recording.refresh()
        recorder.state(state="ended")
        assert recording.refresh()
        assert recording.meta.state == "ended"
        assert not recording.meta.clean_close
        recorder.close()
        assert recording.refresh()
        assert recording.meta.clean_close
        assert len(list(recording)) == 29


def test_a_recording_ends_as_one_file_once_its_readers_have_gone(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.write(_records.healthy(1))
    with Recording.open(path):
        recorder.close()
    assert fold(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with Recording.open(path) as recording:
        assert recording.meta.clean_close
        assert list(recording) == [_records.healthy(1)]


def test_folding_leaves_a_recording_alone_that_is_being_written(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.write(_records.healthy(1))
    fold(path)
    recorder.write(_records.healthy(2))
    recorder.close()
    with Recording.open(path) as recording:
        assert len(list(recording)) == 2


def test_a_copy_of_a_running_recording_is_one_whole_file(path: Path) -> None:
    recorder = Recorder(path, {"title": "t"})
    for ident in range(1, 20):
        recorder.write(_records.healthy(ident))
    copy = path.with_name("copy.pertdbg")
    copy_recording(path, copy)
    recorder.write(_records.healthy(20))
    with Recording.open(copy) as recording:
        assert len(list(recording)) == 19
        assert recording.meta.title == "t"
    assert not list(path.parent.glob("copy.pertdbg-*"))
    with pytest.raises(PertdbgError, match=r"copy\.pertdbg exists already"):
        copy_recording(path, copy)
    recorder.close()
    copy_recording(path, copy, replace=True)
    with Recording.open(copy) as recording:
        assert len(list(recording)) == 20
        assert recording.meta.clean_close
    assert {file.name for file in path.parent.iterdir()} == {"a.pertdbg", "copy.pertdbg"}


def test_a_copy_to_a_place_that_is_not_there_is_refused(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.close()
    with pytest.raises(PertdbgError, match="there is no folder"):
        copy_recording(path, path.parent / "none" / "b.pertdbg")
    with pytest.raises(PertdbgError, match="there is no file"):
        copy_recording(path.with_name("none.pertdbg"), path.with_name("b.pertdbg"))
