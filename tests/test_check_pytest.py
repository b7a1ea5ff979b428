"""The plugin for pytest, in a pytest of its own."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TESTS = """
import unittest

import pytest
import torch
from torch import nn

X = torch.randn(4, 6)


class Layer(nn.Module):
    def __init__(self, learning_rate=0.1):
        super().__init__()
        self.input, self.delta, self.learning_rate = X, None, learning_rate

    def update_delta(self):
        if self.delta is None:
            d = torch.rand(X.shape)
        else:
            d = self.delta.detach() + self.learning_rate * self.delta.grad.sign()
        self.delta = d.requires_grad_()
        self.perturbated_input = self.input + self.delta


def steps(layer, loss):
    for _ in range(3):
        layer.update_delta()
        loss(layer.perturbated_input).backward()
    layer.update_delta()


def attack(x):
    delta = torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_()
        (0 * (x + delta)).sum().backward()
        delta = (delta + 0.1 * delta.grad.sign()).detach()
    return delta


def test_healthy(pertdbg_check):
    steps(Layer(), lambda x: x.square().sum())


def test_flat_loss(pertdbg_check):
    steps(Layer(), lambda x: 0 * x.sum())


def test_flat_loss_in_a_loop(pertdbg_check):
    attack(X)


def test_flat_loss_allowed(pertdbg_check):
    pertdbg_check.allow("grad-zero")
    steps(Layer(), lambda x: 0 * x.sum())


@pytest.mark.pertdbg(fail_on="error")
def test_only_a_warning():
    steps(Layer(), lambda x: 0 * x.sum())


@pytest.mark.pertdbg(allow=["grad-zero"])
def test_allowed_by_the_marker():
    steps(Layer(), lambda x: 0 * x.sum())


def test_nothing_to_see(pertdbg_check):
    pass


def test_fails_by_itself(pertdbg_check):
    steps(Layer(), lambda x: 0 * x.sum())
    assert X.sum() == 1234


@pytest.mark.pertdbg(fail_on="eror")
def test_severity_misspelt():
    steps(Layer(), lambda x: x.square().sum())


@pytest.mark.pertdbg(failon="error")
def test_argument_misspelt():
    steps(Layer(), lambda x: x.square().sum())


@pytest.mark.pertdbg(allow="grad-zeroo")
def test_kind_misspelt():
    steps(Layer(), lambda x: x.square().sum())


@pytest.mark.pertdbg("error", allow="grad-zero")
def test_one_kind_allowed(pertdbg_check):
    steps(Layer(), lambda x: 0 * x.sum())


class OfUnittest(unittest.TestCase):
    @pytest.mark.pertdbg
    def test_flat_loss_in_unittest(self):
        steps(Layer(), lambda x: 0 * x.sum())

    @pytest.mark.pertdbg
    def test_healthy_in_unittest(self):
        steps(Layer(), lambda x: x.square().sum())

    @pytest.mark.pertdbg
    def test_fails_by_itself_in_unittest(self):
        steps(Layer(), lambda x: 0 * x.sum())
        self.assertEqual(1, 2)


def test_not_watched():
    steps(Layer(), lambda x: 0 * x.sum())
"""

FAILED = {
    "test_flat_loss",
    "test_flat_loss_in_a_loop",
    "test_nothing_to_see",
    "test_fails_by_itself",
    "test_severity_misspelt",
    "test_argument_misspelt",
    "test_kind_misspelt",
    "OfUnittest::test_flat_loss_in_unittest",
    "OfUnittest::test_fails_by_itself_in_unittest",
}
SAID = {
    "test_severity_misspelt": "fail_on is one of error, warning, never, not 'eror'",
    "test_argument_misspelt": "got an unexpected keyword argument 'failon'",
    "test_kind_misspelt": "grad-zeroo: no kind of finding; did you mean grad-zero?",
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_it.py").write_text(TESTS)
    words = ["-p", "no:pertdbg", "-p", "pertdbg.pytest_plugin", "-p", "no:xdist"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *words,
            "-p",
            "no:cacheprovider",
            "-rA",
            "--strict-markers",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_a_test_fails_exactly_where_something_is_found_or_nothing_was_seen(output: str) -> None:
    failed = {
        line.partition("::")[2].split()[0]
        for line in output.splitlines()
        if line.startswith("FAILED")
    }
    assert failed == FAILED


@pytest.mark.parametrize("name", SAID)
def test_a_mistake_in_a_marker_is_one_line(name: str, output: str) -> None:
    part = output.split(f"_ {name} _")[1].split("\n___")[0]
    assert f"pertdbg: the marker of this test: {SAID[name]}" in part
    assert "pytest_plugin.py" not in part


def test_a_test_that_fails_says_what_was_found(output: str) -> None:
    part = output.split("_ test_flat_loss _")[1].split("_ test_flat_loss_in_a_loop _")[0]
    assert "the test: 4 calls: 1 warning" in part
    assert "grad-zero  call 2 of layer Layer" in part
    assert "the gradient at delta is exactly zero in every element" in " ".join(part.split())
    part = output.split("_ test_flat_loss_in_a_loop _")[1]
    assert "grad-zero  call 2 of layer attack" in part


def test_a_test_that_fails_by_itself_shows_the_findings_too(output: str) -> None:
    part = output.split("_ test_fails_by_itself _")[1]
    assert "assert" in part
    assert "pertdbg check" in part
    assert "grad-zero  call 2 of layer Layer" in part
    part = output.split("_ OfUnittest.test_fails_by_itself_in_unittest _")[1]
    assert "AssertionError: 1 != 2" in part


def test_pytest_finds_the_plugin_by_the_entry_point_of_the_package() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    module = importlib.import_module(project["entry-points"]["pytest11"]["pertdbg"])
    assert callable(module.pertdbg_check)
    assert Path(str(module.__file__)).name == "pytest_plugin.py"
