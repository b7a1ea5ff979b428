"""The scenarios that teach: each shows what it expects, and no longer does once it is repaired."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pertdbg.ablation.observed import Observed, observe
from pertdbg.scenario import library
from pertdbg.scenario.expect import evaluate
from pertdbg.scenario.load import load

RUNNER = """
import gc, json, os, sys
import torch
from pertdbg.ablation.scenariochild import perform
from pertdbg.ablation.variant import Request, Target, Variant
torch.set_num_threads(1)
gc.freeze()
for scenario, folder in json.loads(sys.argv[1]):
    pid = os.fork()
    if pid == 0:
        perform(Request(Target(scenario), folder, Variant()))
        os._exit(0)
    os.waitpid(pid, 0)
"""

RIGHT = ("smart", "freelb", "vat", "pgd", "fgm", "awp")


@dataclass(frozen=True)
class Repair:
    """How a person mends a scenario: in the class of its layer, or in its own file."""

    old: str
    new: str
    where: str = ""
    """``file.py:Class``; nothing for the scenario's file."""


GRAPH, NUMBERS, PROOFS = "mistakes_graph.py:", "mistakes_numbers.py:", "detach_proofs.py:"
DETACHED = "self.input.detach() + self.delta"
CREATED = "self.first() if self.delta is None else self.moved()"

REPAIRS = {
    "clamped-too-late": Repair(
        "delta.requires_grad_(requires_grad).clamp(-1, 1)",
        "delta.clamp(-1, 1).requires_grad_(requires_grad)",
        GRAPH + "ClampedTooLate",
    ),
    "path-cut": Repair("(self.input + self.delta).detach()", DETACHED, GRAPH + "PathCut"),
    "no-gradient-asked": Repair(
        f"= {CREATED}", f"= ({CREATED}).requires_grad_(True)", GRAPH + "NoGradientAsked"
    ),
    "input-attached": Repair("self.input + self.delta", DETACHED, GRAPH + "InputAttached"),
    "graph-grows": Repair(
        "= self.delta + self.step(grad)",
        "= (self.delta + self.step(grad)).detach().requires_grad_()",
        GRAPH + "GraphGrows",
    ),
    "leaf-in-place": Repair(
        "self.delta += self.step(grad)",
        "self.delta = self.moved().requires_grad_()",
        GRAPH + "LeafInPlace",
    ),
    "wrong-gradient": Repair(
        "self.perturbated_input.grad", "self.delta.grad", GRAPH + "WrongGradient"
    ),
    "gradient-kept": Repair(
        "self.delta.data.add_(self.step(grad))",
        "self.delta.data.add_(self.step(grad)); self.delta.grad = None",
        GRAPH + "GradientKept",
    ),
    "not-perturbed-anew": Repair(
        "self.delta.data = self.delta.data + self.step(grad)",
        f"self.delta.data = self.delta.data + self.step(grad); self.perturbated_input = {DETACHED}",
        GRAPH + "NotPerturbedAnew",
    ),
    "best-kept-by-detach": Repair(
        "self.best = self.delta.detach()",
        "self.best = self.delta.detach().clone()",
        GRAPH + "BestKeptByDetach",
    ),
    "nan-let-through": Repair("self.step()", "self.step().nan_to_num()", NUMBERS + "NanLetThrough"),
    "nothing-in-the-denominator": Repair(
        "/ grad.abs().amax(-1, keepdim=True)",
        "/ (1e-6 + grad.abs().amax(-1, keepdim=True))",
        NUMBERS + "NothingInTheDenominator",
    ),
    "ball-around-the-last": Repair(
        "self.keep(self.delta + step, ",
        "self.keep((self.delta + step).clamp(-bound, bound), ",
        NUMBERS + "BallAroundTheLast",
    ),
    "starts-at-zero": Repair("= zeros if", "= self.first() if", NUMBERS + "StartsAtZero"),
    "half-delta": Repair("delta.to(self.input)", "delta.float()", NUMBERS + "HalfDelta"),
    "one-row": Repair("self.first()[:1]", "self.first()", NUMBERS + "OneRow"),
    "nothing-added": Repair("strength = 0", "strength = 1", NUMBERS + "NothingAdded"),
    "not-cast-back": Repair(DETACHED, f"({DETACHED}).to(self.input)", NUMBERS + "NotCastBack"),
    "step-lost": Repair(
        "delta.add(self.step())", "delta = delta + self.step()", NUMBERS + "StepLost"
    ),
    "drawn-anew": Repair(
        "self.first() + self.step()", "self.delta + self.step()", NUMBERS + "DrawnAnew"
    ),
    "smart-tiny-noise": Repair("noise = 1e-05", "noise = 1e-03"),
    "in-place-alias": Repair(
        ".add_(self.delta)", ".add(self.delta)", "in_place_alias.py:AliasLayer"
    ),
    "nan-gradient": Repair('[[fault]]\nkind = "nan-gradient"\ncall = 5\n', ""),
    "no-backward": Repair('[[fault]]\nkind = "skip-backward"\ncall = 5\n', ""),
    "sift-bf16": Repair('dtype = "bfloat16"', 'dtype = "float32"'),
    "sift-fp16": Repair('dtype = "float16"', 'dtype = "float32"'),
    "detach-shares-storage": Repair(".detach()", ".detach().clone()", PROOFS + "SharesStorage"),
    "detach-clone": Repair(".detach().clone()", ".detach()", PROOFS + "Independent"),
    "detach-never-requires-grad": Repair(".detach()", " * 1", PROOFS + "NeverRequiresGrad"),
    "detach-no-tangent": Repair("self.source.detach()", "self.source * 1", PROOFS + "NoTangent"),
    "detach-seen-both-ways": Repair(
        "self.source.detach()", "self.source.clone()", PROOFS + "SeenBothWays"
    ),
    "detach-version-error": Repair(".mul_(4)", ".mul(4)", PROOFS + "VersionError"),
    "detach-data-silent": Repair(
        "self.source.data", "self.source.clone().data", PROOFS + "SilentData"
    ),
    "detach-in-place": Repair("detach_()", "detach()", PROOFS + "InPlace"),
    "detach-in-place-view": Repair("detach_()", "detach()", PROOFS + "InPlaceOnView"),
    "detach-or-no-grad": Repair("no_grad()", "enable_grad()", PROOFS + "NoGrad"),
    "detach-or-inference": Repair("inference_mode()", "no_grad()", PROOFS + "InferenceMode"),
    "detach-or-requires-grad-false": Repair(
        "self.source.requires_grad_(False)", "self.source.detach()", PROOFS + "RequiresGradFalse"
    ),
    "detach-ninety-nine": Repair("delta.detach()", "delta.detach().clone()", PROOFS + "Ninetynine"),
}
"""By scenario. Of those about detach, the repair makes the statement untrue."""

MINE = (*RIGHT, *(name for name in REPAIRS if name in library.names()))


def run_all(scenarios: Iterable[Path], folder: Path) -> list[Observed]:
    """Run scenarios one after the other, each in a process forked from one that has torch."""
    jobs = []
    for number, scenario in enumerate(scenarios):
        (folder / str(number)).mkdir()
        jobs.append((str(scenario), str(folder / str(number))))
    command = [sys.executable, "-c", RUNNER, json.dumps(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [observe(Path(place), 0, late=False) for _, place in jobs]


def unmet(scenario: Path, observed: Observed) -> list[str]:
    assert observed.error is None, (scenario, observed.error)
    outcomes = evaluate(load(scenario).expect, observed.records)
    return [outcome.text for outcome in outcomes if not outcome.met]


def test_the_library_has_thirteen_proofs_six_attacks_and_twenty_one_mistakes() -> None:
    assert set(MINE) == {*RIGHT, *REPAIRS}
    assert sum(name.startswith("detach-") for name in MINE) == 13
    mistakes = [r for r in REPAIRS.values() if r.where.startswith("mistakes")]
    assert len(mistakes) == 20


def test_every_scenario_shows_what_it_expects(tmp_path: Path, whole: bool) -> None:
    scenarios = [library.find(name) for name in (list(MINE) if whole else list(MINE)[1::2])]
    observed = run_all(scenarios, tmp_path)
    found = {s.stem: unmet(s, o) for s, o in zip(scenarios, observed, strict=True)}
    assert {name: texts for name, texts in found.items() if texts} == {}


def repaired(name: str, folder: Path) -> Path:
    """Copy the scenarios and mend one, in the class that it names."""
    shutil.copytree(library.folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    repair = REPAIRS[name]
    file, _, cls = repair.where.partition(":")
    path = folder / (file or f"{name}.toml")
    text = path.read_text()
    begin = text.index(f"class {cls}(") if cls else 0
    end = text.find("\nclass ", begin) if cls else -1
    end = len(text) if end < 0 else end
    part = text[begin:end]
    assert part.count(repair.old) == 1, (
        f"{name}: {repair.old!r} stands {part.count(repair.old)} times"
    )
    path.write_text(text[:begin] + part.replace(repair.old, repair.new) + text[end:])
    return folder / f"{name}.toml"


def test_no_scenario_shows_what_it_expects_once_it_is_repaired(tmp_path: Path, whole: bool) -> None:
    names = list(REPAIRS) if whole else list(REPAIRS)[::3]
    scenarios = [repaired(name, tmp_path / name) for name in names]
    (tmp_path / "runs").mkdir()
    observed = run_all(scenarios, tmp_path / "runs")
    still = [s.stem for s, o in zip(scenarios, observed, strict=True) if not unmet(s, o)]
    assert still == []


@pytest.mark.parametrize("name", [name for name in REPAIRS if not name.startswith("sift")])
def test_a_repaired_mistake_runs_to_its_end(name: str, tmp_path: Path, whole: bool) -> None:
    if not whole:
        pytest.skip("with --whole")
    scenario = repaired(name, tmp_path / "copy")
    (tmp_path / "runs").mkdir()
    (observed,) = run_all([scenario], tmp_path / "runs")
    assert observed.raised is None
