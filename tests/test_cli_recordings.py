"""The commands on recordings and guards, by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _guards import write_scenario
from _scripts import pertdbg
from pertdbg.recording.budget import parse
from pertdbg.recording.reader import Recording


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


def test_ablate_answers_what_detach_is_for_in_the_reference_layer(
    tmp_path: Path, whole: bool
) -> None:
    toy = write_scenario(tmp_path, "float32", clean_gradients=True, freeze=True)
    done = pertdbg("ablate", "sift" if whole else toy, "--explain", "--steps", "4")
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


def test_a_tensor_budget_bounds_what_is_stored_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    options = ("--steps", "20", "--tensors", "all", "--tensor-budget", "2MB")
    assert pertdbg("record", "sift", "-o", path, *options).returncode == 0
    with Recording.open(path) as recording:
        meta, kept = recording.meta, recording.calls_with_tensors()
        stored = sum(tensor.nbytes for ident in kept for tensor in recording.tensors(ident))
    assert (meta.tensors, meta.tensor_budget) == ("all", 2_000_000)
    assert stored <= 2_000_000
    assert {1, 19, 20} <= set(kept)
    assert meta.tensors_dropped == 20 - len(kept) > 0
    shown = pertdbg("show", path)
    said = f"the tensors of {20 - len(kept)} calls were dropped to stay within the budget of 2 MB"
    assert said in shown.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tensors", "all", "--tensor-budget", "2 parsecs"], "is no size: give one such as"),
        (["--tensors", "all", "--tensor-budget", "-5MB"], "is no size: give one such as"),
        (["--tensors", "all", "--tensor-budget", "0"], "more than nothing"),
        (["--tensors", "all", "--tensor-budget", "9000TB"], "at most 1024TiB"),
        (["--tensor-budget", "1GB"], "goes with --tensors last, every:N or all"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_in_one_line(
    options: list[str], said: str, tmp_path: Path
) -> None:
    done = pertdbg("record", "sift", "-o", tmp_path / "a.pertdbg", *options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_sizes_are_read_in_their_units() -> None:
    sizes = {"1": 1, "2GB": 2 * 10**9, "1.5GiB": 3 << 29, "300 kb": 300_000, "7MiB": 7 << 20}
    assert {text: parse(text) for text in sizes} == sizes
