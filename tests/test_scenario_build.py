"""What a scenario names is read and built, and what can't be is told plainly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pertdbg.errors import PertdbgError
from pertdbg.scenario.build import build
from pertdbg.scenario.load import load
from pertdbg.scenario.run import prepare, run

HEAD = 'title = "t"\nabout = "a"\n'
NORMAL = HEAD + '[model]\nkind = "perceptron"\n[input]\ndistribution = "normal"\nshape = [4, 6]\n'


@pytest.fixture(autouse=True)
def _path_as_it_was(tmp_path: Path) -> Iterator[None]:
    """Scenarios put their folder on the path and their modules among the imported ones."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def scenario(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_arrays_of_numbers_come_from_npy_csv_and_safetensors(tmp_path: Path) -> None:
    rows = torch.arange(12, dtype=torch.float32).reshape(6, 2)
    np.save(tmp_path / "a.npy", rows.double().numpy())
    save_file({"x": rows, "y": -rows}, tmp_path / "a.safetensors")
    lines = ["left,right", *(f"{a},{b}" for a, b in rows.tolist())]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    model = '[model]\nkind = "perceptron"\n'
    for said in ('"a.npy"', '"a.csv"', '"a.safetensors"\nkey = "x"'):
        text = f"{HEAD}{model}[input]\nfile = {said}\nshape = [4, 2]\n"
        batches = build(load(scenario(tmp_path, text))).batches
        assert torch.equal(batches(0).inputs, rows[:4])
        assert torch.equal(batches(1).inputs, torch.cat([rows[4:], rows[:2]]))


def test_labels_of_a_text_are_the_bytes_that_follow(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abcdefg")
    text = f'{HEAD}[input]\nfile = "a.txt"\nshape = [2, 3]\nlabels = "next"\n'
    batch = build(load(scenario(tmp_path, text))).batches(0)
    assert bytes(batch.inputs.flatten().tolist()) == b"abcdef"
    assert batch.labels is not None
    assert bytes(batch.labels.flatten().tolist()) == b"bcdefg"


def test_random_numbers_are_as_asked_for_and_differ_between_batches(tmp_path: Path) -> None:
    asked = 'distribution = "uniform"\nlow = 2.0\nhigh = 3.0\nshape = [50, 40]\nseed = 5\n'
    text = f'{HEAD}[model]\nkind = "perceptron"\n[input]\n{asked}'
    batches = build(load(scenario(tmp_path, text))).batches
    first = batches(0).inputs
    assert (float(first.min()) >= 2, float(first.max()) < 3) == (True, True)
    assert abs(float(first.mean()) - 2.5) < 0.02
    assert torch.equal(first, batches(0).inputs)
    assert not torch.equal(first, batches(1).inputs)


@pytest.mark.parametrize(
    ("file", "content", "error"),
    [
        ("a.csv", "1,2\n3,x\n", r"a.csv:2: could not convert"),
        ("a.csv", "1,2\n3\n", r"a.csv: needs lines of numbers, all of one length"),
        ("a.npy", "nothing", r"a.npy: can't be read: ValueError: "),
        ("a.safetensors", "nothing", r"a.safetensors: can't be read: "),
    ],
)
def test_a_damaged_file_is_told_by_name(
    tmp_path: Path, file: str, content: str, error: str
) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(PertdbgError, match=error):
        build(load(scenario(tmp_path, f'{HEAD}[input]\nfile = "{file}"\n')))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("", "mine.toml: model.build: own.py has no attribute 'build'"),
        ("def builds(layer): ...", "no attribute 'build'; did you mean builds?"),
        ("def build(layer): return 1/0", "own.py:build raised ZeroDivisionError: division by zero"),
        ("def build(): ...", r"own.py:build raised TypeError: build\(\) takes 0"),
        ("def build(layer): ...", "own.py:build returned a NoneType, not a torch.nn.Module"),
        ("import nothing_such", "importing own.py raised ModuleNotFoundError: No module named"),
        ("def build(layer:", "importing own.py raised SyntaxError"),
    ],
)
def test_python_that_fails_is_told_by_file_name_and_exception(
    tmp_path: Path, code: str, error: str
) -> None:
    (tmp_path / "own.py").write_text(code)
    text = f'model = "own.py:build"\n{HEAD}[input]\ndistribution = "normal"\nshape = [2, 3]\n'
    with pytest.raises(PertdbgError, match=error):
        prepare(scenario(tmp_path, text))


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("pertdbg.nowhere:Layer", "layer.class: importing pertdbg.nowhere raised ModuleNotFound"),
        ("torch.nn:Sequentia", "torch.nn has no attribute 'Sequentia'; did you mean Sequential?"),
        ("torch.nn:Sequential", "torch.nn:Sequential has no method 'adversarial_'"),
        ("pathlib:Path", "pathlib:Path is not a class of modules"),
    ],
)
def test_a_layer_that_is_none_is_told(tmp_path: Path, place: str, error: str) -> None:
    with pytest.raises(PertdbgError, match=error):
        prepare(scenario(tmp_path, NORMAL + f'[layer]\nclass = "{place}"'))


def test_wrong_arguments_of_a_layer_are_told(tmp_path: Path) -> None:
    with pytest.raises(PertdbgError, match=r"layer.arguments: .* raised TypeError: .*'rate'"):
        prepare(scenario(tmp_path, NORMAL + "[layer.arguments]\nrate = 1"))


def test_two_files_of_one_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    made: list[float] = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "own.py").write_text(
            "import torch\n"
            "def build(layer):\n"
            "    return torch.nn.Sequential(layer, torch.nn.Linear(6, 2))\n"
            f"def rows():\n    return torch.ones(4, 6) * len('{name}' + 'x' * {len(made)})\n"
        )
        head = f'model = "own.py:build"\n{HEAD}[input]\nbuild = "own.py:rows"\n'
        text = head + "[layer.arguments]\nhidden_size = 6\n"
        made.append(run(scenario(folder, text), 2).batches(0).inputs.max().item())
    assert made == [3.0, 4.0]


def test_a_shape_that_the_data_does_not_have_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((6, 2), dtype=np.float32))
    text = f'{HEAD}[input]\nfile = "a.npy"\nshape = [4, 3]\n'
    with pytest.raises(PertdbgError, match=r"6 rows of \[2\]; .* asks for 4 rows of \[3\]"):
        prepare(scenario(tmp_path, text))


def test_a_device_that_is_not_here_is_told(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(PertdbgError, match=r"input.device: no cuda here: "):
        prepare(scenario(tmp_path, NORMAL + 'device = "cuda"'))
