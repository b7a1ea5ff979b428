"""What is left of a damaged recording is shown or saved, and nothing else is shown as the truth."""

from __future__ import annotations

import statistics
from pathlib import Path
from random import Random

import pytest

import _crashed
import _records
from pertdbg.errors import PertdbgError
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.salvage import salvage
from pertdbg.recording.verify import verify
from pertdbg.recording.writer import Recorder

COUNT = 600

Files = dict[str, bytes]


@pytest.fixture(scope="module", params=["wal", "rollback"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("crashed")
    found = _crashed.crashed(folder, request.param, COUNT)
    assert len(found) >= 2
    assert min(
        len(data) for name, data in found.items() if not name.endswith("-shm")
    ) > 100_000 or (request.param == "rollback")
    return found


def place(random: Random, files: Files) -> tuple[str, int]:
    """A byte of one of the files; the largest two get most."""
    names = sorted(files, key=lambda name: len(files[name]))
    name = random.choices(names, [1, 8, 8][-len(names) :])[0]
    return name, random.randrange(max(len(files[name]), 1))


def test_a_truncated_recording_shows_what_is_left_and_nothing_else(
    files: Files, tmp_path: Path, whole: bool
) -> None:
    random, kept = Random(5), []
    for _ in range(250 if whole else 5):
        name, size = place(random, files)
        damaged = {**files, name: files[name][:size]}
        found = _crashed.trial(tmp_path, damaged, COUNT)
        assert found.wrong == [], (name, size)
        assert max(found.opened.seconds, found.salvaged.seconds) < 60
        left = _crashed.there(damaged, COUNT)
        kept.append(len((found.opened.records | found.salvaged.records) & left) / max(len(left), 1))
    print(f"kept after truncation: median {statistics.median(kept):.4f}, least {min(kept):.4f}")
    assert statistics.median(kept) > 0.95


def test_a_flipped_bit_hides_little_and_invents_nothing(
    files: Files, tmp_path: Path, whole: bool
) -> None:
    random, kept, told = Random(6), [], []
    for _ in range(250 if whole else 5):
        name, at = place(random, files)
        data = bytearray(files[name])
        data[at] ^= 1 << random.randrange(8)
        found = _crashed.trial(tmp_path, {**files, name: bytes(data)}, COUNT)
        assert found.wrong == [], (name, at)
        assert max(found.opened.seconds, found.salvaged.seconds) < 60
        if len(found.opened.records) < COUNT:
            assert found.report != "sound", (name, at)
        kept.append(len(found.opened.records | found.salvaged.records) / COUNT)
        told.append(found.report)
    print(f"kept after a flip: median {statistics.median(kept):.4f}, least {min(kept):.4f}")
    print({word: told.count(word) for word in set(told)})
    assert statistics.median(kept) > 0.99


def test_salvage_of_a_sound_recording_gives_all_of_it(tmp_path: Path) -> None:
    for journal in ("wal", "rollback"):
        folder = tmp_path / journal
        folder.mkdir()
        _crashed.crashed(folder, journal, 120)
        found = salvage(folder / "a.pertdbg", folder / "b.pertdbg")
        assert found.whole
        assert (found.calls, found.last) == (120, 120)
        seen = _crashed.look(folder / "b.pertdbg", 120)
        assert seen.records == set(range(1, 121))
        assert seen.wrong == []
        with Recording.open(folder / "b.pertdbg") as recording:
            assert recording.meta.state == "running"
            assert recording.calls_with_tensors() == [1, 51, 101]
            assert recording.output("stdout").count(b"\n") == 120
        assert verify(folder / "b.pertdbg").sound


def test_gaps_of_a_salvaged_recording_are_marked_and_reported(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.pertdbg", tmp_path / "b.pertdbg"
    recorder = Recorder(path, {})
    for ident in range(1, 301):
        recorder.write(_records.healthy(ident))
    recorder.close()
    data = bytearray(path.read_bytes())
    with Recording.open(path) as recording:
        address = recording.record(150).storages["A"].address
    at = data.index((address or 0).to_bytes(8, "little"))
    page = at // 4096 * 4096
    data[page : page + 4096] = bytes(4096)
    path.write_bytes(data)
    assert not verify(path).sound
    found = salvage(path, saved)
    assert not found.whole
    [(first, last)] = found.lost
    assert first <= 150 <= last
    with Recording.open(saved) as recording:
        missing = [r.id for r in recording.scan() if isinstance(r, DamagedRecord)]
        assert missing == list(range(first, last + 1))
        assert [(m.id, m.kind) for m in recording.marks(2, 300) if m.kind == "gap"] == [
            (first, "gap")
        ]
        assert recording.meta.salvaged == f"{len(missing)} of 300 records lost"
        assert recording.notices() == [
            f"made of a damaged recording: {len(missing)} of 300 records lost"
        ]
        assert recording.record(last + 1) == _records.healthy(last + 1)
    assert verify(saved).sound  # it holds what was put in it, and says what it lacks


def test_the_end_that_a_closed_recording_lost_is_missed(tmp_path: Path) -> None:
    path, saved = tmp_path / "a.pertdbg", tmp_path / "b.pertdbg"
    recorder = Recorder(path, {})
    for ident in range(1, 301):
        recorder.write(_records.healthy(ident))
    recorder.close()
    path.write_bytes(path.read_bytes()[:120_000])
    found = verify(path)
    assert not found.sound
    assert salvage(path, saved).last == 300
    with Recording.open(saved) as recording:
        assert recording.head == 300
        assert len([r for r in recording.scan() if not isinstance(r, DamagedRecord)]) > 60


def test_a_damaged_log_does_not_hide_what_stands_behind_the_damage(tmp_path: Path) -> None:
    files = _crashed.crashed(tmp_path, "wal", 100)
    log = bytearray(files["a.pertdbg-wal"])
    log[32 + 24 + 4120 * 20 + 3000] ^= 4
    (tmp_path / "a.pertdbg-wal").write_bytes(log)
    (tmp_path / "a.pertdbg-shm").unlink()
    found = verify(tmp_path / "a.pertdbg")
    assert any("commits behind the damage are not read" in damage for damage in found.damages)
    assert found.calls < 50
    with Recording.open(tmp_path / "a.pertdbg") as recording:
        assert "commits behind the damage are not read" in recording.notices()[0]
    saved = salvage(tmp_path / "a.pertdbg", tmp_path / "b.pertdbg")
    assert saved.calls >= 99


def test_nothing_is_saved_of_what_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(Random(1).randbytes(100_000))
    for name in ("a", "none"):
        with pytest.raises(PertdbgError, match=r"holds nothing|cannot read"):
            salvage(tmp_path / name, tmp_path / "b")
        with pytest.raises(PertdbgError):
            verify(tmp_path / name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a"]
