"""How the runs of an ablation are made, compared and told."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from _ownlayer import scenario as own_scenario
from pertdbg.ablation.ablate import ablate
from pertdbg.ablation.compare import compare, noise_between
from pertdbg.ablation.host import Runs
from pertdbg.ablation.report import Report
from pertdbg.ablation.says import says
from pertdbg.ablation.sufficient import sufficient
from pertdbg.ablation.variant import Target, Variant
from pertdbg.errors import PertdbgError
from pertdbg.output.ablation import json_lines
from pertdbg.scenario import library

LAYER = """
from __future__ import annotations
import os, random, torch
from pertdbg import PerturbationLayer

class Layer(PerturbationLayer):
    def update_delta(self, requires_grad: bool = False) -> bool:
        if self.delta is None:
            delta = torch.randn_like(self.input) * 0.01
        else:
            delta = self.delta + 1e-4 * self.delta.grad.sign()
        self.delta = delta.detach().requires_grad_(requires_grad)
        {line}
        return True
"""
SCENARIO = own_scenario(calls=5)
PERTURB = "self.perturbated_input = self.input.detach() + self.delta"


def written(folder: Path, line: str = PERTURB, scenario: str = SCENARIO) -> Path:
    (folder / "layer.py").write_text(LAYER.format(line=line))
    path = folder / "layer.toml"
    path.write_text(scenario)
    return path


def texts(report: Report) -> dict[str, str]:
    return {guard.text: guard.id for guard in report.guards}


@dataclass(frozen=True)
class Ablated:
    """An ablation of the layer above, and what there was before and after it."""

    report: Report
    files: tuple[dict[str, str], dict[str, str]]
    modules: set[str]


@pytest.fixture(scope="module")
def ablated(tmp_path_factory: pytest.TempPathFactory) -> Ablated:
    folder = tmp_path_factory.mktemp("ablated")
    scenario = written(folder)
    before, modules = contents(folder), set(sys.modules)
    report = ablate(scenario, pairs=True)
    return Ablated(report, (before, contents(folder)), set(sys.modules) - modules)


def test_an_ablation_changes_no_file_and_nothing_in_this_process(ablated: Ablated) -> None:
    assert len(ablated.report.guards) == 3
    before, after = ablated.files
    assert after == before
    assert "layer" not in ablated.modules


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_side_that_asks_imports_no_torch_and_leaves_no_process_and_no_folder(
    tmp_path: Path,
) -> None:
    script = f"""
import os, sys, tempfile
from pathlib import Path
tempfile.tempdir = {str(tmp_path)!r}
from pertdbg.ablation.ablate import ablate
from pertdbg.output.ablation import table
print(*table(ablate(Path(sys.argv[1]), conditions=False)), sep="\\n")
assert "torch" not in sys.modules and "numpy" not in sys.modules
assert os.listdir({str(tmp_path)!r}) == []
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""
    target = str(library.find("in-place-alias"))
    command = [sys.executable, "-c", script, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "no child"


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("scenario"))


@pytest.fixture(scope="module")
def runs(scenario: Path) -> Iterator[Runs]:
    with Runs(Target(str(scenario)), jobs=2) as runs:
        yield runs


def test_the_whole_run_is_the_run_that_record_makes(
    tmp_path: Path, scenario: Path, runs: Runs
) -> None:
    from pertdbg.recording.reader import Recording

    target = tmp_path / "run.pertdbg"
    command = [sys.executable, "-m", "pertdbg", "record", str(scenario), "-o", str(target)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, capture_output=True, check=True, env=environment)
    with Recording.open(target) as recording:
        (whole,) = runs.run([Variant()])
        for ours, theirs in zip(whole.records, recording, strict=True):
            assert (ours.delta, ours.gradient, ours.effect) == (
                *(theirs.delta, theirs.gradient, theirs.effect),
            )


def test_two_whole_runs_are_the_same_to_the_last_bit(runs: Runs) -> None:
    (first,) = runs.run([Variant()])
    second = runs.again(Variant())
    assert noise_between(first, second) == frozenset()
    assert compare((), first, second).same


def test_what_chance_does_is_told_and_compared_nowhere(tmp_path: Path) -> None:
    chance = "self.chance = random.SystemRandom().random()\n        "
    line = chance + "self.perturbated_input = self.input.detach() + self.chance * self.delta"
    report = ablate(written(tmp_path, line), steps=3, conditions=False)
    assert report.calls == 3
    assert {"bits.perturbed_input", "gradient.norm", "losses"} <= set(report.noise)
    assert "bits.delta" not in report.noise  # the step is made of signs
    assert "Two whole runs with the same seeds differ" in says(report)[0]


def test_a_variant_that_crashes_or_exits_is_a_result(tmp_path: Path) -> None:
    line = "os._exit(3) if not self.delta.is_leaf else None\n        " + PERTURB
    report = ablate(written(tmp_path, line), conditions=False)
    crashed = report.single(texts(report)["delta.detach()"])
    assert crashed.raised is not None
    assert (crashed.raised.type, crashed.raised.call) == ("Crash", 2)
    assert "exit status 3" in crashed.raised.message


def test_a_variant_may_change_a_number_or_a_line_as_well(scenario: Path, runs: Runs) -> None:
    text = scenario.with_name("layer.py").read_text().splitlines()
    number = next(k for k, line in enumerate(text, 1) if "1e-4" in line)
    edited = text[number - 1].replace("1e-4", "1e-2")
    whole, seeded, faster = runs.run(
        [Variant(), Variant(scenario={"seed": 1}), Variant(lines={number: edited})]
    )
    assert whole.records[0].delta != seeded.records[0].delta
    assert whole.records[1].delta.moved_max == pytest.approx(1e-4, rel=1e-3)
    assert faster.records[1].delta.moved_max == pytest.approx(1e-2, rel=1e-3)


@pytest.mark.parametrize(
    ("line", "kind", "guard"),
    [
        (
            "self.perturbated_input = self.input.detach().clone().add_(self.delta)",
            "storage-shared",
            "clone",
        ),
        (
            "self.perturbated_input = (self.input + self.delta * 2).detach_().add(self.delta)",
            "graph-deeper",
            "detach_",
        ),
        (
            "self.perturbated_input = self.input.detach().double().add(self.delta).float()",
            "dtype",
            "float",
        ),
    ],
)
def test_a_guard_of_another_layer_shows_what_it_is_for(
    line: str, kind: Any, guard: str, tmp_path: Path
) -> None:
    report = ablate(written(tmp_path, line), conditions=False)
    results = [report.single(g.id) for g in report.guards if g.kind == guard]
    assert any(result.has(kind) for result in results), json_lines(report)[0]


def test_memory_and_graph_that_grow_are_told_per_call(tmp_path: Path) -> None:
    """Each call keeps 4 x 8 float32 more: 128 bytes of what a product has saved."""
    line = "self.kept = (self.kept * self.delta).detach() if step else self.delta * 1.0\n        "
    line = line.replace("step", "hasattr(self, 'kept')") + PERTURB
    report = ablate(written(tmp_path, line), conditions=False)
    ident = texts(report)["(self.kept * self.delta).detach()"]
    memory = report.single(ident).has("memory")
    assert memory is not None
    assert memory.data["per_call"] > 0
    assert memory.data["per_call"] % 128 == 0


def test_the_least_sets_are_run_and_filled_up_where_three_cover_for_each_other() -> None:
    """Any one of three suffices: neither a single nor a pair shows that."""
    from pertdbg.ablation.report import Change, Result
    from pertdbg.guards.model import Guard

    def guard(ident: str) -> Guard:
        return Guard(ident, "detach", "f", "f.py", (1, 1, 1, 2), "x", ((1, 1, 1, 2),), ())

    def same(*idents: str) -> Result:
        changed = "d" in idents
        changes = (Change("values", 1, "other"),) if changed else ()
        return Result(idents, changes, None, 1)

    guards = [guard(ident) for ident in "abcd"]
    singles = [same(ident) for ident in "abcd"]
    pairs = [same(a, b) for a in "abcd" for b in "abcd" if a < b]
    found = sufficient(
        guards, singles, pairs, lambda kept: "d" in kept and bool({*"abc"} & {*kept})
    )
    assert found == [("c", "d")]


def test_for_a_changed_layer_the_answer_is_another(ablated: Ablated) -> None:
    answer = says(ablated.report)[0]
    assert "`delta.detach()` (line 12) is needed here" in answer
    assert "redundant" not in answer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = 3\n", "needs text in quotes"),
        (SCENARIO.replace("layer.py:Layer", "layer.py:Missing"), "has no attribute 'Missing'"),
        (SCENARIO.replace("hidden_size = 8", "width = 8"), "unexpected keyword argument"),
    ],
)
def test_a_scenario_that_can_not_run_whole_is_answered_with_the_reason(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(PertdbgError, match=message):
        ablate(written(tmp_path, scenario=text))


def test_where_forking_is_unsafe_each_run_gets_an_interpreter(
    tmp_path: Path,
) -> None:
    scenario = written(tmp_path)
    source = (tmp_path / "layer.py").read_text()
    sleeper = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    thread = f"import threading, time\n{sleeper}\nimport os,"
    (tmp_path / "layer.py").write_text(source.replace("import os,", thread, 1))
    with Runs(Target(str(scenario)), jobs=2) as runs:
        whole, other = runs.run([Variant(), Variant(without=("g1",))])
    assert whole.raised is None
    assert len(whole.records) == 5
    assert compare(("g1",), whole, other).has("leaf-lost") is not None


SIX = ("smart", "freelb", "vat", "pgd", "fgm", "awp")


@pytest.mark.parametrize("name", SIX)
def test_in_six_other_implementations_every_removal_runs_or_is_explained(
    name: str, whole: bool
) -> None:
    if not whole and name != "pgd":  # the one whose guard is a decorator
        pytest.skip("with --whole")
    report = ablate(library.find(name), conditions=False)
    assert report.raised is None
    assert report.noise == ()
    for result in report.singles:
        assert result.has("not-run") is None
        assert result.calls == report.calls or result.raised is not None
        assert result.same or all(change.detail for change in result.changes)
    words = "\n".join(says(report))
    assert all(f"(line {guard.line})" in words for guard in report.guards)
