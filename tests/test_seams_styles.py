"""Perturbations in styles that no adapter describes: each seen once, rightly, and left alone."""

from __future__ import annotations

import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

from _shapes import Came, Known, Seen, observed, plain

HEAD = """\
import functools, traceback
from dataclasses import dataclass
import torch
from torch.nn.functional import cross_entropy
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3))
inputs, labels = torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1])
loss_of = lambda z: cross_entropy(net(z), labels)
seen.watch(net)
"""

ATTACK = """\
def attack(x, eps=0.1):
    {make}
    for _ in range(3):
        {turn}
    return {delta}
for _ in range(2):
    seen.result(attack(inputs))
"""

PLACES = {
    "an attribute": ("self.delta", "self = types.SimpleNamespace()"),
    "an entry of a dict": ("state['delta']", "state = {}"),
    "an entry of a list": ("deltas[0]", "deltas = [None]"),
}

GRADIENTS = {
    "torch.func": "g = torch.func.grad(lambda z: loss_of(x + z))(delta)",
    "jacobian": "g = torch.autograd.functional.jacobian(lambda z: loss_of(x + z), delta)",
    "a function of one's own": "g = gradient_at(x + delta)",
    "inputs by name": "delta.requires_grad_()\n"
    "g, = torch.autograd.grad(outputs=loss_of(x + delta), inputs=(delta,))",
}

MOVES = {
    "out=": "torch.add(delta, g.sign(), alpha=0.04, out=delta.data)",
    "copy_": "delta.data.copy_((delta + 0.04 * g.sign()).clamp(-eps, eps))",
    "+=": "delta += 0.04 * g.sign()",
    "data.add_": "delta.data.add_(g.sign(), alpha=0.04)",
}

ONE_STEP = {
    "a new name": "x_adv = x + 0.1 * x.grad.sign()",
    "a limited one": "x_adv = torch.clamp(x + 0.1 * x.grad.sign(), -3, 3).detach()",
    "two statements": "step = 0.1 * x.grad.sign()\nx_adv = x - step\nx_adv = x_adv.clamp(-3, 3)",
    "a copy moved in place": "x_adv = x.detach().clone()\nx_adv += 0.1 * x.grad.sign()",
    "a call": "x_adv = torch.add(x, x.grad.sign(), alpha=0.1)",
    "a function of one's own": "data_grad = x.grad.data\nx_adv = bend(x, 0.1, data_grad)",
}


def came(tmp_path: Path, text: str) -> Came:
    """Run a script by itself and observed, which must come to the same."""
    path = tmp_path / "train.py"
    path.write_text(HEAD + text)

    def run(rounds: int, seen: Seen) -> None:
        module = types.ModuleType("__main__")
        vars(module).update(__file__=str(path), rounds=rounds, seen=seen, types=types)
        exec(compile(path.read_text(), str(path), "exec"), vars(module))

    plain(run, 1)
    without, with_ = plain(run, 1), observed(run, 1)
    assert without.ended == "returned"
    assert with_.trace() == without.trace()
    return with_


def check(found: Came, calls: int) -> None:
    """Each call was recorded once, with what the script knew of it."""
    told: list[Known] = [call for name in found.seen.calls for call in found.seen.calls[name]]
    records = sorted(found.records, key=lambda record: record.layer)
    assert len(told) == calls
    assert len(records) == calls, found.why_not["generic"]
    for record, known in zip(records, told, strict=True):
        assert record.update.created is known.created
        assert record.delta.max_abs == pytest.approx(known.largest, rel=1e-6)
        assert record.delta.norm == pytest.approx(known.norm, rel=1e-5)
        if known.gradient is not None:
            assert record.gradient.norm == pytest.approx(known.gradient, rel=1e-6)


def attack(delta: str, make: str, turn: str) -> str:
    """Write a script with a loop."""
    pad = "\n        "
    turn = textwrap.dedent(turn).strip().replace("\n", pad)
    return ATTACK.format(make=make.replace("\n", "\n    "), turn=turn, delta=delta)


@pytest.mark.parametrize("place", PLACES)
def test_a_delta_that_is_no_local_is_seen(tmp_path: Path, place: str) -> None:
    delta, owner = PLACES[place]
    make = f"{owner}\n{delta} = torch.zeros_like(x)\nseen.made({delta})"
    turn = f"""
        {delta}.requires_grad_()
        loss_of(x + {delta}).backward()
        g = {delta}.grad
        {delta} = ({delta}.detach() + 0.04 * g.sign()).clamp(-eps, eps)
        seen.moved({delta}, g)
    """
    found = came(tmp_path, attack(delta, make, turn))
    check(found, 8)
    assert {record.delta.bound for record in found.records} == {0.1}


def test_a_delta_of_an_object_that_the_optimizer_of_the_object_moves_is_seen(
    tmp_path: Path,
) -> None:
    text = """
class Search:
    def run(self, x):
        self.w = torch.zeros_like(x).requires_grad_()
        seen.made(self.w)
        self.optimizer = torch.optim.Adam(params=[self.w], lr=0.02)
        for _ in range(3):
            loss = -loss_of(x + self.w)
            self.optimizer.zero_grad()
            loss.backward()
            g = self.w.grad.clone()
            self.optimizer.step()
            seen.moved(self.w, g)
        return self.w
for _ in range(2):
    seen.result(Search().run(inputs))
"""
    check(came(tmp_path, text), 8)


def test_a_parameter_that_is_called_delta_is_seen(tmp_path: Path) -> None:
    make = "delta = torch.nn.Parameter(torch.zeros_like(x))\nseen.made(delta)"
    turn = """
        delta.grad = None
        loss_of(x + delta).backward()
        g = delta.grad
        delta.data.add_(g.sign(), alpha=0.04).clamp_(-eps, eps)
        seen.moved(delta, g)
    """
    check(came(tmp_path, attack("delta", make, turn)), 8)


@pytest.mark.parametrize("way", GRADIENTS)
def test_a_gradient_is_found_however_it_is_asked_for(tmp_path: Path, way: str) -> None:
    helper = """
def gradient_at(z):
    z = z.detach().requires_grad_()
    loss_of(z).backward()
    return z.grad
"""
    turn = f"{GRADIENTS[way]}\ndelta = (delta + 0.04 * g.sign()).detach()\nseen.moved(delta, g)"
    make = "delta = torch.zeros_like(x)\nseen.made(delta)"
    text = helper + attack("delta", make, turn)
    check(came(tmp_path, text), 8)


@pytest.mark.parametrize("way", MOVES)
def test_a_delta_is_followed_however_it_is_written(tmp_path: Path, way: str) -> None:
    make = "delta = torch.zeros_like(x, requires_grad=True)\nseen.made(delta)"
    turn = f"""
        g, = torch.autograd.grad(loss_of(x + delta), delta)
        with torch.no_grad():
            {MOVES[way]}
        seen.moved(delta, g)
    """
    check(came(tmp_path, attack("delta", make, turn)), 8)


ENTRIES = {
    "a name of its own": """
        for i in range(len(deltas)):
            d = deltas[i]
            g, = torch.autograd.grad(loss_of(x + d), d)
            d = (d + 0.04 * g.sign()).clamp(-eps, eps)
            deltas[i] = d.detach().requires_grad_()
            seen.moved(deltas[i], g, f"{i}")
    """,
    "its place alone": """
        for i in range(len(deltas)):
            loss_of(x + deltas[i]).backward()
            g = deltas[i].grad
            deltas[i] = (deltas[i] + 0.04 * g.sign()).clamp(-eps, eps).detach().requires_grad_()
            seen.moved(deltas[i], g, f"{i}")
    """,
    "one backward for all": """
        loss_of(x + sum(deltas)).backward()
        for i, d in enumerate(deltas):
            g = d.grad
            deltas[i] = (d + 0.04 * g.sign()).clamp(-eps, eps).detach().requires_grad_()
            seen.moved(deltas[i], g, f"{i}")
    """,
}


@pytest.mark.parametrize("way", ENTRIES)
def test_each_delta_of_a_list_is_seen_by_itself(tmp_path: Path, way: str) -> None:
    make = """\
deltas = [torch.zeros_like(x).requires_grad_() for _ in range(3)]
for number, delta in enumerate(deltas):
    seen.made(delta, f"{number}")"""
    text = attack("deltas", make, ENTRIES[way]).replace("seen.result(", "seen.result(*")
    found = came(tmp_path, text)
    check(found, 2 * 3 * 4)
    counted = [(record.layer, record.batch, record.step) for record in found.records]
    assert sorted(counted) == [
        (f"attack[{entry}]", batch, step)
        for entry in range(3)
        for batch in (1, 2)
        for step in range(4)
    ]
    if way != "one backward for all":  # there the loop does not say that it is added to something
        assert {record.delta.bound for record in found.records} == {0.1}


MOVED_APART = """
class Universal(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.{name} = torch.nn.Parameter(torch.zeros(6))
        self.net = net
    def forward(self, x):
        return self.net(x + self.{name})
    def train_step(self, x):
        cross_entropy(self(x), labels).backward()
    def move(self, alpha=0.04, eps=0.1):
        if self.{name}.grad is None:
            return
        g = self.{name}.grad
        {move}
        seen.moved(self.{name}, g)
        self.{name}.grad = None
    def clear(self):
        if self.{name}.grad is not None:
            self.{name}.grad.zero_()
        self.{name}.data.zero_()
    def train_by_hand(self):
        for layer in self.net:
            if hasattr(layer, "bias"):
                layer.bias.data -= 0.1 * layer.bias.grad
layer = Universal()
seen.made(layer.{name})
layer.clear()
layer.move()
for _ in range(3):
    layer.train_step(inputs)
    layer.move()
    layer.train_by_hand()
seen.result(*layer.parameters())
"""

MOVES_APART = {
    "copy_": "with torch.no_grad(): self.{name}.copy_((self.{name} + alpha * g.sign())"
    ".clamp(-eps, eps))",
    "data": "self.{name}.data = (self.{name}.data + alpha * g.sign()).clamp(-eps, eps)",
}


@pytest.mark.parametrize(("name", "adapter"), [("delta", "pgd-delta"), ("shift", "generic")])
@pytest.mark.parametrize("way", MOVES_APART)
def test_a_parameter_that_another_method_moves_is_seen_once_for_each_move(
    tmp_path: Path, name: str, adapter: str, way: str
) -> None:
    move = MOVES_APART[way].format(name=name)
    found = came(tmp_path, MOVED_APART.format(name=name, move=move))
    check(found, 4)
    assert found.report == {adapter: ["Universal.move"]}
    assert [record.step for record in found.records] == [0, 1, 2, 3]
    assert {record.delta.bound for record in found.records} == {0.1}


def test_a_delta_of_an_enclosing_function_goes_on_from_call_to_call(tmp_path: Path) -> None:
    text = """
def stepper(x):
    delta = torch.zeros_like(x)
    seen.made(delta)
    def step():
        nonlocal delta
        delta = delta.detach().requires_grad_()
        loss_of(x + delta).backward()
        g = delta.grad
        delta = delta.detach() + 0.02 * g.sign()
        seen.moved(delta, g)
        return delta
    return step
step = stepper(inputs)
for _ in range(3):
    seen.result(step())
"""
    found = came(tmp_path, text)
    check(found, 4)
    assert [record.step for record in found.records] == [0, 1, 2, 3]


@pytest.mark.parametrize("way", ONE_STEP)
def test_an_attack_of_one_step_is_one_update(tmp_path: Path, way: str) -> None:
    body = textwrap.indent(ONE_STEP[way], "    ")
    text = f"""
def bend(image, size, slope):
    return image + size * slope.sign()
def attack(x):
    x = x.clone().requires_grad_()
    loss_of(x).backward()
{body}
    seen.made(x_adv - x, gradient=x.grad)
    return x_adv
for _ in range(2):
    seen.result(attack(inputs).detach())
"""
    found = came(tmp_path, text)
    check(found, 2)
    for record in found.records:
        assert record.tensors.after.input is not None
        assert record.tensors.after.perturbed_input is not None
        assert record.delta.bound is None


def test_an_attack_of_one_step_that_stands_in_no_function_is_one_update(tmp_path: Path) -> None:
    text = """
x = inputs.clone()
x.requires_grad_()
loss_of(x).backward()
x_adv = x + 0.1 * x.grad.sign()
seen.made(x_adv - x, gradient=x.grad)
seen.result(x_adv)
"""
    check(came(tmp_path, text), 1)


def test_a_delta_of_one_step_that_is_returned_is_seen(tmp_path: Path) -> None:
    text = """
def fgsm(x, eps):
    delta = torch.zeros_like(x, requires_grad=True)
    loss_of(x + delta).backward()
    seen.made(delta)
    seen.moved(eps * delta.grad.sign(), delta.grad)
    return eps * delta.grad.detach().sign()
for _ in range(2):
    seen.result(fgsm(inputs, 0.1))
"""
    check(came(tmp_path, text), 4)


@pytest.mark.parametrize(
    "body",
    [
        "x.grad.norm()",
        "x * x.grad",
        "((torch.autograd.grad(loss_of(x), x)[0].norm(dim=1) - 1) ** 2).mean()",
        "(x + x.grad).sum()",
    ],
)
def test_what_is_only_computed_from_a_gradient_is_no_update(tmp_path: Path, body: str) -> None:
    text = f"""
def look(x):
    x = x.clone().requires_grad_()
    loss_of(x).backward()
    found = {body}
    return found
seen.result(look(inputs).detach())
"""
    assert came(tmp_path, text).records == []


def test_layers_under_a_function_that_only_sounds_like_a_gradient_are_no_updates(
    tmp_path: Path,
) -> None:
    text = """
def grad_checkpoint(layer, x):
    return layer(x)
def forward(x):
    for layer in net:
        x = grad_checkpoint(layer, x)
    return x
cross_entropy(forward(inputs), labels).backward()
seen.result(*(parameter.grad for parameter in net.parameters()))
"""
    assert came(tmp_path, text).records == []


SUSPENDED = {
    "a generator": (
        """
def attack(x, eps=0.1):
    delta = torch.zeros_like(x)
    seen.made(delta)
    for _ in range(3):
        delta.requires_grad_()
        g, = torch.autograd.grad(loss_of(x + delta), delta)
        delta = (delta + 0.04 * g.sign()).clamp(-eps, eps).detach()
        seen.moved(delta, g)
        yield delta
for delta in attack(inputs):
    seen.result(delta)
closed, dropped = attack(inputs), attack(inputs)
seen.result(next(closed), next(closed))
closed.close()
seen.result(next(dropped))
del closed, dropped, delta
""",
        9,
    ),
    "a generator whose backward the caller runs": (
        """
def attack(x, eps=0.1):
    delta = torch.zeros_like(x)
    seen.made(delta)
    for _ in range(3):
        delta.requires_grad_()
        yield loss_of(x + delta)
        g = delta.grad
        delta = (delta + 0.04 * g.sign()).clamp(-eps, eps).detach()
        seen.moved(delta, g)
for loss in attack(inputs):
    loss.backward()
half = attack(inputs)
next(half).backward()
seen.result(next(half).detach())
del half, loss
""",
        6,
    ),
    "a generator inside another, left before it moves": (
        """
def attack(x, eps=0.1):
    delta = torch.zeros_like(x)
    seen.made(delta)
    for _ in range(3):
        delta.requires_grad_()
        with torch.enable_grad():
            loss = loss_of(x + delta)
            loss.backward()
            yield loss.detach()
        g = delta.grad
        delta = (delta + 0.04 * g.sign()).clamp(-eps, eps).detach()
        seen.moved(delta, g)
def outer(x):
    yield from attack(x)
for loss in outer(inputs):
    seen.result(loss)
closed, dropped = outer(inputs), attack(inputs)
seen.result(next(closed), next(closed))
closed.close()
seen.result(next(dropped))
del closed, dropped
""",
        7,
    ),
    "coroutines that take turns": (
        """
import asyncio
async def attack(x, eps=0.1):
    delta = torch.zeros_like(x)
    seen.made(delta)
    for _ in range(3):
        delta.requires_grad_()
        await asyncio.sleep(0)
        loss_of(x + delta).backward()
        await asyncio.sleep(0)
        g = delta.grad
        delta = delta.detach() + 0.04 * g.sign()
        await asyncio.sleep(0)
        delta = delta.clamp(-eps, eps)
        seen.moved(delta, g)
    return delta
async def both():
    return await asyncio.gather(attack(inputs), attack(inputs + 1))
seen.result(*asyncio.run(both()))
""",
        8,
    ),
    "an asynchronous generator": (
        """
import asyncio
async def attack(x, eps=0.1):
    delta = torch.zeros_like(x)
    seen.made(delta)
    for _ in range(3):
        delta.requires_grad_()
        g, = torch.autograd.grad(loss_of(x + delta), delta)
        delta = (delta + 0.04 * g.sign()).clamp(-eps, eps).detach()
        seen.moved(delta, g)
        yield delta
async def all_of_it():
    async for delta in attack(inputs):
        seen.result(delta)
asyncio.run(all_of_it())
""",
        4,
    ),
}


@pytest.mark.parametrize("way", SUSPENDED)
def test_a_loop_that_is_suspended_goes_on_when_it_is_resumed(tmp_path: Path, way: str) -> None:
    text, calls = SUSPENDED[way]
    found = came(tmp_path, text)
    check(found, calls)
    assert found.alive == 0
    assert {record.delta.bound for record in found.records} == {0.1}
    assert {record.update.raised for record in found.records} == {None}


def test_no_frame_of_ours_is_on_the_stack_while_gradients_flow(tmp_path: Path) -> None:
    text = """
def stack(gradient):
    lines = traceback.format_stack()
    seen.results.append(lines[next(k for k, line in enumerate(lines) if "train.py" in line):])
def attack(x):
    delta = torch.zeros_like(x)
    for _ in range(2):
        delta.requires_grad_()
        delta.register_hook(stack)
        loss_of(x + delta).backward()
        delta = (delta + 0.02 * delta.grad.sign()).detach()
    return delta
seen.result(attack(inputs))
"""
    found = came(tmp_path, text)
    stacks: list[Any] = [part for part in found.seen.results if "in stack" in str(part)]
    assert len(stacks) == 2
    assert all("backward" in str(part) for part in stacks)
    assert len(found.records) == 3
