"""Recording with `--lines` and reading it, as a user does: by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from _records import healthy
from pertdbg.event import LineEvent, LineTensor, from_json
from pertdbg.recording.events import Inside
from pertdbg.recording.writer import Recorder

SCRIPT = """
import torch

def attack(model, x, y, steps):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(x + delta), y)
        gradient, = torch.autograd.grad(loss, delta)
        delta = (delta.detach() + 0.1 * gradient.sign()).clamp(-0.15, 0.15)
        delta.requires_grad_()
    return x + delta.detach()

torch.manual_seed(0)
attack(torch.nn.Linear(4, 3), torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]), 3)
"""


def pertdbg(*words: str, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pertdbg", *words], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with a recording of a scenario and one of a script's loop."""
    path = tmp_path_factory.mktemp("lines")
    pertdbg("record", "sift-bf16", "--steps", "3", "--lines", "-o", "a.pertdbg", cwd=path)
    (path / "loop.py").write_text(SCRIPT)
    pertdbg("record", "--lines", "-o", "loop.pertdbg", "loop.py", cwd=path)
    return path


def call_of(folder: Path, file: str, call: int) -> dict[str, Any]:
    text = pertdbg("show", file, "--call", str(call), "--json", cwd=folder).stdout
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_json_of_a_record_carries_its_events(folder: Path) -> None:
    found = call_of(folder, "a.pertdbg", 3)
    last = found["events"][-2]
    assert last["source"] == "self.perturbated_input = perturbed.to(self.input)"
    assert last["made"] == ["self.perturbated_input"]
    (cast,) = last["operations"]
    assert cast["op"] == "to"
    assert (cast["same_tensor"], cast["same_storage"]) == (False, False)
    assert (cast["input"]["dtype"], cast["output"]["dtype"]) == ("float32", "bfloat16")
    # What the issue of rounding is about: so many elements are what they were without delta.
    visible = found["effect"]["visible_fraction"]
    assert cast["equal"] / cast["elements"] == pytest.approx(1 - visible, abs=1e-12)
    after = found["tensors"]["after"]["perturbed_input"]
    assert last["tensors"]["self.perturbated_input"]["storage"] == after["storage"]
    assert [from_json(event).line for event in found["events"]] == [
        event["line"] for event in found["events"]
    ]


def test_the_graph_names_what_a_backward_fills(folder: Path) -> None:
    graphs = call_of(folder, "a.pertdbg", 3)["graphs"]
    leaves = {n["leaf"] for n in graphs["perturbed_input"]["nodes"]} - {None}
    assert leaves == {"delta"}
    assert graphs["delta"] == {"nodes": [], "complete": True, "reason": "leaf"}
    loss = graphs["loss"]["nodes"]
    assert "delta" in {node["leaf"] for node in loss}
    assert all(not node["freed"] for node in loss)
    assert sum(kept["nbytes"] for node in loss for kept in node["saved"]) > 0


def test_the_text_shows_each_line_with_what_its_operations_did(folder: Path) -> None:
    text = pertdbg("show", "a.pertdbg", "--call", "3", "--lines", cwd=folder).stdout
    assert "delta = delta.detach()\n" in text
    assert "detach: same storage B, nothing to cut off\n" in text
    assert "graph of perturbed input: 3 nodes; a backward fills delta\n" in text
    plain = pertdbg("show", "a.pertdbg", "--call", "3", cwd=folder).stdout
    assert "same storage" not in plain


def test_each_line_of_a_json_export_carries_its_events(folder: Path) -> None:
    lines = pertdbg("export", "a.pertdbg", "--format", "jsonl", cwd=folder).stdout.splitlines()
    assert [len(json.loads(line)["events"]) > 10 for line in lines] == [True] * 3


def test_the_events_of_a_pass_of_a_loop_are_the_lines_between_two_records(folder: Path) -> None:
    sources = [
        [event["source"] for event in call_of(folder, "loop.pertdbg", call)["events"]]
        for call in (1, 2, 3, 4)
    ]
    one_pass = [
        "loss = torch.nn.functional.cross_entropy(model(x + delta), y)",
        "gradient, = torch.autograd.grad(loss, delta)",
        "delta = (delta.detach() + 0.1 * gradient.sign()).clamp(-0.15, 0.15)",
        "delta.requires_grad_()",
    ]
    assert sources[0] == ["delta = torch.zeros_like(x, requires_grad=True)"]
    for found in sources[1:]:
        assert [source for source in found if "range" not in source] == one_pass
    moved = call_of(folder, "loop.pertdbg", 3)["events"]
    (line,) = [event for event in moved if event["source"] == one_pass[2]]
    assert [each["op"] for each in line["operations"]] == ["detach", "sign", "mul", "add", "clamp"]
    assert line["operations"][-1]["changed"] > 0  # 0.2 is beyond 0.15
    (loss,) = [event for event in moved if event["source"] == one_pass[0]]
    assert loss["over"] == ["Linear"]


def test_where_nothing_was_recorded_it_says_how_to_get_it(folder: Path) -> None:
    pertdbg("record", "sift", "--steps", "2", "-o", "bare.pertdbg", cwd=folder)
    text = pertdbg("show", "bare.pertdbg", "--lines", cwd=folder).stdout
    assert "lines: not recorded; `record --lines` does" in text
    assert "events" not in call_of(folder, "bare.pertdbg", 2)


def test_strings_of_a_stranger_move_no_cursor(folder: Path) -> None:
    bad = "\x1b[2J\u202e"
    facts = LineTensor((1,), bad, bad, True, True, bad, True, 1, bad, 1.0, 1.0, (bad,), (bad,))
    event = LineEvent(1, bad, bad, 0, {bad: facts}, (bad,), (bad,), ((bad, bad),), (), (bad,))
    recorder = Recorder(folder / "bad.pertdbg", {})
    recorder.write(healthy(1), None, Inside((event,)))
    recorder.close()
    text = pertdbg("show", "bad.pertdbg", "--lines", cwd=folder).stdout
    assert "\x1b" not in text
    assert "\u202e" not in text
