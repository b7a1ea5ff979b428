"""The commands on recordings and guards, by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def pertdbg(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pertdbg", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120
    )


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    made = {}
    for name, scenario in (("a", "sift"), ("b", "sift"), ("nan", "nan-gradient")):
        made[name] = folder / f"{name}.pertdbg"
        options: list[str | Path] = ["-o", made[name], "--steps", "6", "--tensors", "last"]
        done = pertdbg("record", scenario, *options)
        assert done.returncode == 0, done.stderr
    return made


def test_two_runs_of_one_scenario_are_the_same_whatever_their_addresses(
    recordings: dict[str, Path],
) -> None:
    done = pertdbg("diff", recordings["a"], recordings["b"])
    assert done.returncode == 0, done.stdout


def test_diff_names_the_first_call_and_fact_that_differ(recordings: dict[str, Path]) -> None:
    done = pertdbg("diff", recordings["a"], recordings["nan"], "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["first"]["call"] == 5


def test_verify_tells_sound_from_damaged_and_salvage_keeps_what_is_sound(
    recordings: dict[str, Path], tmp_path: Path
) -> None:
    assert pertdbg("verify", recordings["a"]).returncode == 0
    damaged = tmp_path / "damaged.pertdbg"
    data = recordings["a"].read_bytes()
    damaged.write_bytes(data[: len(data) * 3 // 4])
    assert pertdbg("verify", damaged).returncode in (1, 2)
    rescued = tmp_path / "rescued.pertdbg"
    assert pertdbg("salvage", damaged, "-o", rescued).returncode == 1
    assert pertdbg("verify", rescued).returncode == 0


def test_pack_makes_one_file_with_the_same_calls(
    recordings: dict[str, Path], tmp_path: Path
) -> None:
    packed = tmp_path / "packed.pertdbg"
    assert pertdbg("pack", recordings["a"], "-o", packed).returncode == 0
    assert pertdbg("diff", recordings["a"], packed).returncode == 0


def test_a_stored_tensor_is_taken_out_as_numpy_reads_it(
    recordings: dict[str, Path], tmp_path: Path
) -> None:
    numpy = pytest.importorskip("numpy")
    out = tmp_path / "delta.npy"
    done = pertdbg("export", recordings["a"], "--tensor", "delta", "-o", out)
    assert done.returncode == 0, done.stderr
    delta = numpy.load(out)
    record = json.loads(pertdbg("show", recordings["a"], "--call", "6", "--json").stdout)
    assert list(delta.shape) == record["tensors"]["after"]["delta"]["shape"]
    assert float(abs(delta).max()) == record["delta"]["max_abs"]
    assert int((abs(delta) > numpy.float32(0.02)).sum()) == record["delta"]["beyond"]


def test_the_html_report_loads_nothing(recordings: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert pertdbg("export", recordings["nan"], "--format", "html", "-o", out).returncode == 0
    text = out.read_text()
    assert "default-src 'none'" in text
    assert "<svg" in text
    assert "<script" not in text


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["export", "FILE"], "--format"),
        (["export", "FILE", "--tensor", "delta"], "-o"),
        (["export", "FILE", "--tensor", "nonsense", "-o", "x.npy"], "nonsense"),
        (["diff", "FILE", "no.pertdbg"], "no.pertdbg"),
        (["pack", "FILE", "-o", "FILE"], "exists"),
        (["salvage", "no.pertdbg", "-o", "x.pertdbg"], "no.pertdbg"),
        (["record", "sift", "--tensors", "some"], "some"),
    ],
)
def test_a_mistake_is_one_line(
    recordings: dict[str, Path], arguments: list[str], word: str
) -> None:
    done = pertdbg(*(str(recordings["a"]) if a == "FILE" else a for a in arguments))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("pertdbg: ")
    assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_ablate_answers_what_detach_is_for_in_the_reference_layer() -> None:
    done = pertdbg("ablate", "sift", "--explain", "--steps", "4")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "`source.detach()` (line 97) is needed here, and only because the clean pass" in text
    assert "`delta.detach()` (line 94) is redundant while `torch.no_grad()` (line 89)" in text


def test_a_scenario_for_a_layer_of_ones_own_is_begun(tmp_path: Path) -> None:
    source = (
        "import torch\nclass Mine(torch.nn.Module):\n    def update_delta(self):\n        pass\n"
    )
    (tmp_path / "mine.py").write_text(source)
    path = tmp_path / "mine.toml"
    assert pertdbg("scenarios", "new", path, "--class", "mine.py:Mine").returncode == 0
    assert 'class = "mine.py:Mine"' in path.read_text()
    again = pertdbg("scenarios", "new", path, "--class", "mine.py:Mine")
    assert again.returncode == 2
    assert "exists" in again.stderr
