"""Guards of a script's updates are found and taken out, wherever the update stands."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pertdbg.guards.find import find_guards
from pertdbg.guards.source import NoSource
from pertdbg.guards.written import MODULE, without, written_at

PGD = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 3)
images, labels = torch.rand(4, 6), torch.tensor([0, 1, 2, 0])


def projected(adv, clean):
    return torch.clamp(adv, clean - 0.03, clean + 0.03)


def attack(net, images, labels, steps):
    adv = images.clone().detach() + 0.0
    for _ in range(steps):
        adv = adv.detach().requires_grad_(True)
        loss = nn.functional.cross_entropy(net(adv), labels)
        grad = torch.autograd.grad(loss, adv)[0]
        adv = projected(adv + 0.02 * grad.sign(), images)
    return adv.detach()


for _ in range(2):
    attack(net, images, labels, int(sys.argv[1]))
print("the end")
"""
FGM = """
import torch
from torch import nn


class FGM:
    def __init__(self, model):
        self.model, self.backup = model, {}

    def attack(self, epsilon=0.5):
        for name, p in self.model.named_parameters():
            if p.grad is not None:
                self.backup[name] = p.data.clone()
                p.data.add_(epsilon * p.grad / (p.grad.norm() + 1e-12))

    def restore(self):
        for name, p in self.model.named_parameters():
            if name in self.backup:
                p.data = self.backup[name]
        self.backup = {}


torch.manual_seed(0)
net = nn.Linear(6, 3)
fgm = FGM(net)
x = torch.randn(4, 6)
for _ in range(3):
    net.zero_grad()
    net(x).pow(2).sum().backward()
    fgm.attack()
    net(x).pow(2).sum().backward()
    fgm.restore()
"""


def ablated(folder: Path, *words: str, status: int = 0) -> Any:
    command = [sys.executable, "-m", "pertdbg", "ablate", "--json", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def by_text(report: Any) -> dict[str, Any]:
    texts = {guard["id"]: guard["text"] for guard in report["guards"]}
    return {texts[run["without"][0]]: run for run in report["runs"] if len(run["without"]) == 1}


def values_differ_at(run: Any) -> int | None:
    return next((change["call"] for change in run["changes"] if change["kind"] == "values"), None)


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the loop as a module that another one imports."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "attacks").mkdir()
    (folder / "attacks" / "__init__.py").write_text("")
    (folder / "attacks" / "loop.py").write_text(PGD)
    (folder / "attacks" / "__main__.py").write_text("import attacks.loop\n")
    return folder


@pytest.fixture(scope="module")
def pgd(package: Path) -> Any:
    """The report on the module, run to its end."""
    before = contents(package)
    report = ablated(package, "-m", "attacks", "--", "4")
    assert contents(package) == before
    return report


def test_guards_of_a_loop_and_of_a_function_that_it_calls(pgd: Any) -> None:
    report, runs = pgd, by_text(pgd)
    # By reading: what stands in the text above, the function that is called behind the one that
    # calls it.
    assert [guard["kind"] for guard in report["guards"]] == [
        *("clone", "detach", "detach", "requires_grad_", "detach", "clamp")
    ]
    flag = runs["adv.detach().requires_grad_(True)"]
    assert flag["raised"]["type"] == "RuntimeError"
    assert flag["first_call"] == 2
    line = PGD.splitlines().index("        grad = torch.autograd.grad(loss, adv)[0]") + 1
    assert flag["raised"]["line"] == line
    # Four steps of 0.02 leave the ball of 0.03 around the image; the clamp holds them in it.
    # The first step leads to 0.02 off the image, the second may lead to 0.04.
    assert values_differ_at(runs["torch.clamp(adv, clean - 0.03, clean + 0.03)"]) == 3
    assert runs["images.clone()"]["same"]  # the addition makes a new tensor


def test_what_an_object_does_to_weights(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FGM)
    report = ablated(tmp_path, "train.py")
    runs = by_text(report)
    # Three in attack; what restore does is not called by attack, and found all the same.
    lines = FGM.splitlines()
    kinds = [(guard["kind"], lines[guard["line"] - 1].strip()) for guard in report["guards"]]
    assert kinds[:2] == [(kind, "self.backup[name] = p.data.clone()") for kind in ("data", "clone")]
    assert kinds[-1] == ("data", "p.data = self.backup[name]")
    # Without the copy the backup is the weight itself, and moves with it.
    assert not runs["p.data.clone()"]["same"]


def test_a_run_that_is_cut_short(package: Path, pgd: Any) -> None:
    short = ablated(package, "-m", "attacks", "--steps", "2", "--", "4")
    assert len(pgd["runs"]) == len(short["runs"]) == 6
    clamp = "torch.clamp(adv, clean - 0.03, clean + 0.03)"
    assert values_differ_at(by_text(short)[clamp]) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("print('no update')", "plain.py: no update of a perturbation was seen"),
        (None, "plain.py: no such script"),
    ],
)
def test_what_can_not_be_ablated_is_said_in_a_line(
    tmp_path: Path, text: str | None, says: str
) -> None:
    if text is not None:
        (tmp_path / "plain.py").write_text(text)
    assert ablated(tmp_path, "plain.py", status=2) == f"pertdbg: {says}\n"


def test_arguments_are_for_scripts(tmp_path: Path) -> None:
    assert "for a script" in ablated(tmp_path, "sift", "--", "--lr", status=2)


MODULE_TEXT = """import torch
x = torch.ones(2)
def unrelated(y):
    return y.detach()
for _ in range(3):
    x = x.detach().clone()
    with torch.no_grad():
        x = x * 2
class Other:
    def method(self):
        return self.x.data
"""


def test_code_outside_of_functions_keeps_the_definitions_around_it(tmp_path: Path) -> None:
    path = tmp_path / "loop.py"
    path.write_text(MODULE_TEXT)
    (module,) = written_at(str(path), 1)
    guards = find_guards([module])
    assert module.name == MODULE
    assert [(guard.kind, guard.line) for guard in guards] == [
        *(("detach", 6), ("clone", 6), ("no_grad", 7))
    ]
    scope: dict[str, Any] = {}
    exec(compile(without(MODULE_TEXT, str(path), guards), str(path), "exec"), scope)
    assert scope["x"].tolist() == [8.0, 8.0]
    assert scope["unrelated"](scope["x"]).grad_fn is None
    assert scope["Other"].method.__code__.co_firstlineno == 10


def test_a_decorator_goes_and_the_function_begins_where_it_did(tmp_path: Path) -> None:
    text = "import torch\n@torch.no_grad()\ndef step(x):\n    return x * 2\n"
    path = tmp_path / "step.py"
    path.write_text(text)
    sources = written_at(str(path), 2)
    guards = find_guards(sources)
    assert [guard.text for guard in guards] == ["@torch.no_grad()"]
    scope: dict[str, Any] = {}
    exec(compile(without(text, str(path), guards), str(path), "exec"), scope)
    import torch

    assert scope["step"](torch.ones(1, requires_grad=True)).requires_grad
    assert scope["step"].__code__.co_firstlineno == 2


def test_nested_functions_are_read_once_and_missing_files_are_named(tmp_path: Path) -> None:
    text = "def outer(x):\n    def inner(y):\n        return y.detach()\n    return inner(x)\n"
    path = tmp_path / "nested.py"
    path.write_text(text)
    guards = find_guards(written_at(str(path), 1))
    assert [(guard.kind, guard.line) for guard in guards] == [("detach", 3)]
    with pytest.raises(NoSource, match="no source to be had"):
        written_at(str(tmp_path / "gone.py"), 1)
