"""Commands on a folder with the recordings of several ranks."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from _ranks import calls_of, write_rank
from _scripts import pertdbg
from pertdbg.record import CallRecord
from pertdbg.recording.writer import Recorder


def shorter(rank: int, record: CallRecord) -> CallRecord | None:
    """Rank 2 ends after its call 4."""
    return None if rank == 2 and record.call > 4 else record


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks") / "run"
    folder.mkdir()
    for rank in range(3):
        write_rank(folder, rank, 6, 3, shorter)
    return folder


def test_show_asks_for_the_rank_where_several_have_the_call(run: Path) -> None:
    asked = pertdbg("show", run, "--call", "6")
    assert asked.returncode == 2
    assert asked.stderr == (
        f"pertdbg: {run} holds 2 ranks with a call 6: add --rank; there are 0, 1\n"
    )
    assert "3 ranks: add --rank; there are 0, 1, 2" in pertdbg("show", run).stderr
    shown = json.loads(pertdbg("show", run, "--call", "6", "--rank", "1", "--json").stdout)
    assert (shown["rank"], shown["call"]) == (1, 6)
    assert shown["gradient"]["norm"] == calls_of(1, 6)[5].gradient.norm
    lacking = pertdbg("show", run, "--call", "6", "--rank", "2")
    assert (lacking.returncode, "there is no call 6" in lacking.stderr) == (2, True)
    unknown = pertdbg("show", run, "--rank", "7")
    assert "no sound recording of rank 7; there are 0, 1, 2" in unknown.stderr
    file = run / "run.r0001.pertdbg"
    assert "is of rank 1, not of rank 0" in pertdbg("show", file, "--rank", "0").stderr


def test_show_needs_no_rank_where_only_one_has_the_call(tmp_path: Path) -> None:
    for rank, calls in ((0, 3), (1, 5)):
        write_rank(tmp_path, rank, calls, 3)
    done = pertdbg("show", tmp_path, "--call", "5", "--json")
    assert json.loads(done.stdout)["rank"] == 1
    assert done.stderr == "pertdbg: of 3 ranks there is no sound recording of rank 2\n"


def test_recordings_of_another_run_are_left_out_in_one_line(tmp_path: Path) -> None:
    for rank in range(12):
        write_rank(tmp_path, 20 + rank, 1, 1, uuid=f"old {rank}", created_ns=1 + rank)
    write_rank(tmp_path, 0, 2, 1, uuid="new")
    done = pertdbg("show", tmp_path, "--json")
    assert json.loads(done.stdout)["call"] == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("pertdbg: of other runs, so left out: run.r0020.pertdbg, run.r0021")
    assert line.endswith(" and 4 more")


def test_export_takes_all_ranks_in_with_one_header(run: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(pertdbg("export", run, "--format", "csv").stdout)))
    ids = [(int(row["rank"]), int(row["call"])) for row in rows]
    assert ids == [(rank, call) for rank in range(3) for call in range(1, 5 if rank == 2 else 7)]
    out = tmp_path / "all.jsonl"
    assert pertdbg("export", run, "--format", "jsonl", "-o", out).returncode == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(record["rank"], record["call"]) for record in records] == ids
    one = pertdbg("export", run, "--format", "csv", "--rank", "2").stdout
    assert len(list(csv.DictReader(io.StringIO(one)))) == 4
    asked = pertdbg("export", run, "--format", "html", "-o", tmp_path / "a.html")
    assert (asked.returncode, "add --rank" in asked.stderr) == (2, True)
    assert not (tmp_path / "a.html").exists()
    pertdbg("export", run, "--format", "html", "--rank", "1", "-o", tmp_path / "a.html")
    assert "<html" in (tmp_path / "a.html").read_text()[:200]
    own = run / "run.r0002.pertdbg"
    refused = pertdbg("export", run, "--format", "csv", "-o", own)
    assert (refused.returncode, "is the recording itself" in refused.stderr) == (2, True)


def test_a_stored_tensor_of_a_rank_is_taken_out(tmp_path: Path) -> None:
    for rank in (0, 1):
        meta: dict[str, str | int] = {"uuid": "one", "rank": rank, "world_size": 2}
        recorder = Recorder(tmp_path / f"{rank}.pertdbg", meta, tensors="all")
        recorder.write(replace(calls_of(rank, 1)[0], id=1))
        recorder.tensor(1, "delta", "uint8", (2,), bytes([rank, 7]))
        recorder.close()
    out = tmp_path / "delta.npy"
    options = ("export", tmp_path, "--tensor", "delta", "--call", "1", "-o", out)
    assert "add --rank" in pertdbg(*options).stderr
    assert pertdbg(*options, "--rank", "1").returncode == 0
    assert out.read_bytes().endswith(bytes([1, 7]))


def test_folders_are_compared_rank_by_rank(run: Path, tmp_path: Path) -> None:
    def changed(rank: int, record: CallRecord) -> CallRecord | None:
        if (rank, record.call) == (1, 3):
            return replace(record, gradient=replace(record.gradient, norm=7.0))
        return shorter(rank, record)

    for rank in range(3):
        write_rank(tmp_path, rank, 6, 3, changed, uuid="another run")
    assert pertdbg("diff", run, run).returncode == 0
    done = pertdbg("diff", run, tmp_path)
    assert done.returncode == 1
    assert "rank 0: 6 calls compared: no fact differs in a bit" in done.stdout
    assert "rank 1: 6 calls compared; the first that differs is call 3 of" in done.stdout
    assert "rank 2: 4 calls compared: no fact differs in a bit" in done.stdout
    found = json.loads(pertdbg("diff", run, tmp_path, "--json").stdout)
    assert [rank["same"] for rank in found["ranks"]] == [True, False, True]
    assert found["ranks"][1]["first"]["fact"] == "gradient.norm"
    assert pertdbg("diff", run, tmp_path, "--rank", "0").returncode == 0
    assert pertdbg("diff", run, tmp_path, "--rank", "1").returncode == 1
    (tmp_path / "run.r0002.pertdbg").unlink()
    lacking = pertdbg("diff", run, tmp_path, "--json")
    assert json.loads(lacking.stdout)["only_first_ranks"] == [2]
    assert "only in the first: rank 2" in pertdbg("diff", run, tmp_path).stdout


def test_two_ranks_of_a_folder_are_compared(run: Path) -> None:
    done = pertdbg("diff", run, "--rank", "0", "--rank", "2")
    assert done.returncode == 1
    assert "only in the first: call 5 of encoder.pert, 6 of encoder.pert" in done.stdout
    for words in (["--rank", "0"], []):
        asked = pertdbg("diff", run, *words)
        assert (asked.returncode, "a folder and --rank twice" in asked.stderr) == (2, True)
