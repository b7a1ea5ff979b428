"""`pertdbg check` on everything that can be named, in each of its formats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pertdbg as public
from _scripts import LAYER, PERTDBG, pertdbg
from conftest import REPOSITORY
from pertdbg.errors import PertdbgError
from pertdbg.findings.kinds import KINDS
from pertdbg.findings.report import Report
from pertdbg.output.findings import as_github
from pertdbg.output.sarif import as_sarif
from pertdbg.scenario.expect import Outcome
from pertdbg.scenario.model import Expect

FAULTY = (
    LAYER
    + """
import sys

def main(layer):
    layer.register_buffer("scale", torch.zeros(()))
    hidden = torch.ones(2, 4)
    for step in range(3):
        (0 * layer(hidden)).sum().backward()
        layer.update_delta(True)
    print("arguments", sys.argv[1:])
    print("to the other stream", file=sys.stderr)

main(Layer())
sys.exit(7)
"""
)
HEALTHY = LAYER + "\ntrain(Layer())\n"
NOTHING = "import torch\nprint('nothing to see')\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("scripts")
    for name, text in (("faulty", FAULTY), ("healthy", HEALTHY), ("nothing", NOTHING)):
        (place / f"{name}.py").write_text(text)
    return place


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    """What is said of the faulty script, whose recording is kept."""
    words = ("check", "faulty.py", "--fail-on", "never", "-o", "faulty.pertdbg")
    done = pertdbg(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def recording(folder: Path, text: str) -> Path:
    return folder / "faulty.pertdbg"


def test_json_holds_stdout_alone_with_the_exit_status_of_the_script_and_nothing_is_left(
    folder: Path, tmp_path: Path
) -> None:
    before = sorted(folder.iterdir())
    words = ("check", "faulty.py", "--format", "json", "--", "--epochs", "3")
    done = subprocess.run(
        [str(PERTDBG), *words],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert [path for path in tmp_path.iterdir() if path.name.startswith("pertdbg")] == []
    assert sorted(folder.iterdir()) == before
    report = json.loads(done.stdout)
    assert (report["format"], report["target"], report["exit_status"]) == (1, "faulty.py", 7)
    assert report["calls"] == 4
    (found,) = report["findings"]
    keys = {"kind", "severity", "call", "layer", "rank", "line", "reason", "evidence"}
    assert keys | {"message", "remedy"} <= set(found)
    assert (found["kind"], found["call"], found["rank"]) == ("grad-zero", 2, 0)
    assert found["evidence"]["gradient.norm"] == 0
    assert Path(found["file"]) == folder / "faulty.py"
    assert LAYER.splitlines()[found["line"] - 1].strip().startswith("def update_delta")
    assert "arguments ['--epochs', '3']" in done.stderr
    assert "to the other stream" in done.stderr
    assert "recorded in" not in done.stderr


def test_text_keeps_the_output_of_the_script_and_names_the_line(text: str) -> None:
    assert text.startswith("arguments []\n")
    assert "faulty.py: 4 calls, exit status 7: 1 warning" in text
    assert "faulty.py:" in text.split("grad-zero")[1]
    assert "pertdbg check --explain grad-zero" in text


def test_a_healthy_script_has_nothing_found(folder: Path) -> None:
    done = pertdbg("check", "healthy.py", cwd=folder)
    assert done.returncode == 0
    assert "healthy.py: 4 calls, exit status 0: nothing found" in done.stdout


def test_a_module_with_its_arguments(folder: Path) -> None:
    done = pertdbg("check", "-m", "faulty", "--format", "json", "--", "a", cwd=folder)
    assert done.returncode == 1
    assert json.loads(done.stdout)["target"] == "faulty"
    assert "arguments ['a']" in done.stderr


def test_where_no_update_is_seen_it_could_not_be_checked(folder: Path) -> None:
    done = pertdbg("check", "nothing.py", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == "nothing to see\n"
    assert done.stderr.splitlines()[-1] == (
        "pertdbg: nothing.py: no update of a perturbation was seen, so nothing is checked"
    )


def test_a_recording_gives_what_its_run_gave(recording: Path, folder: Path) -> None:
    done = pertdbg("check", recording, "--format", "json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [one["kind"] for one in report["findings"]] == ["grad-zero"]
    assert (report["exit_status"], report["calls"]) == (7, 4)
    (found,) = public.check(recording)
    assert (found.kind, found.call, found.more) == ("grad-zero", 2, 2)


@pytest.mark.parametrize(("fail_on", "status"), [("error", 0), ("warning", 1), ("never", 0)])
def test_the_exit_status_is_that_of_the_least_severity_that_was_asked_for(
    recording: Path, fail_on: str, status: int
) -> None:
    assert pertdbg("check", recording, "--fail-on", fail_on).returncode == status


def test_sarif_has_the_parts_that_the_standard_asks_for(recording: Path, folder: Path) -> None:
    done = pertdbg("check", recording, "--format", "sarif", cwd=folder)
    assert done.returncode == 1
    log = json.loads(done.stdout)
    assert (log["version"], log["$schema"].endswith("sarif-2.1.0.json")) == ("2.1.0", True)
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "pertdbg"
    assert [rule["id"] for rule in driver["rules"]] == ["grad-zero"]
    (rule,) = driver["rules"]
    assert set(rule) <= {"id", "shortDescription", "help", "defaultConfiguration"}
    assert rule["defaultConfiguration"]["level"] == KINDS["grad-zero"].severity
    (result,) = run["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "grad-zero"
    assert result["level"] in {"none", "note", "warning", "error"}
    assert result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "faulty.py"
    line = place["region"]["startLine"]
    assert (folder / "faulty.py").read_text().splitlines()[line - 1].lstrip().startswith("def ")
    assert run["invocations"] == [{"executionSuccessful": False, "exitCode": 7}]


def test_github_annotates_the_line(recording: Path, folder: Path) -> None:
    done = pertdbg("check", recording, "--format", "github", cwd=folder)
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith("::warning file=faulty.py,line=")
    head, _, text = line.removeprefix("::").partition("::")
    assert head.endswith(",title=grad-zero at call 2 of layer Layer")
    assert text.startswith("the gradient at delta is exactly zero")


def test_a_scenario_that_shows_a_fault_on_purpose_is_observed_as_expected() -> None:
    done = pertdbg("check", "leaf-in-place")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "leaf-inplace  call 2 of layer" in done.stdout
    assert "observed as expected" in done.stdout


def test_a_scenario_whose_expectation_is_not_met_says_so(tmp_path: Path) -> None:
    folder = REPOSITORY / "scenarios"
    text = (folder / "sift.toml").read_text()
    text = text.replace('"sonnets.txt"', json.dumps(str(folder / "sonnets.txt")))
    own = tmp_path / "own.toml"
    own.write_text(
        text.partition("[[expect]]")[0]
        + '[[expect]]\ncalls = "updates"\nfield = "delta.norm"\nbelow = 0.0\n'
    )
    done = pertdbg("check", own, "--format", "json")
    assert done.returncode == 1, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert [one["met"] for one in report["expect"]] == [False]
    assert "delta.norm below 0.0; call 2: it is" in report["expect"][0]["text"]


def test_what_is_no_finding_is_a_notification_of_the_run() -> None:
    unmet = Outcome(
        Expect(field="delta.norm", below=0.0),
        met=False,
        calls=3,
        text="delta.norm below 0\nat call 2",
    )
    report = Report("made", [], 3, 0, [unmet], ["rank 1 has no recording"])
    (run,) = json.loads("\n".join(as_sarif(report)))["runs"]
    assert run["invocations"][0]["toolExecutionNotifications"] == [
        {"level": "error", "message": {"text": "expected: delta.norm below 0\nat call 2"}},
        {"level": "warning", "message": {"text": "rank 1 has no recording"}},
    ]
    assert as_github(report) == [
        "::error title=expected::delta.norm below 0\\nat call 2",
        "::warning title=not checked::rank 1 has no recording",
    ]


def test_a_file_with_an_odd_name_is_escaped_in_each_form(folder: Path, tmp_path: Path) -> None:
    name = "odd, name:1%\u00e9.py"
    (tmp_path / name).write_text(FAULTY)
    path = tmp_path / "odd.pertdbg"
    assert pertdbg("check", name, "-o", path, cwd=tmp_path).returncode == 1
    line = pertdbg("check", path, "--format", "github", cwd=tmp_path).stdout
    assert line.startswith("::warning file=odd%2C name%3A1%25\u00e9.py,line=")
    log = json.loads(pertdbg("check", path, "--format", "sarif", cwd=tmp_path).stdout)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "odd%2C%20name%3A1%25%C3%A9.py"


def test_a_folder_of_ranks_is_checked_as_one_run(recording: Path, tmp_path: Path) -> None:
    data = recording.read_bytes()
    for name in ("rank0", "rank1"):
        (tmp_path / f"{name}.pertdbg").write_bytes(data)
    done = pertdbg("check", "rank0.pertdbg", "rank1.pertdbg", cwd=tmp_path)
    assert done.returncode == 1
    assert "8 calls, exit status 7: 2 warnings" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no.py",), "no.py: no such script"),
        (("no.pertdbg",), "no.pertdbg: no such file"),
        (("sitf",), "sitf: no scenario of that name ships; did you mean sift"),
        (("healthy.py", "--steps", "3"), "--steps is for a scenario"),
        (("sift", "--adapter", "x.toml"), "--python and --adapter are for a script"),
        (("faulty.pertdbg", "-o", "x.pertdbg"), "--steps and -o are for what is run"),
        (("faulty.pertdbg", "more"), "more: no recording (.pertdbg)"),
        (("healthy.py", "-o", "faulty.pertdbg"), "faulty.pertdbg exists already"),
        (("healthy.py", "--format", "yaml"), "Invalid value for '--format'"),
    ],
)
def test_a_mistake_is_one_line(
    words: tuple[str, ...], said: str, folder: Path, recording: Path
) -> None:
    assert recording.exists()
    done = pertdbg("check", *words, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pertdbg: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_error(recording: Path) -> None:
    words = [str(PERTDBG), "check", str(recording), "--format", "sarif"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    assert said == b""


def test_checking_a_recording_needs_neither_torch_nor_the_screen(recording: Path) -> None:
    script = (
        "import sys, pertdbg\n"
        f"found = pertdbg.check({str(recording)!r})\n"
        "bad = {'torch', 'numpy', 'textual', 'rich', 'click', 'pydantic'}\n"
        "print(len(found), sorted(bad & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "1 []\n", done.stderr


def test_a_path_that_is_no_recording_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(PertdbgError):
        public.check(tmp_path / "none.pertdbg")
