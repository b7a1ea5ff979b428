"""`pertdbg adapters TARGET`: which adapters match a script, before it runs and after."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pertdbg
from _app import calls, record_to
from _scripts import LAYER, PERTDBG, recorded, write
from pertdbg.adapters import shipped
from pertdbg.adapters.matches import matches
from pertdbg.recording.adapters import Match, of_text, to_text
from pertdbg.recording.schema import TEXT_LIMIT

SHAPES = Path(__file__).parent / "shapes"

LOOP = """
def attack(model, x, eps=0.1):
    delta = torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_()
        loss = model(x + delta).square().sum()
        grad, = torch.autograd.grad(loss, delta)
        delta = (delta + 0.05 * grad.sign()).clamp(-eps, eps).detach()
    return delta

attack(torch.nn.Linear(4, 4), torch.ones(2, 4))
"""


def asked(*words: str) -> tuple[str, str, int]:
    done = subprocess.run(
        [str(PERTDBG), "adapters", *words], capture_output=True, text=True, timeout=300
    )
    return done.stdout, done.stderr, done.returncode


def test_a_script_is_told_before_it_runs_and_after(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    path = write(folder, f"{LAYER}\n{LOOP}\ntrain(Layer(), 1)\n")
    before, _, status = asked(str(path))
    assert status == 0
    assert "without running it" in before
    assert [line.split(None, 2) for line in before.splitlines()[1:3]] == [
        ["sift", "matched", "Layer.update_delta"],
        ["pgd-delta", "matched", "attack"],
    ]
    assert "weights" in before
    assert "no class here has attack and restore" in before
    recorded(folder, ["train.py"])
    after, _, status = asked(str(tmp_path / "work.pertdbg"))
    assert status == 0
    assert [line.split(None, 2) for line in after.splitlines()[1:3]] == [
        ["sift", "matched", "Layer"],
        ["pgd-delta", "matched", "attack"],
    ]
    assert "no object that has attack and restore and a model was called" in after


def test_a_block_keeps_what_matched_too(tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "somebodys"}
    exec(LAYER, names)
    with pertdbg.record(tmp_path / "x.pertdbg"):
        exec("Layer()(torch.ones(2, 4))", names)
    with pertdbg.open(tmp_path / "x.pertdbg") as recording:
        found = {match.adapter: match.matched for match in recording.adapters}
    assert found["sift"] == ("Layer",)
    assert set(found) == {adapter["name"] for adapter in shipped()}


@pytest.mark.parametrize(
    ("shape", "adapter"),
    [
        ("sift.py", "sift"),
        ("freelb.py", "freelb"),
        ("trades.py", "trades"),
        ("vat.py", "vat"),
        ("smart.py", "smart"),
        ("weights.py", "weights"),
        ("token_vat.py", "token-aware-vat"),
        ("steps.py", "madry"),
    ],
)
def test_the_text_of_each_shape_tells_its_adapter(shape: str, adapter: str) -> None:
    found = {entry["adapter"]: entry for entry in matches(SHAPES / shape, shipped())}
    assert found[adapter]["matched"], found[adapter]["why_not"]


def test_an_own_adapter_is_tried_as_well(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\ntitle = "own"\nseam = "method"\n[match]\nmethods = ["go"]\n'
        '[roles]\ndelta = "self.a"\ninput = "self.b"\nperturbed_input = "self.c"\n'
    )
    script = tmp_path / "x.py"
    script.write_text("class It:\n    def go(self):\n        self.a = 1\n")
    out, _, _ = asked(str(script), "--adapter", str(own))
    assert out.splitlines()[1].split() == ["own", "matched", "It.go"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("missing.py", None, "can't be read: No such file"),
        ("broken.py", "def f(:\n", "broken.py:1: is not Python"),
        ("zero.py", "\0", "is not Python"),
        ("x.pertdbg", "no recording", "x.pertdbg"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, name: str, text: str | None, says: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    out, err, status = asked(str(path))
    assert (out, status, err.count("\n")) == ("", 2, 1)
    assert err.startswith("pertdbg: ")
    assert says in err


def test_a_recording_of_a_scenario_says_nothing_of_adapters(tmp_path: Path) -> None:
    path = record_to(tmp_path / "x.pertdbg", calls(1))
    _, err, status = asked(str(path))
    assert status == 2
    assert "does not say which adapters matched" in err


TEXTS = st.text(max_size=20) | st.just("\udcff\x1b") | st.just("y" * 3000)
REPORT = st.lists(
    st.fixed_dictionaries(
        {
            "adapter": TEXTS,
            "matched": st.lists(TEXTS, max_size=5) | st.just(["z" * 300] * 500),
            "why_not": st.none() | TEXTS,
        }
    ),
    max_size=30,
)


@given(REPORT)
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_bounded_and_read_back(report: list[dict[str, object]]) -> None:
    text = to_text(report)
    assert len(text) <= TEXT_LIMIT
    text.encode()
    assert len(of_text(text)) == len(report)


@pytest.mark.parametrize(
    "text",
    [None, 3, "", "{}", "[3]", '[["a", "b", "c"]]', '[["a", [1], "c"]]', "[" * 9000, '[["a", []]]'],
)
def test_what_is_no_such_text_counts_as_nothing(text: object) -> None:
    assert of_text(text) == ()


def test_what_is_read_is_what_was_meant() -> None:
    entries = [{"adapter": "sift", "matched": ["a", "b"], "why_not": None}]
    assert of_text(to_text(entries)) == (Match("sift", ("a", "b"), ""),)
    assert of_text(json.dumps([["x", [], "why"]])) == (Match("x", (), "why"),)
