"""What the source of a function says of its loops."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pertdbg.agent.seams.loops import GradientLoop, find_loops


def loops(source: str, *gradient_calls: str) -> tuple[GradientLoop, ...]:
    tree = ast.parse(textwrap.dedent(source))
    body = tree.body[0]
    whole = tree if not isinstance(body, ast.FunctionDef) else body
    return find_loops(whole, gradient_calls)


PGD = """\
def attack(x, y, eps, alpha):
    adv = x.clone()
    adv = adv + noise(x)
    for _ in range(3):
        adv.requires_grad_()
        g, = torch.autograd.grad(loss(adv, y), adv)
        adv = adv.detach() + alpha * g.sign()
        adv = torch.min(torch.max(adv, x - eps), x + eps)
    return adv
"""


def test_the_lines_that_make_and_move_the_subject_are_told_apart() -> None:
    (loop,) = loops(PGD)
    assert loop.subject == "adv"
    assert (loop.head, loop.body, loop.first) == ((4, 4), (4, 8), 5)
    assert loop.creating == {2, 3}
    assert loop.writing == {7, 8}


def test_a_copy_of_the_input_is_told_from_a_delta() -> None:
    (image,) = loops(PGD)
    assert not image.guesses.is_delta
    assert image.guesses.made_from == ("x",)
    (delta,) = loops(PGD.replace("loss(adv, y)", "loss(x + 0.5 * adv, y)"))
    assert delta.guesses.is_delta
    assert delta.guesses.added_to == ("x",)


def test_values_that_are_assigned_together_are_told_apart() -> None:
    (loop,) = loops(PGD.replace("adv = x.clone()", "m, adv = zeros_like(y), x.clone()"))
    assert loop.guesses.made_from == ("x",)
    assert loop.creating == {2, 3}


@pytest.mark.parametrize(
    ("update", "bounds"),
    [
        ("adv = adv.clamp(-eps, eps)", ("eps",)),
        ("adv = torch.clamp(adv + g, min=-self.eps, max=self.eps)", ("self.eps",)),
        ("adv = torch.clamp(adv, 0, 1)", ()),
        ("adv = torch.min(torch.max(adv, x - e), x + e)", ("e",)),
        ("adv = adv.clamp(-eps, 2)", ()),
    ],
)
def test_limits_on_both_sides_are_bounds(update: str, bounds: tuple[str, ...]) -> None:
    source = PGD.replace("adv = torch.min(torch.max(adv, x - eps), x + eps)", update)
    assert loops(source)[0].guesses.bounds == bounds


def test_what_the_gradient_is_multiplied_by_is_the_step_size() -> None:
    assert loops(PGD)[0].guesses.steps == ("alpha",)


@pytest.mark.parametrize(
    "move",
    [
        "d = d + g",
        "d += g",
        "d.data = d.data + g",
        "d.data.add_(g)",
        "d.data[0] = g",
        "d[0] = g",
        "d.add_(g)",
        "torch.add_(d, g)",
        "step = d + g\n        d = step",
    ],
)
def test_every_way_to_write_the_subject_counts(move: str) -> None:
    source = f"""\
def f(x):
    d = torch.zeros_like(x)
    for _ in range(2):
        loss(x + d).backward()
        g = d.grad
        {move}
"""
    (loop,) = loops(source)
    assert loop.subject == "d"


def test_an_optimizer_that_was_made_for_a_local_moves_it() -> None:
    source = """\
def f(x):
    w = torch.zeros_like(x)
    o = Adam([w], lr=0.1)
    for _ in range(2):
        loss(w).backward()
        o.step()
"""
    (loop,) = loops(source)
    assert loop.subject == "w"
    assert loop.writing == {6}


@pytest.mark.parametrize(
    "body",
    [
        "loss(model(x)).backward(); optimizer.step()",
        "mixed = a * x + b; g = autograd.grad(model(mixed), mixed); total = total + g.norm()",
        "for p in model.parameters():\n            size = size + p.grad.norm()",
        "h = h.detach(); h = model(x, h); loss(h).backward()",
    ],
)
def test_ordinary_training_is_not_taken_for_a_perturbation(body: str) -> None:
    assert loops(f"def f(x):\n    for _ in range(2):\n        {body}\n") == ()


def test_a_delta_that_each_turn_makes_anew_is_made_inside() -> None:
    source = """\
for x, y in batches:
    delta = torch.zeros_like(x)
    if random:
        delta[:, 0].uniform_(-eps, eps)
    delta.requires_grad_()
    loss(x + delta, y).backward()
    delta.data = delta + delta.grad
"""
    (loop,) = loops(source)
    assert loop.creating == {2, 4}
    assert loop.writing == {7}


def test_a_gradient_that_a_named_function_gives_counts() -> None:
    source = """\
def f(x0, eps):
    x = x0
    for _ in range(3):
        _, g = ascent_of(fn, x)
        x = x + g
"""
    assert loops(source) == ()
    assert [loop.subject for loop in loops(source, "ascent_of")] == ["x"]


def test_a_function_whose_name_suggests_a_gradient_is_not_sure_to_give_one() -> None:
    source = """\
def f(x):
    for layer in layers:
        x = gradient_checkpoint(layer, x)
    return x
"""
    assert [(loop.subject, loop.sure) for loop in loops(source)] == [("x", False)]
    for name in ("zero_grad", "no_grad", "clip_grad_norm_", "upgrade"):
        assert loops(source.replace("gradient_checkpoint", name)) == ()


def test_a_function_that_moves_its_subject_once_needs_no_loop() -> None:
    source = """\
def f(x):
    d = torch.randn_like(x)
    d.requires_grad_()
    loss(x + d).backward()
    d = d + d.grad
    return d
"""
    (loop,) = loops(source)
    assert loop.by_gradient
    assert loop.creating == {2}
    assert loop.writing == {5}


def test_functions_inside_are_read_by_themselves() -> None:
    source = """\
def outer(x):
    def inner():
        d = torch.zeros(3)
        for _ in range(2):
            loss(d).backward()
            d = d + d.grad
    return inner
"""
    assert loops(source) == ()
