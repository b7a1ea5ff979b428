"""Guards are found, each with its kind and its exact place."""

from __future__ import annotations

import ast
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from pertdbg.guards.find import find_guards
from pertdbg.guards.model import Guard
from pertdbg.guards.source import FunctionSource, sources_of_method
from pertdbg.layer import PerturbationLayer
from pertdbg.scenario import library


def guards_in(body: str) -> list[Guard]:
    """Find the guards of a function with this body."""
    lines = ["def update(self, x, y):\n", *(f"    {line}\n" for line in body.splitlines())]
    node = ast.parse("".join(lines)).body[0]
    assert isinstance(node, ast.FunctionDef)
    return find_guards([FunctionSource(guards_in, node, lines, ("Layer",))])  # type: ignore[arg-type]


def removed(guard: Guard, body: str) -> str:
    """Cut out of a one-line body what a guard says that goes."""
    assert all(first == last == 2 for first, _, last, _ in guard.removed)
    return "|".join(body[left - 5 : right - 5] for _, left, _, right in guard.removed)


@pytest.mark.parametrize(
    ("body", "kind", "goes"),
    [
        ("y = x.detach()", "detach", ".detach()"),
        ("y = (x + 1).detach() * 2", "detach", ".detach()"),
        ("y = torch.detach(x)", "detach", "torch.detach(|)"),
        ("x.detach_()", "detach_", ".detach_()"),
        ("y = x.data", "data", ".data"),
        ("x.data = y", "data", ".data"),
        ("y = x.clone()", "clone", ".clone()"),
        ("y = x.float()", "float", ".float()"),
        ("y = x.double()", "float", ".double()"),
        ("y = x.half()", "half", ".half()"),
        ("y = x.bfloat16()", "half", ".bfloat16()"),
        ("y = x.to(y)", "to", ".to(y)"),
        ("y = x.type(torch.float32)", "to", ".type(torch.float32)"),
        ("with torch.no_grad(): y = x", "no_grad", "torch.no_grad()"),
        ("with no_grad(): y = x", "no_grad", "no_grad()"),
        ("with torch.inference_mode(): y = x", "inference_mode", "torch.inference_mode()"),
        ("with torch.enable_grad(): y = x", "enable_grad", "torch.enable_grad()"),
        ("with torch.set_grad_enabled(y): y = x", "set_grad_enabled", "torch.set_grad_enabled(y)"),
        ("torch.set_grad_enabled(False)", "set_grad_enabled", "torch.set_grad_enabled(False)"),
        ("y = x.requires_grad_()", "requires_grad_", ".requires_grad_()"),
        ("x.requires_grad = True", "requires_grad_", "x.requires_grad = True"),
        ("y = torch.zeros(3, requires_grad=True)", "requires_grad_", "requires_grad=True"),
        ("y = x.clamp(-1, 1)", "clamp", ".clamp(-1, 1)"),
        ("x.clamp_(max=1)", "clamp", ".clamp_(max=1)"),
        ("y = torch.clip(x, 0, 1)", "clamp", "torch.clip(|, 0, 1)"),
        ("x.grad = None", "clear-grad", "x.grad = None"),
        ("x.grad.zero_()", "clear-grad", "x.grad.zero_()"),
        ("del x.grad", "clear-grad", "del x.grad"),
        ("self.model.zero_grad()", "clear-grad", "self.model.zero_grad()"),
        ("y, x.grad = x.grad, None", "clear-grad", "x.grad|None"),
        (
            "if torch.isnan(x) or torch.isinf(x): return",
            "nan-check",
            "torch.isnan(x)|torch.isinf(x)",
        ),
        ("if not x.isfinite().all(): return", "nan-check", "x.isfinite()"),
        ("if x != x: return", "nan-check", "x != x"),
        ("y = x.nan_to_num()", "nan-check", ".nan_to_num()"),
        ("x.backward(retain_graph=True)", "retain_graph", "retain_graph=True"),
        ("y = x / (y + 1e-8)", "eps", " + 1e-8"),
        ("y = x / (1e-8 + y)", "eps", "1e-8 + "),
        ("y = x.div(y + self.eps)", "eps", " + self.eps"),
        ("y = x / max(y, 1e-12)", "eps", "max(|, 1e-12)"),
        ("y = (x + 1e-12).sqrt()", "eps", " + 1e-12"),
        ("z = y + 1e-8; x = x / z", "eps", " + 1e-8"),
        ("y += 1e-8; x = x / y", "eps", "y += 1e-8"),
        ("y = 'ä', x.detach()", "detach", ".detach()"),
    ],
)
def test_a_guard_is_found_with_what_goes(body: str, kind: str, goes: str) -> None:
    (guard,) = guards_in(body)
    assert (guard.kind, removed(guard, body)) == (kind, goes)


@pytest.mark.parametrize(
    "body",
    [
        "y = x.grad",
        "y = self.data",
        "y = torch.utils.data",
        "y = x / (y + 1)",
        "y = x + 1e-8",
        "y = torch.empty_like(x, requires_grad=False)",
        "x.backward(retain_graph=False)",
        "y = float(x)",
        "x.zero_()",
        "if x == y: return",
    ],
)
def test_what_only_looks_like_a_guard_is_none(body: str) -> None:
    assert guards_in(body) == []


def test_guards_are_numbered_in_the_order_of_the_source_and_of_a_chain() -> None:
    found = guards_in("y = x.float().detach().clone()\nx.grad = None")
    assert [(guard.id, guard.kind) for guard in found] == [
        *(("g1", "float"), ("g2", "detach"), ("g3", "clone"), ("g4", "clear-grad"))
    ]


def test_the_guards_of_the_reference_layer_are_those_that_a_person_reads() -> None:
    found = find_guards(sources_of_method(PerturbationLayer, "update_delta"))
    assert [(guard.kind, guard.text) for guard in found] == [
        ("float", "noise.float()"),
        ("clamp", "delta.clamp(-bound, bound)"),
        ("clear-grad", "delta.grad = None"),
        ("nan-check", "torch.isnan(norm) or torch.isinf(norm)"),
        ("no_grad", "with torch.no_grad():"),
        ("eps", "1e-6 + row_max"),
        ("float", "delta.float()"),
        ("detach", "delta.detach()"),
        ("requires_grad_", "delta.requires_grad_(requires_grad)"),
        ("to", "self.input.to(self.delta)"),
        ("detach", "source.detach()"),
        ("to", "perturbed.to(self.input)"),
    ]


READ: dict[str, list[tuple[str, str]]] = {
    "SmartLayer": [
        ("nan-check", "torch.isnan(norm) or torch.isinf(norm)"),
        ("detach", "self.delta.detach()"),
        ("eps", "gradient.abs().amax(-1, keepdim=True) + self.epsilon"),
        ("detach", "delta.detach()"),
        ("requires_grad_", "delta.detach().requires_grad_(requires_grad)"),
        ("detach", "self.input.detach()"),
    ],
    "FreeLbLayer": [
        ("clamp", "gradient.flatten(1).norm(dim=1).clamp(min=1e-8)"),
        ("eps", "length + 1e-8"),
        ("clamp", "(self.radius / (length + 1e-8)).clamp(max=1)"),
        ("detach", "delta.detach()"),
        ("requires_grad_", "delta.detach().requires_grad_(requires_grad)"),
        ("detach", "self.input.detach()"),
    ],
    "VatLayer": [
        ("clone", "gradient.clone()"),
        ("clear-grad", "self.delta.grad = None"),
        ("no_grad", "with torch.no_grad():"),
        ("eps", "direction.flatten(1).norm(dim=1) + 1e-12"),
        ("requires_grad_", "delta.requires_grad_(requires_grad)"),
        ("detach", "self.input.detach()"),
    ],
    "PgdLayer": [
        ("no_grad", "@torch.no_grad()"),
        ("clamp", "torch.clamp(delta, -self.radius, self.radius)"),
        ("requires_grad_", "delta.requires_grad_(requires_grad)"),
        ("enable_grad", "with torch.enable_grad():"),
        ("detach", "self.input.detach()"),
    ],
    "FgmLayer": [
        ("nan-check", "torch.isnan(norm)"),
        ("clear-grad", "self.delta.grad = None"),
        ("requires_grad_", "self.delta.requires_grad = requires_grad"),
        ("data", "self.input.data"),
    ],
    "AwpLayer": [
        ("no_grad", "with torch.no_grad():"),
        ("eps", "gradient.norm() + 1e-12"),
        ("clamp", "(limit / (delta.norm() + 1e-12)).clamp(max=1)"),
        ("eps", "delta.norm() + 1e-12"),
        ("detach", "delta.detach()"),
        ("requires_grad_", "delta.detach().requires_grad_(requires_grad)"),
        ("detach", "self.input.detach()"),
    ],
}
"""What a person found by reading scenarios/attacks.py."""


def attacks() -> types.ModuleType:
    path = library.folder() / "attacks.py"
    spec = importlib.util.spec_from_file_location("attacks_that_are_read", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", READ)
def test_in_six_other_implementations_every_guard_is_found(name: str) -> None:
    found = find_guards(sources_of_method(getattr(attacks(), name), "update_delta"))
    order = sorted(found, key=lambda guard: guard.removed)
    assert sorted((guard.kind, guard.text) for guard in order) == sorted(READ[name])


HELPERS = """
import torch

def shorten(x):
    return x / (x.norm() + 1e-12)

class Parent:
    def update(self):
        self.delta = self.delta.float()

class Child(Parent):
    def update(self):
        super().update()
        self._leaf()
        return shorten(self.delta)

    def _leaf(self):
        self.delta = self.delta.detach()

    def unrelated(self):
        return self.delta.clone()
"""


def test_what_an_update_calls_in_its_program_is_searched_too(tmp_path: Path) -> None:
    module: Any = load(HELPERS, tmp_path)
    found = find_guards(sources_of_method(module.Child, "update"))
    assert [(guard.kind, guard.function) for guard in found] == [
        *(("eps", "shorten"), ("float", "Parent.update"), ("detach", "Child._leaf"))
    ]


def load(text: str, folder: Path) -> types.ModuleType:
    path = folder / "written.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"written_{abs(hash(folder))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module
