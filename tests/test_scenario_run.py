"""Scenarios are ordinary programs: seeded, repeatable, and their failures are told plainly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from _layers import OtherLayer
from pertdbg.layer import PerturbationLayer
from pertdbg.scenario.build import build
from pertdbg.scenario.library import find
from pertdbg.scenario.load import load
from pertdbg.scenario.models import Encoder
from pertdbg.scenario.run import prepare, run
from pertdbg.scenario.seeds import stream

HEAD = 'title = "t"\nabout = "a"\n'
NORMAL = HEAD + '[model]\nkind = "perceptron"\n[input]\ndistribution = "normal"\nshape = [4, 6]\n'


def scenario(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def deltas(path: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Run and collect what each update of the reference layer leaves."""
    found: list[Tensor] = []
    original = PerturbationLayer.update_delta

    def update(layer: PerturbationLayer, requires_grad: bool = False) -> bool:
        returned = original(layer, requires_grad)
        assert layer.delta is not None
        found.append(layer.delta.detach().clone())
        return returned

    with monkeypatch.context() as patch:
        patch.setattr(PerturbationLayer, "update_delta", update)
        run(path, steps)
    return found


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.parametrize("name", ["sift", "sift-fp16", "stale-batch", "sift-learner"])
def test_the_same_scenario_gives_the_same_bits_twice(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = deltas(find(name), 10, monkeypatch)
    torch.manual_seed(99)
    torch.rand(7)
    assert equal(first, deltas(find(name), 10, monkeypatch))
    assert len(first) == 10


def test_sift_is_the_loop_written_out_around_another_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    path = find("sift")
    mine = deltas(path, 6, monkeypatch)
    tokens = torch.tensor(list((path.parent / "sonnets.txt").read_bytes())[: 8 * 32]).reshape(8, 32)
    torch.manual_seed(0)
    layer: Any = OtherLayer(64)
    model = Encoder(layer, load(path).model, tokens)
    torch.manual_seed(stream("loop", 0))
    clean = model(tokens).detach().log_softmax(-1)
    layer.adversarial_(True)
    logits = model(tokens)
    theirs = [layer.delta.detach().clone()]
    for _ in range(5):
        loss = functional.kl_div(logits.log_softmax(-1), clean.exp(), reduction="sum")
        loss.backward()  # type: ignore[no-untyped-call]
        layer.update_delta(True)
        theirs.append(layer.delta.detach().clone())
        logits = model(tokens)
    assert torch.equal(mine[0], theirs[0])
    for one, other in zip(mine[1:], theirs[1:], strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-6)


def test_delta_is_no_copy_of_what_else_was_drawn() -> None:
    built = run(find("sift"), 1)
    assert isinstance(built.layer, PerturbationLayer)
    assert built.layer.delta is not None
    drawn = built.layer.delta.detach().reshape(-1)
    for parameter in built.model.parameters():
        if parameter.numel() == drawn.numel():
            pair = torch.stack([drawn, parameter.detach().reshape(-1)])
            assert float(torch.corrcoef(pair)[0, 1].abs()) < 0.05


@pytest.mark.parametrize("steps", [1, 2, 5, 7])
@pytest.mark.parametrize("name", ["sift", "sift-learner"])
def test_steps_are_the_update_calls_with_the_creations_among_them(
    name: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(deltas(find(name), steps, monkeypatch)) == steps


def test_accumulating_two_halves_of_a_gradient_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = deltas(scenario(tmp_path, NORMAL), 8, monkeypatch)
    twice = deltas(scenario(tmp_path, NORMAL + "[loop]\naccumulate = 2"), 8, monkeypatch)
    assert equal(plain, twice)
    assert not torch.equal(plain[0], plain[-1])


@pytest.mark.parametrize("said", ["clean_gradients = false", "freeze = false"])
def test_what_the_detached_input_makes_irrelevant_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    plain = deltas(scenario(tmp_path, NORMAL), 8, monkeypatch)
    assert equal(plain, deltas(scenario(tmp_path, NORMAL + f"[loop]\n{said}"), 8, monkeypatch))


def test_after_its_updates_a_batch_makes_way_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    path = scenario(tmp_path, NORMAL + "[loop]\nupdates = 2")
    prepared = prepare(path, 7)
    batches = prepared.built.batches

    def counted(number: int) -> Any:
        seen.append(number)
        return batches(number)

    monkeypatch.setattr(prepared.loop, "batches", counted)
    prepared.run()
    assert seen == [0, 1, 2]


def test_an_optimizer_trains_the_model_between_batches(tmp_path: Path) -> None:
    text = NORMAL + "[loop]\nupdates = 2\n[loop.optimizer]\nlearning_rate = 0.1\n"
    before = [p.detach().clone() for p in build(load(scenario(tmp_path, text))).model.parameters()]
    kept = run(scenario(tmp_path, text), 3).model.parameters()
    assert all(map(torch.equal, before, kept))
    trained = run(scenario(tmp_path, text), 4).model.parameters()
    assert not all(map(torch.equal, before, trained))


def test_progress_says_what_takes_time() -> None:
    said: list[str] = []
    run(find("sift"), 1, said.append)
    assert said == ["reading the input", "building the model", "running"]


def test_each_call_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run(find("nan-gradient"), 6)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["call", str(n)] for n in range(1, 7)]
    assert [line.endswith("update refused") for line in lines] == [False] * 4 + [True, False]


def test_an_exception_of_the_run_ends_the_program_as_it_would_end_a_script() -> None:
    code = "from pertdbg.scenario import library, run; run.main(library.find('no-backward'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 4
    last = done.stderr.splitlines()[-1]
    assert last == "AttributeError: 'NoneType' object has no attribute 'norm'"
