"""The parts behind a question: what is doubted, the time limit, summaries, and what was changed."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch

from pertdbg.agent import ask
from pertdbg.agent.effects import Snapshot
from pertdbg.agent.paused import Paused
from pertdbg.agent.question import LONGEST, read
from pertdbg.agent.summary import TEXT, summary
from pertdbg.agent.timelimit import TimeUp, limited

HARMLESS = [
    *("delta.abs().mean()", "self.input.shape", "torch.linalg.norm(delta)", "len(caller.losses)"),
    *(
        "[x * 2 for x in delta.shape]",
        "{k: v.norm() for k, v in self.named_parameters()}",
        "delta[0]",
    ),
    *(
        "(delta - input).abs().max().item()",
        "delta.grad is None",
        "f'{delta.norm():.3f}'",
        "delta.T",
    ),
    *(
        "sorted(vars)",
        "max(1, 2)",
        "not delta.isnan().any()",
        "a if b else c",
        "lambda: 3",
        "'x' % 3",
    ),
]
DOUBTED = {
    "delta.mul_(2)": "mul_ ends in _",
    "delta.data.zero_()": "zero_ ends in _",
    "x_": "x_ ends in _",
    "delta.__class__": "__class__ ends in _",
    "y = 3": "it assigns",
    "self.delta = None": "it assigns",
    "delta[0] = 1": "it assigns",
    "delta += 1": "it assigns",
    "(y := 3)": "it assigns",
    "del delta": "delete is a statement",
    "import os": "import is a statement",
    "for x in y: pass": "for is a statement",
    "optimizer.step()": "step is not known to read only",
    "self(3)": "self is not known to read only",
    "f()()": "what it calls is not known to read only",
    "open('x')": "open is not known to read only",
    "losses.append(3)": "append is not known to read only",
    "losses.sort()": "sort is not known to read only",
    "torch.randn(3)": "randn is not known to read only",
    "loss.backward()": "backward is not known to read only",
    "torch.abs(delta, out=delta)": "out= may write",
    "torch.abs(delta, **more)": "** may pass an argument that writes",
    "print(delta)": "print is not known to read only",
    "exec('x')": "exec is not known to read only",
}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_reads_is_run_at_once(text: str) -> None:
    assert read(text).doubts == ()
    assert read(text).is_expression


@pytest.mark.parametrize("text", list(DOUBTED))
def test_what_may_change_something_is_asked_back(text: str) -> None:
    assert any(doubt.startswith(DOUBTED[text]) for doubt in read(text).doubts)


@pytest.mark.parametrize(
    "text", ["", "1 +", "a b", "(" * 3000, "x" * (LONGEST + 1), "\x00", "\ud800"]
)
def test_what_is_no_python_is_a_syntax_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        read(text)


def test_what_is_too_deep_for_python_is_a_syntax_error_too() -> None:
    text = "-" * 3900 + "1"
    try:
        compile(text, "", "eval")
    except (MemoryError, RecursionError):  # up to Python 3.12
        with pytest.raises(SyntaxError):
            read(text)
    else:
        assert read(text).is_expression


def busy() -> None:
    while True:
        pass


def swallowing() -> None:
    for _ in range(3):
        try:
            busy()
        except BaseException:  # noqa: BLE001 - what a question may do
            continue


def deep() -> int:
    return sum(1 for _ in iter(int, 1))


@pytest.mark.parametrize("work", [busy, swallowing, deep])
def test_python_code_is_interrupted_and_nothing_comes_afterwards(work: Any) -> None:
    threads = threading.active_count()
    try:
        limited(0.05, work)
    except TimeUp:
        interrupted = True
    else:
        interrupted = work is swallowing  # it ended by itself, at the third interruption
    assert interrupted
    total = 0
    for k in range(3_000_000):  # an exception on its way would arrive here
        total += k
    assert total == 3_000_000 * 2_999_999 // 2
    assert threading.active_count() == threads


def test_work_in_time_gives_its_result_or_its_exception() -> None:
    assert limited(10, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        limited(10, lambda: 1 // 0)


def test_many_interruptions_at_any_moment_leave_nothing_behind() -> None:
    # Where the exception arrives is chance: a process of its own, so that a stray one shows.
    script = (
        "import sys, time\n"
        "from pertdbg.agent.timelimit import TimeUp, limited\n"
        "def work(): time.sleep(0.0005); return sum(range(2000))\n"
        "done = cut = 0\n"
        "for k in range(400):\n"
        "    try: limited(0.0004 + k % 10 * 0.0001, work); done += 1\n"
        "    except TimeUp: cut += 1\n"
        "for _ in range(200000): pass\n"
        "print(done + cut)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.stderr) == ("400\n", "")


TENSORS = {
    "matrix": lambda: torch.linspace(-2, 3, 24).reshape(4, 6),
    "scalar": lambda: torch.tensor(2.5),
    "whole": lambda: torch.arange(-5, 6),
    "half": lambda: torch.linspace(-1, 1, 9, dtype=torch.bfloat16),
    "double": lambda: torch.linspace(-1e200, 1e200, 5, dtype=torch.float64),
    "strided": lambda: torch.linspace(0, 1, 30).reshape(5, 6)[:, ::2].T,
    "graph": lambda: torch.linspace(0, 1, 5, requires_grad=True) * 2,
}


@pytest.mark.parametrize("name", list(TENSORS))
def test_a_tensors_summary_holds_its_numbers(name: str) -> None:
    tensor = TENSORS[name]()
    found = summary(tensor)
    exact = tensor.detach().to(torch.float64)
    numbers = found["numbers"]
    most = exact.abs().max().item()
    norm = math.sqrt(sum((float(x) / most) ** 2 for x in exact.flatten())) * most
    assert numbers["norm"] == pytest.approx(norm, rel=1e-6)
    assert (numbers["min"], numbers["max"]) == (exact.min().item(), exact.max().item())
    assert numbers["mean"] == pytest.approx(exact.mean().item(), rel=1e-6, abs=1e-7)
    assert (numbers["nan"], numbers["inf"]) == (0, 0)
    assert found["tensor"]["shape"] == list(tensor.shape)
    assert found["tensor"]["dtype"] == str(tensor.dtype).removeprefix("torch.")
    assert found["tensor"]["requires_grad"] is tensor.requires_grad
    row = tensor.detach()
    while row.dim() > 1:
        row = row[0]
    assert found["values"] == row.reshape(-1)[:8].tolist()


def test_not_a_number_is_counted_and_words_say_so() -> None:
    found = summary(torch.tensor([1.0, math.nan, math.inf, math.nan]))
    assert (found["numbers"]["nan"], found["numbers"]["inf"]) == (2, 1)
    assert "2 nan; 1 inf" in found["text"]
    assert found["values"] == [1.0, "nan", "inf", "nan"]
    assert summary(torch.tensor(2.5))["text"] == "2.5  (Tensor: float32 [] on cpu)"


class Loud:
    def __repr__(self) -> str:
        return "x" * 10_000_000


@pytest.mark.parametrize(
    "value",
    [
        "a" * 10_000_000,
        b"a" * 10_000_000,
        list(range(1_000_000)),
        {k: k for k in range(1_000_000)},
        {k: [list(range(100))] * 100 for k in range(100)},
        10**100_000,
        torch.zeros(3_000_000),
        torch.zeros(0, 5),
        torch.zeros(3, device="meta"),
        torch.eye(3).to_sparse(),
        [torch.zeros(1000, 1000)] * 50,
        Loud(),
        torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(200)]),
        math.nan,
        None,
        (1, (2, (3, (4, (5,))))),
    ],
    ids=range(16),
)
def test_a_summary_is_short_whatever_the_value(value: Any) -> None:
    found = summary(value)
    assert len(found["text"]) <= TEXT
    assert len(repr(found)) < 200_000


def test_an_own_recursive_list_is_described() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert len(summary(endless)["text"]) <= TEXT


def test_what_has_changed_is_said_and_nothing_else() -> None:
    layer = torch.nn.Linear(2, 2)
    delta = torch.zeros(2, requires_grad=True)
    names = {"self": layer, "delta": delta, "input": torch.ones(2)}
    assert Snapshot.take(names).changes(names) == []
    before = Snapshot.take(names)
    with torch.no_grad():
        delta.add_(1)
        layer.weight.mul_(2)
    layer.bias.requires_grad_(False)
    layer.extra = 3  # type: ignore[assignment]
    delta.grad = torch.ones(2)
    torch.rand(1)
    found = before.changes(names)
    assert set(found) == {
        "delta: written in place, version 0 is 1 now",
        "delta: its .grad is another, or was written",
        f"self.weight: written in place, version {layer.weight._version - 1} is "
        f"{layer.weight._version} now",
        "self.bias: requires_grad is False now",
        "self.extra is new",
        "the random state of torch has moved on",
    }


def test_a_name_that_a_question_binds_is_known_to_the_next_one() -> None:
    paused = Paused({"delta": torch.ones(3)})
    command = {"do": "ask", "number": 1, "confirmed": True}
    asked = [ask.answer(paused, {**command, "text": text}) for text in ("y = 2", "delta.sum() * y")]
    assert asked[0]["bound"] == ["y"]
    assert asked[1]["value"]["values"] == [6.0]
    assert "y" not in globals()


class Layer:
    stored = 3
    __slots__ = ("__dict__", "slot")

    def __init__(self) -> None:
        self.input = torch.ones(2)

    @property
    def computed(self) -> int:
        raise AssertionError("a property ran")


def test_completion_gives_stored_names_and_runs_no_property() -> None:
    names = {"self": Layer(), "delta": torch.zeros(1), "_hidden": 1, 3: 4}
    assert ask.complete("", names) == ["delta", "self"]
    assert ask.complete("_h", names) == ["_hidden"]
    assert ask.complete("1 + sel", names) == ["self"]
    assert ask.complete("self.", names) == [
        f"self.{n}" for n in ("computed", "input", "slot", "stored")
    ]
    assert ask.complete("self.computed.", names) == []
    assert ask.complete("self.input.abso", names) == ["self.input.absolute", "self.input.absolute_"]
    assert ask.complete("nobody.", names) == []
    assert ask.complete("self.stored.real.im", names) == []
    assert ask.complete("(delta + 1).", names) == []
