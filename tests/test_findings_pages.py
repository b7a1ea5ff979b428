"""The pages of the documentation: one for each kind, and their examples do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pertdbg.findings.kinds import KINDS
from pertdbg.findings.pages import page

HEADINGS = ("## Example", "## What the panels show", "## Repair")

PRELUDE = """
import contextlib
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.0), nn.Tanh(), nn.Linear(16, 3))
MODEL.requires_grad_(False)
X, Y = torch.randn(6, 8), torch.randint(0, 3, (6,))


def run_attack(attack, half=False):
    model = MODEL.half() if half else MODEL.float()
    with contextlib.suppress(Exception):
        attack(model, X.half() if half else X, Y)


def run_layer(layer):
    with contextlib.suppress(Exception):
        for _ in range(4):
            layer.update_delta()
            F.cross_entropy(MODEL.float()(layer.perturbated_input), Y).backward()
"""

ATTACKS = (
    *("grad-missing", "nonleaf-delta", "grad-nonfinite", "update-refused", "grad-zero"),
    *("guard-dominates", "delta-nonfinite", "delta-out-of-bound", "leaf-inplace"),
    *("random-start-dominates", "graph-retained"),
)
DRIVEN = {
    "backward-twice": """
MODEL.float().requires_grad_(True)
with contextlib.suppress(RuntimeError):
    backward_twice(MODEL, X, Y)
MODEL.requires_grad_(False)
""",
    "stochastic-forward": "MODEL[1].p = 0.5\nstochastic_forward(MODEL, X)\nMODEL[1].p = 0.0\n",
    "mode-left-on": """
MODEL.train().requires_grad_(True)
optimizer = torch.optim.SGD(MODEL.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    mode_left_on(MODEL, X, Y).backward()
    optimizer.step()
""",
}
"""What runs an example that is called in its own way."""

LAYERS = ("graph-grows", "storage-shared", "input-modified")


def example(kind: str) -> str:
    found = re.search(r"## Example\n\n```python\n(.*?)```", page(kind), re.DOTALL)
    assert found is not None
    return found[1]


def own_name(kind: str) -> str:
    return kind.replace("-", "_")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The kinds found in each example, all of them run as one script."""
    parts = [PRELUDE]
    for kind in ATTACKS:
        text = example(kind).replace("def attack(", f"def {own_name(kind)}(")
        parts.append(f"{text}\nrun_attack({own_name(kind)}, half={kind == 'update-refused'})\n")
    for kind in LAYERS:
        text, name = example(kind), own_name(kind)
        cls = re.search(r"class (\w+)\(", text)
        assert cls is not None
        parts.append(f"{text.replace(cls[1], name)}\nrun_layer({name}(X.clone()))\n")
    for kind, driver in DRIVEN.items():
        text = re.sub(r"def \w+\(", f"def {own_name(kind)}(", example(kind), count=1)
        parts.append(f"{text}\n{driver}")
    script = tmp_path_factory.mktemp("examples") / "examples.py"
    script.write_text("\n".join(parts))
    done = subprocess.run(
        [sys.executable, "-m", "pertdbg", "check", str(script), "--format", "json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    kinds: dict[str, set[str]] = {}
    for one in json.loads(done.stdout)["findings"]:
        kinds.setdefault(one["layer"], set()).add(one["kind"])
    return kinds


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_a_page_with_every_part_and_an_example_that_is_python(kind: str) -> None:
    text = page(kind)
    assert text.startswith(f"# {kind}\n\n")
    places = [text.index(heading) for heading in HEADINGS]
    assert places == sorted(places)
    compile(example(kind), kind, "exec")
    assert 7 <= len(example(kind).splitlines()) <= 20


@pytest.mark.parametrize("kind", [*ATTACKS, *LAYERS, *DRIVEN])
def test_the_example_of_a_page_has_the_fault_that_it_shows(
    kind: str, found: dict[str, set[str]]
) -> None:
    assert kind in found[own_name(kind)]


def test_the_command_shows_a_page() -> None:
    words = [sys.executable, "-m", "pertdbg", "check", "--explain", "grad-zero"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == page("grad-zero")


def test_a_kind_that_is_none_is_a_mistake_with_the_nearest_one_named() -> None:
    words = [sys.executable, "-m", "pertdbg", "check", "--explain", "grad-zer"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pertdbg: grad-zer: no kind of finding; did you mean grad-zero?")


def test_no_page_is_left_without_a_kind() -> None:
    folder = Path(__file__).parents[1] / "tui" / "pertdbg" / "findings" / "pages"
    assert {path.stem for path in folder.glob("*.md")} == set(KINDS)
