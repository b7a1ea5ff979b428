"""The command line, as a person or a script uses it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from _scripts import pertdbg


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "sift.pertdbg"  # named after the scenario
    done = pertdbg("record", "sift", "--steps", "6", cwd=path.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(path)
    return path


def assert_one_line_of_ours(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("pertdbg: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_record_never_writes_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "sift.pertdbg").write_text("mine")
    other = pertdbg("record", "sift", "--steps", "2", cwd=tmp_path)
    assert other.stdout.splitlines()[-1] == str(tmp_path / "sift-2.pertdbg")
    taken = pertdbg("record", "sift", "-o", "sift.pertdbg", cwd=tmp_path)
    assert_one_line_of_ours(taken, "sift.pertdbg", "exists")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sift-2.pertdbg", "sift.pertdbg"]
    assert (tmp_path / "sift.pertdbg").read_text() == "mine"


def test_record_gives_the_scenarios_own_exit_status_and_still_names_the_recording(
    tmp_path: Path,
) -> None:
    done = pertdbg("record", "no-backward", "-o", tmp_path / "x.pertdbg")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("AttributeError: 'NoneType' object")
    assert "pertdbg/agent/" not in done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "x.pertdbg")


def test_show_prints_one_call_with_the_verdicts_first(recording: Path) -> None:
    done = pertdbg("show", recording, "--call", "3")
    assert done.returncode == 0, done.stderr
    assert "call 3" in done.stdout.splitlines()[0]
    assert "delta is a leaf" in done.stdout
    assert "live tensors" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_show_without_a_call_shows_the_last(recording: Path) -> None:
    last, whole = pertdbg("show", recording, "--call", "6"), pertdbg("show", recording)
    assert whole.stdout == f"{last.stdout}\nENDED     exit status 0\n"


def test_show_json_is_the_documented_record(recording: Path) -> None:
    record = json.loads(pertdbg("show", recording, "--call", "3", "--json").stdout)
    assert (record["format"], record["call"], record["batch"], record["step"]) == (1, 3, 1, 2)
    assert record["update"]["created"] is False
    assert record["update"]["returned"] is True
    assert record["gradient"]["present"] is True
    assert record["delta"]["bound"] == 0.02
    assert record["delta"]["bound_kind"] == "creation"
    assert record["tensors"]["after"]["delta"]["is_leaf"] is True
    assert record["shared"] == []
    assert record["backward_reaches"] == {"perturbed_input": ["delta"], "complete": True}
    assert record["graph"]["perturbed_input"] == {"nodes": 2, "depth": 2, "complete": True}


def test_export_writes_every_call_as_a_row_and_as_json(recording: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(pertdbg("export", recording, "--format", "csv").stdout)))
    assert [row["call"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    out = tmp_path / "calls.jsonl"
    assert pertdbg("export", recording, "--format", "jsonl", "-o", out).returncode == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["id"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert float(rows[2]["gradient.norm"]) == records[2]["gradient"]["norm"]


def test_a_closed_pipe_is_no_error_to_read_about(recording: Path) -> None:
    script = f"{sys.executable} -m pertdbg export {recording} --format jsonl | head -c 10"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stderr == ""


def test_scenarios_lists_shows_and_describes_the_files() -> None:
    listed = pertdbg("scenarios").stdout
    assert listed == pertdbg("scenarios", "list").stdout
    names = [line.split()[0] for line in listed.splitlines()]
    assert {"sift", "sift-learner", "sift-fp16", "sift-bf16", "nan-gradient"} < set(names)
    assert {"no-backward", "stale-batch", "in-place-alias", "digits-pgd"} < set(names)
    assert "title =" in pertdbg("scenarios", "show", "sift").stdout
    schema = json.loads(pertdbg("scenarios", "schema").stdout)
    assert {"title", "about", "layer", "loop"} <= set(schema["properties"])


def test_doctor_says_that_this_installation_is_well() -> None:
    done = pertdbg("doctor")
    assert done.returncode == 0, done.stdout
    assert "torch" in done.stdout
    assert "sqlite" in done.stdout


def test_help_and_version_are_there() -> None:
    lines = pertdbg("--help").stdout.splitlines()
    assert "  pertdbg --follow FILE      a recording that another process is writing" in lines
    assert pertdbg("--version").stdout.split()[0] == "pertdbg"
    assert pertdbg("record", "--help").returncode == 0


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    assert_one_line_of_ours(pertdbg("show", tmp_path / "no.pertdbg"), "no.pertdbg")
    assert_one_line_of_ours(pertdbg("record", tmp_path / "no.toml"), "no.toml")
    assert_one_line_of_ours(pertdbg("record", "sfit"), "sfit", "sift")
    assert_one_line_of_ours(pertdbg("export", "no.pertdbg", "--format", "csv"), "no.pertdbg")


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    text = tmp_path / "text.pertdbg"
    text.write_text("not a recording at all, but long enough for a header " * 4)
    assert_one_line_of_ours(pertdbg("show", text), "text.pertdbg", "not a pertdbg recording")


def test_a_call_that_is_not_there_is_named(recording: Path) -> None:
    assert_one_line_of_ours(pertdbg("show", recording, "--call", "99"), "99", "6")
    assert_one_line_of_ours(pertdbg("show", recording, "--layer", "nix"), "nix")
    assert_one_line_of_ours(pertdbg("show", recording, "--rank", "3"), "3")


def test_every_error_of_a_scenario_file_is_listed_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('title = "bad"\n\n[loop]\ncals = 3\nloss = "kll"\n')
    done = pertdbg("record", path, cwd=tmp_path)
    assert_one_line_of_ours(done, "bad.toml:4", "cals", "calls", "bad.toml:5", "kll", "kl")
    assert list(tmp_path.glob("*.pertdbg")) == []


def test_broken_toml_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text('title = "x"\nabout = \n')
    assert_one_line_of_ours(pertdbg("record", path), "broken.toml:2")


def test_a_missing_and_a_failing_model_are_named_and_leave_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'title = "t"\nabout = "a"\n[model]\nbuild = "own.py:build"\n'
        '[input]\ndistribution = "normal"\nshape = [2, 4]\n'
    )
    assert_one_line_of_ours(pertdbg("record", path, cwd=tmp_path), "own.py")
    (tmp_path / "own.py").write_text("def build(layer):\n    raise ValueError('no weights')\n")
    failing = pertdbg("record", path, cwd=tmp_path)
    assert_one_line_of_ours(failing, "own.py", "ValueError", "no weights")
    assert list(tmp_path.glob("*.pertdbg")) == []


def test_a_folder_that_can_not_be_written_is_named_before_anything_runs() -> None:
    for place in ("/no/such/folder/x.pertdbg", "/proc/x.pertdbg"):
        done = pertdbg("record", "sift", "-o", place)
        assert_one_line_of_ours(done, place)
        assert done.stdout == ""


def test_the_app_without_a_terminal_says_so(recording: Path) -> None:
    for target in ("sift", str(recording)):
        assert_one_line_of_ours(pertdbg(target), "terminal")


def test_a_wrong_option_is_one_line() -> None:
    assert_one_line_of_ours(pertdbg("record", "sift", "--nonsense"), "--nonsense")
    assert_one_line_of_ours(pertdbg("record", "sift", "--steps", "0"), "steps")


def test_debug_gives_the_traceback(tmp_path: Path) -> None:
    done = pertdbg("--debug", "show", tmp_path / "no.pertdbg")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


READER_WITHOUT_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
import pertdbg
recording = pertdbg.open(sys.argv[1])
assert [record.call for record in recording] == [1, 2, 3, 4, 5, 6]
sys.argv = ["pertdbg", *sys.argv[2:]]
from pertdbg.cli import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["show", "--json"], ["export", "--format=csv"], ["export", "--format=jsonl"]],
)
def test_recordings_are_read_and_exported_where_torch_and_numpy_can_not_be_imported(
    recording: Path, arguments: list[str]
) -> None:
    command, *options = arguments
    done = subprocess.run(
        [sys.executable, "-c", READER_WITHOUT_TORCH, recording, command, recording, *options],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == pertdbg(command, recording, *options).stdout
