"""Finding what there is to observe, leaving no trace, and saying why nothing was found."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import Variable

from _shapes import Came, Seen, observed, plain


def script(tmp_path: Path, text: str) -> Any:
    """Give a function that runs a script as ``__main__`` would be run."""
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))

    def run(rounds: int, seen: Seen) -> None:
        module = types.ModuleType("__main__")
        vars(module).update(__file__=str(path), rounds=rounds, seen=seen)
        exec(compile(path.read_text(), str(path), "exec"), vars(module))

    return run


def both(tmp_path: Path, text: str, rounds: int = 3) -> Came:
    """Run a script alone and observed, which must come to the same."""
    run = script(tmp_path, text)
    plain(run, 1)
    without, with_ = plain(run, rounds), observed(run, rounds)
    assert with_.trace() == without.trace()
    return with_


FLAT = """
    import torch
    x = torch.randn(4, 3)
    for batch in range(rounds):
        d = torch.zeros_like(x)
        for turn in range(2):
            d.requires_grad_()
            {inside}
            g, = torch.autograd.grad(((x + d) ** 2).sum(), d)
            d = (d + 0.1 * g).detach().clamp(-0.5, 0.5)
    seen.result(d)
"""


def test_a_loop_that_stands_in_no_function_is_found(tmp_path: Path) -> None:
    came = both(tmp_path, FLAT.format(inside="pass"))
    assert came.report == {"generic": ["train.py"]}
    assert [record.call for record in came.records] == list(range(1, 10))
    assert [record.step for record in came.records] == [0, 1, 2] * 3
    assert [record.batch for record in came.records] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {record.delta.bound for record in came.records} == {0.5}


def test_a_pass_that_raises_is_recorded_with_its_line(tmp_path: Path) -> None:
    came = both(tmp_path, FLAT.format(inside="assert batch < 1, 'enough'"))
    assert came.ended == "AssertionError: enough"
    assert [record.call for record in came.records] == [1, 2, 3, 4, 5]
    raised = came.records[-1].update.raised
    assert raised is not None
    assert (raised.type, raised.message, raised.line) == ("AssertionError", "enough", 8)
    assert not came.records[-1].gradient.present


def test_a_gradient_that_is_not_there_is_recorded_with_its_reason(tmp_path: Path) -> None:
    came = both(tmp_path, FLAT.format(inside="").replace("(x + d)", "x").replace("x ** 2", "w * x"))
    assert "NameError" in came.ended
    lost = FLAT.format(inside="w = torch.ones(1, requires_grad=True)").replace("(x + d)", "(x * w)")
    came = both(tmp_path, lost)
    assert "not have been used in the graph" in came.ended
    assert came.records[-1].call == 2
    assert came.records[-1].gradient.reason == "not-filled"


def test_passes_of_an_endless_loop_are_counted(tmp_path: Path) -> None:
    came = both(
        tmp_path,
        """
        import torch
        def attack(x, eps=0.3):
            adv = x.clone()
            turns = 0
            while True:
                adv.requires_grad_()
                g, = torch.autograd.grad((adv ** 2).sum(), adv)
                adv = (x + (adv + 0.1 * g.sign() - x).clamp(-eps, eps)).detach()
                turns += 1
                if turns == 4:
                    return adv
        for _ in range(rounds):
            seen.result(attack(torch.randn(4, 3)))
        """,
    )
    assert came.report == {"pgd-image": ["attack"]}
    assert [record.step for record in came.records] == [0, 1, 2, 3, 4] * 3


def test_a_function_that_moves_its_delta_once_is_found(tmp_path: Path) -> None:
    came = both(
        tmp_path,
        """
        import torch
        def once(x, eps=0.3):
            delta = torch.zeros_like(x).uniform_(-eps, eps)
            delta.requires_grad_()
            ((x + delta) ** 2).sum().backward()
            delta = (delta + 0.1 * delta.grad.sign()).detach().clamp(-eps, eps)
            return delta
        for _ in range(rounds):
            seen.result(once(torch.randn(4, 3)))
        """,
    )
    assert came.report == {"pgd-delta": ["once"]}
    assert [(r.step, r.gradient.present) for r in came.records] == [(0, False), (1, True)] * 3
    assert all(
        record.delta.moved_max == pytest.approx(0.1, abs=0.1) for record in came.records[1::2]
    )


def test_an_argument_that_is_moved_itself_is_measured_from_what_it_was(tmp_path: Path) -> None:
    came = both(
        tmp_path,
        """
        import torch
        def attack(x):
            for _ in range(3):
                x = x.detach().requires_grad_()
                g, = torch.autograd.grad((x ** 2).sum(), x)
                x = x + 0.25 * g.sign()
            return x
        x = torch.ones(4, 3)
        for _ in range(rounds):
            seen.result(attack(x))
        """,
    )
    assert [record.delta.max_abs for record in came.records] == [0, 0.25, 0.5, 0.75] * 3
    assert [record.gradient.max_abs for record in came.records[:4]] == [None, 2, 2.5, 3]


WEIGHTS = """
    import torch
    class Attack:
        def __init__(self, model, table):
            self.model, self.table, self.kept = model, table, {{}}
        def attack(self, size=0.5):
            for name, p in self.model.named_parameters():
                if self.table in name:
                    self.kept[name] = p.data.clone()
                    p.data.add_(size * p.grad / p.grad.norm())
            {then}
        def restore(self):
            for name, p in self.model.named_parameters():
                if name in self.kept:
                    p.data = self.kept.pop(name)
    net = torch.nn.Linear(3, 1)
    attack = Attack(net, {table!r})
    for _ in range(rounds):
        net(torch.ones(2, 3)).sum().backward()
        attack.attack()
        seen.result(*net.parameters())
        attack.restore()
"""


def test_an_attack_on_weights_that_moves_nothing_is_recorded_as_such(tmp_path: Path) -> None:
    came = both(tmp_path, WEIGHTS.format(table="embedding", then="return"))
    assert [record.call for record in came.records] == [1, 2, 3]
    for record in came.records:
        assert not record.update.created
        assert record.delta.norm is None
        assert record.reason("delta") == "no weight was moved"


def test_an_attack_on_weights_that_raises_is_recorded_with_what_it_moved(tmp_path: Path) -> None:
    came = both(tmp_path, WEIGHTS.format(table="weight", then="raise ValueError('stop')"))
    assert came.ended == "ValueError: stop"
    (record,) = came.records
    assert record.update.raised is not None
    assert record.update.raised.line == 11
    assert record.delta.norm == pytest.approx(0.5, rel=1e-6)
    assert record.gradient.norm == pytest.approx(math.sqrt(3 * 2**2), rel=1e-6)


def test_parameters_and_whole_numbers_are_nobodys_delta(tmp_path: Path) -> None:
    came = both(
        tmp_path,
        """
        import torch
        net = torch.nn.Linear(3, 1)
        for _ in range(rounds):
            net(torch.randn(4, 3)).sum().backward()
            for p in net.parameters():
                p.data = p.data - 0.1 * p.grad
        seen.result(*net.parameters())
        """,
    )
    assert came.records == []
    assert came.report == {}


def test_why_nothing_matched_is_said_for_each_adapter(tmp_path: Path) -> None:
    came = observed(script(tmp_path, "import torch\n"), 1)
    assert "update_delta" in came.why_not["sift"]
    assert came.why_not["generic"] == (
        "no function ran that takes the gradient of a tensor and then moves or rebinds it"
    )
    assert came.why_not["neftune"] == "transformers.integrations.neftune was not imported"
    came = observed(script(tmp_path, FLAT.format(inside="pass")), 1)
    assert came.why_not["freelb"] == "the loop over d in train.py moves none of delta"
    assert "adv_x" in came.why_not["pgd-image"]


class Layer(nn.Module):
    """Has the shape, but nobody calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.delta: Tensor | None = None
        self.input = self.perturbated_input = torch.zeros(2)

    def update_delta(self) -> bool:
        return self.delta is None and self.input is self.perturbated_input


def test_a_class_that_was_there_before_is_watched_and_put_back() -> None:
    original = Layer.__dict__["update_delta"]

    def run(rounds: int, seen: Seen) -> None:
        assert Layer.__dict__["update_delta"] is not original
        layer = Layer()
        layer.update_delta()
        again = pickle.loads(pickle.dumps(copy.deepcopy(layer)))
        seen.results.append(again.update_delta())

    came = observed(run, 1)
    assert came.ended == "returned"
    assert came.report == {"sift": ["Layer", "Layer#2"]}
    assert Layer.__dict__["update_delta"] is original
    why_not = observed(lambda rounds, seen: None, 1).why_not["sift"]
    # Which class is named depends on those that other tests have brought into this process.
    assert ".update_delta is there, but was not called" in why_not


def test_a_class_is_watched_from_its_definition_on_and_its_options_arrive() -> None:
    told = []

    class Base(nn.Module):
        def __init_subclass__(cls, **options: Any) -> None:
            told.append(options.pop("mark"))
            super().__init_subclass__(**options)

    def run(rounds: int, seen: Seen) -> None:
        class Marked(Base, mark=7):
            def update_delta(self) -> bool:
                self.delta = self.input = self.perturbated_input = torch.zeros(2)
                return True

        Marked().update_delta()

    came = observed(run, 1)
    assert came.report == {"sift": ["Marked"]}
    assert told == [7]


def test_everything_is_as_before_when_it_ends() -> None:
    trace, engine, finders = sys.gettrace(), Variable._execution_engine, list(sys.meta_path)
    observed(lambda rounds, seen: None, 1)
    assert sys.gettrace() is trace
    assert Variable._execution_engine is engine
    assert sys.meta_path == finders
    assert "__init_subclass__" not in vars(nn.Module)


def test_a_script_that_imports_torch_itself_is_followed_from_there_on(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(textwrap.dedent(FLAT).format(inside="pass").replace("seen.result(d)", ""))
    code = f"""\
import sys
from pathlib import Path
from pertdbg.adapters import adapters
from pertdbg.agent.config import Config
from pertdbg.agent.finder import watch_everything
from pertdbg.agent.run import Run
run = Run(Config(recording={str(tmp_path / "run.pertdbg")!r}, scenario=""))
finder = watch_everything(run, adapters())
before = "torch" in sys.modules
path = {str(train)!r}
exec(compile(Path(path).read_text(), path, "exec"), {{"__name__": "__main__", "rounds": 2}})
matched = [row["adapter"] for row in finder.report() if row["matched"]]
finder.remove()
run.end(0, "")
run.remove()
print(before, run.calls, matched)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False 6 ['generic']\n"
    assert done.stderr == ""


def test_the_finder_and_the_adapters_bring_no_torch() -> None:
    code = (
        "import sys, pertdbg.agent.finder, pertdbg.adapters; pertdbg.adapters.adapters();"
        "print([name for name in ('torch', 'numpy', 'textual') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
