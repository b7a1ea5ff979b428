"""The scenarios that ship: found, valid, and observed as they expect."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import pertdbg
from pertdbg.errors import PertdbgError
from pertdbg.layer import PerturbationLayer
from pertdbg.scenario import library
from pertdbg.scenario.expect import evaluate
from pertdbg.scenario.load import load
from pertdbg.scenario.run import run

SHIPPED = {
    *("sift", "sift-learner", "sift-fp16", "sift-bf16", "nan-gradient"),
    *("no-backward", "stale-batch", "in-place-alias", "digits-pgd"),
}
DIGITS = importlib.util.find_spec("sklearn") is not None


def test_the_default_comes_first_and_every_scenario_has_a_title() -> None:
    names = [name for name, title in library.listing() if title]
    assert names[0] == "sift"
    assert set(names) >= SHIPPED


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(PertdbgError, match=r"^shift: .*; did you mean sift\? there are sift, "):
        library.find("shift")


@pytest.mark.parametrize("name", library.names())
def test_every_scenario_teaches_and_expects_something(name: str) -> None:
    scenario = load(library.find(name))
    assert library.introduction(library.find(name)) == (scenario.title, scenario.about)
    assert len(scenario.title) <= 80
    assert 300 < len(scenario.about) < 1000
    assert scenario.expect
    assert all(path.is_file() for path in scenario.python_files)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_what_a_scenario_expects_is_what_is_recorded(name: str, tmp_path: Path) -> None:
    if name == "digits-pgd" and not DIGITS:
        pytest.skip("scikit-learn is not installed")
    target = tmp_path / "run.pertdbg"
    command = [sys.executable, "-m", "pertdbg", "record", name, "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if name == "no-backward" else 0), done.stderr
    recording = pertdbg.open(target)
    outcomes = evaluate(load(library.find(name)).expect, recording)
    assert [outcome.text for outcome in outcomes if not outcome.met] == []
    recording.close()


@pytest.mark.parametrize("calls", [20, 200])
def test_no_row_of_sifts_gradients_comes_near_the_guard(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    least = []
    original = PerturbationLayer.update_delta

    def update(layer: PerturbationLayer, requires_grad: bool = False) -> bool:
        if layer.delta is not None:
            gradient = layer.delta.grad
            assert gradient is not None
            least.append(float(gradient.abs().amax(-1).min()))
        return original(layer, requires_grad)

    monkeypatch.setattr(PerturbationLayer, "update_delta", update)
    run(library.find("sift"), calls)
    assert len(least) == calls - 1
    assert min(least) > 1e-5


def test_without_scikit_learn_the_digits_say_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from pertdbg.scenario import library, run\n"
        "run.main(library.find('digits-pgd'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pertdbg.errors.PertdbgError: ")
    assert last.endswith("not installed; install it with: pip install 'pertdbg[digits]'")


@pytest.mark.skipif(not DIGITS, reason="scikit-learn is not installed")
def test_the_digits_attack_raises_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    run(library.find("digits-pgd"))
    lines = capsys.readouterr().out.splitlines()
    losses = [float(line.split()[-1]) for line in lines[1:]]
    assert losses == sorted(losses)
    assert losses[-1] > 2 * losses[0]


def test_the_text_is_the_sonnets_and_nothing_else() -> None:
    text = (library.folder() / "sonnets.txt").read_bytes()
    assert text.isascii()
    lines = text.decode().splitlines()
    numbers = [line for line in lines if line.isupper() and line.isalpha() and line != "I"]
    assert numbers == ["XVIII", "XXIX", "XXX", "LXXIII"]
    assert len([line for line in lines if line and line not in numbers]) == 4 * 14
