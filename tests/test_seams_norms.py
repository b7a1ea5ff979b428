"""What the source of a loop says of the norms that it limits."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pertdbg.agent.seams.loops import GradientLoop, find_loops, with_norms
from pertdbg.agent.seams.norms import of_dims

HELPERS = """\
def by_sample(d):
    flat = d.view(d.shape[0], -1, *(1 for _ in range(d.dim() - 2)))
    d /= torch.norm(flat, dim=1, keepdim=True) + 1e-8
    return d

def _l2_normalize(d):
    return d / (d.flatten(1).norm(dim=1).view(-1, 1) + 1e-8)

def l2_normalize_rows(d):
    return d / torch.sqrt(torch.sum(d ** 2, dim=-1, keepdim=True) + 1e-8)

def l2_normalize_oddly(d):
    return d / d.amax()

"""

LOOP = """\
def f(x, eps, xi, lr):
    d = torch.zeros_like(x)
    for _ in range(3):
        d.requires_grad_()
        loss(x + d).backward()
        g = d.grad
        {move}
    return d
"""

STEP = "d = (d + lr * g / g.norm()).detach()"
SAMPLE, ROW = (1, -1), (-1,)

LIMITS = {
    "a factor": ("d = d * (eps / d.norm(dim=-1, keepdim=True)).clamp(max=1)", "eps", ROW),
    "a ratio": ("over = d.norm(dim=-1, keepdim=True) / eps; d = d / over.clamp(min=1)", "eps", ROW),
    "a mask": (
        "n = torch.norm(d.view(len(d), -1).float(), p=2, dim=1).detach()\n"
        "far = (n > eps).to(d)\n"
        "d = (d * (eps / n * far + (1 - far)).view(-1, 1, 1)).detach()",
        *("eps", SAMPLE),
    ),
    "the smaller of two": (
        "d = d * torch.minimum(one, eps / d.flatten(1).norm(dim=1)[:, None])",
        *("eps", SAMPLE),
    ),
    "always on the ball": (
        "d = eps * d / (d.norm(dim=(1, 2, 3), keepdim=True) + 1e-8)",
        "eps",
        (1, 2, 3),
    ),
    "all of it": ("d = d * min(1, eps / d.norm())", "eps", None),
    "a function": ("d = _l2_normalize(g)", "1", SAMPLE),
    "a multiple of a function": ("d = xi * _l2_normalize(g).detach()", "xi", SAMPLE),
    "one of rows": ("d = l2_normalize_rows(d + g) * self.xi", "self.xi", ROW),
    "torch's own": ("d = eps * F.normalize(d, dim=-1)", "eps", ROW),
}

NO_LIMITS = {
    "a gradient of norm one": STEP,
    "moved afterwards": f"d = d * (eps / d.norm(dim=-1)).clamp(max=1); {STEP}",
    "another norm": "d = d * (eps / d.norm(p=1, dim=-1)).clamp(max=1)",
    "the largest element": "d = d * (eps / d.abs().amax(-1)).clamp(max=1)",
    "a function of another kind": "d = l2_normalize_oddly(g)",
    "a function that is not there": "d = l2_normalize_by_magic(g)",
}


def loop(move: str, expressions: tuple[str, ...] = ()) -> GradientLoop:
    """Read the loop with one way to move its subject."""
    lines = textwrap.dedent(move).replace("\n", "\n        ")
    tree = ast.parse(HELPERS + LOOP.format(move=lines))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    body = functions["f"]
    (found,) = with_norms(find_loops(body), body, (), expressions, functions.get)
    return found


@pytest.mark.parametrize("way", LIMITS)
def test_a_norm_that_is_limited_is_read_with_what_it_goes_over(way: str) -> None:
    move, limit, dims = LIMITS[way]
    norms = loop(f"{STEP}\n{move}").norms
    assert (norms.limit, norms.dims, norms.other) == (limit, dims, None)


@pytest.mark.parametrize("way", NO_LIMITS)
def test_what_limits_no_l2_norm_of_the_subject_is_not_taken_for_it(way: str) -> None:
    assert loop(NO_LIMITS[way]).norms.limit is None


def test_the_norm_of_a_sum_is_told_from_that_of_its_parts() -> None:
    norms = loop(
        STEP
        + """
        total = d + other
        n = torch.norm(total.view(len(d), -1), p=2, dim=1)
        far = (n > eps).to(d)
        d = d * (eps / n * far + (1 - far)).view(-1, 1, 1)""".replace("\n        ", "\n")
    ).norms
    assert (norms.limit, norms.dims, norms.other) == ("eps", SAMPLE, "total")


@pytest.mark.parametrize(
    ("move", "guards"),
    [
        ("d = d + lr * g / (g.norm() + eps)", True),
        ("n = g.abs().mean(1) + eps; d = d + lr * g / n", True),
        ("d = d + lr * g / g.norm().clamp(min=eps)", True),
        ("d = d + lr * g / torch.clamp_min(g.norm(), eps)", True),
        ("d = d + lr * g / max(g.norm(), eps)", True),
        ("d = d + lr * F.normalize(g, eps=eps)", True),
        ("d = project(d + lr * g / (g.norm() + eps), eps)", False),
        ("d = torch.min(torch.max(d + g, x - eps), x + eps)", False),
        ("d = (d + g).clamp(-eps, eps)", False),
        ("d = d + eps * g", False),
        ("d = d + g", False),
    ],
)
def test_a_number_that_only_guards_a_denominator_is_known(move: str, guards: bool) -> None:
    assert loop(move, ("eps",)).guards == ({"eps"} if guards else set())


@pytest.mark.parametrize(
    ("dims", "count", "of"),
    [
        (None, 3, "whole"),
        ((1, -1), 4, "sample"),
        ((1, 2, 3), 4, "sample"),
        ((1,), 2, "sample"),
        ((-1,), 3, "row"),
        ((2,), 3, "row"),
        ((0,), 1, "whole"),
        ((0,), 2, None),
        ((1,), 3, None),
    ],
)
def test_what_has_a_norm_follows_from_its_dimensions(
    dims: tuple[int, ...] | None, count: int, of: str | None
) -> None:
    assert of_dims(dims, count) == of
