"""Each fault does what its name says, at its call and at no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pertdbg.errors import PertdbgError
from pertdbg.layer import PerturbationLayer
from pertdbg.scenario.run import run

TEXT = """\
title = "t"
about = "a"
[model]
kind = "perceptron"
[input]
distribution = "normal"
shape = [4, 6]
[loop]
calls = 6
"""


class Call:
    """What an update finds at entry, and what it returns."""

    def __init__(self, layer: PerturbationLayer) -> None:
        delta = layer.delta
        gradient = None if delta is None else delta.grad
        self.gradient = None if gradient is None else gradient.clone()
        self.input, self.kept = layer.input, layer.input.detach().clone()
        self.version = layer.input._version
        self.perturbed = getattr(layer, "perturbated_input", None)
        self.values = None if self.perturbed is None else self.perturbed.detach().clone()
        self.returned: bool | None = None


def calls(folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    path = folder / "mine.toml"
    path.write_text(TEXT + f'[[fault]]\nkind = "{fault}"\ncall = 4\n' * bool(fault))
    found: list[Call] = []
    original = PerturbationLayer.update_delta

    def update(layer: PerturbationLayer, requires_grad: bool = False) -> bool:
        found.append(Call(layer))
        found[-1].returned = original(layer, requires_grad)
        return found[-1].returned

    monkeypatch.setattr(PerturbationLayer, "update_delta", update)
    run(path)
    return found


def gradients(found: list[Call]) -> list[Tensor]:
    return [call.gradient for call in found if call.gradient is not None]


@pytest.mark.parametrize(("fault", "bad"), [("nan-gradient", "isnan"), ("inf-gradient", "isinf")])
def test_one_element_is_not_finite_and_only_that_update_is_refused(
    fault: str, bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calls(tmp_path, fault, monkeypatch)
    counts = [int(getattr(torch, bad)(gradient).sum()) for gradient in gradients(found)]
    assert counts == [0, 0, 1, 0, 0]
    assert [call.returned for call in found] == [True, True, True, False, True, True]


def test_a_zero_gradient_is_zero_at_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gradients(calls(tmp_path, "zero-gradient", monkeypatch))
    assert [bool((gradient == 0).all()) for gradient in found] == [False, False, True, False, False]


def test_a_skipped_backward_leaves_no_gradient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AttributeError, match="norm"):
        calls(tmp_path, "skip-backward", monkeypatch)


def test_another_batch_replaces_the_input_and_leaves_the_perturbed_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calls(tmp_path, "other-batch", monkeypatch)
    assert [call.input is found[0].input for call in found] == [True] * 3 + [False] * 3
    gaps = []
    for call in found[1:]:
        assert call.values is not None
        gaps.append(float((call.values - call.kept).abs().max()) > 0.1)
    assert gaps == [False, False, True, False, False]


def test_a_write_in_place_counts_a_version_and_changes_the_kept_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calls(tmp_path, "write-input-in-place", monkeypatch)
    assert [call.version for call in found] == [0, 0, 0, 1, 1, 1]
    assert [torch.equal(call.kept, found[0].kept) for call in found] == [True] * 3 + [False] * 3


def test_a_write_through_data_changes_the_perturbed_input_and_counts_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = calls(tmp_path, "", monkeypatch)[3]
    monkeypatch.undo()
    written = calls(tmp_path, "write-through-data", monkeypatch)[3]
    assert sound.values is not None
    assert written.values is not None
    assert written.perturbed is not None
    moved = written.values - sound.values
    assert 0.03 < float(moved.std()) < 0.3
    assert written.perturbed._version == 0


def test_a_fault_draws_alike_each_time_and_otherwise_with_another_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[Any] = []
    for extra in ("", "", "seed = 1\n"):
        path = tmp_path / "mine.toml"
        path.write_text(TEXT + '[[fault]]\nkind = "write-input-in-place"\ncall = 3\n' + extra)
        places.append(run(path).layer.input)
    assert torch.equal(places[0], places[1])
    assert not torch.equal(places[0], places[2])


def test_a_fault_that_a_layer_can_not_have_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "import torch\n"
        "class Plain(torch.nn.Module):\n"
        "    delta = None\n"
        "    def adversarial_(self, on=True):\n        self.on = on\n"
        "    def forward(self, x):\n"
        "        if self.on:\n"
        "            if self.delta is None: self.update_delta()\n"
        "            return self.input.detach() + self.delta\n"
        "        self.input = x\n        return x\n"
        "    def update_delta(self, requires_grad=True):\n"
        "        self.delta = torch.zeros(4, 64, requires_grad=True)\n"
    )
    path = tmp_path / "mine.toml"
    fault = '[[fault]]\nkind = "other-batch"\ncall = 2\n[layer]\nclass = "plain.py:Plain"\n'
    path.write_text(TEXT + fault)
    with pytest.raises(PertdbgError, match="needs a layer with adversarial_mode; Plain has none"):
        run(path)
