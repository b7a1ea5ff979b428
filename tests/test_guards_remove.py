"""Guards are taken out of functions of every making, and put back."""

from __future__ import annotations

import functools
import linecache
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pertdbg.errors import PertdbgError
from pertdbg.guards.find import find_guards
from pertdbg.guards.install import without
from pertdbg.guards.source import NoSource, source_of, sources_of_method
from test_guards_find import load


def removing(function: Any, kind: str, owner: type | None = None) -> Any:
    """Take all guards of a kind out of a function, for a `with` block."""
    source = source_of(function)
    guards = [guard for guard in find_guards([source]) if guard.kind == kind]
    assert guards
    return without([source], guards, owner)


def leaf() -> torch.Tensor:
    return torch.full((3,), 2.0, requires_grad=True)


def plain(x: torch.Tensor) -> torch.Tensor:
    y = (x * 3).detach()
    return y + 1


def test_the_function_itself_changes_whoever_holds_it_and_is_put_back() -> None:
    held: Callable[..., torch.Tensor] = plain
    with removing(plain, "detach"):
        assert held(leaf()).requires_grad
    assert not held(leaf()).requires_grad


CASES: dict[str, tuple[str, str, Callable[[Any], Any], Any, Any]] = {
    "data": ("x.data.add_(1); return x._version", "data", lambda f: f(torch.zeros(2)), 0, 1),
    "clone": ("y = x.clone(); return y is x", "clone", lambda f: f(leaf()), False, True),
    "clamp": ("return torch.clamp(x, max=1).max().item()", "clamp", lambda f: f(leaf()), 1.0, 2.0),
    "to": (
        "return x.to(torch.float64).dtype",
        "to",
        lambda f: f(leaf()),
        torch.float64,
        torch.float32,
    ),
    "no_grad": (
        "with torch.no_grad(), open(__file__):\n        y = x * 2\n    return y.requires_grad",
        *("no_grad", lambda f: f(leaf()), False, True),
    ),
    "mode": (
        "torch.set_grad_enabled(False)\n    y = x * 2\n    return y.requires_grad",
        *("set_grad_enabled", lambda f: on_again(f(leaf())), False, True),
    ),
    "clear": (
        "x.grad = None\n    return x.grad is None",
        "clear-grad",
        lambda f: f(filled()),
        True,
        False,
    ),
    "pair": (
        "g, x.grad = x.grad, None\n    return g is x.grad",
        *("clear-grad", lambda f: f(filled()), False, True),
    ),
    "nan": (
        "return -1 if torch.isnan(x).any() or not torch.isfinite(x).all() else 1",
        *("nan-check", lambda f: f(torch.tensor([float("nan")])), -1, 1),
    ),
    "nan-mask": (
        "return str(torch.where(torch.isnan(x), torch.zeros(1), x).item())",
        *("nan-check", lambda f: f(torch.tensor([float("nan")])), "0.0", "nan"),
    ),
    "eps": (
        "return (x / (x.abs().max() + 1e-6)).isnan().any().item()",
        *("eps", lambda f: f(torch.zeros(2)), False, True),
    ),
    "asked": (
        "y = torch.zeros(2, requires_grad=True)\n    return y.requires_grad",
        *("requires_grad_", lambda f: f(leaf()), True, False),
    ),
    "graph": (
        "y = (x * x).sum()\n    y.backward(retain_graph=True)\n    return freed(y)",
        *("retain_graph", lambda f: f(leaf()), False, True),
    ),
}
SOURCE = """
import torch
def freed(y):
    try:
        y.backward()
    except RuntimeError:
        return True
    return False
def f(x):
    {body}
"""


def on_again(value: Any) -> Any:
    torch.set_grad_enabled(True)
    return value


def filled() -> torch.Tensor:
    x = leaf()
    x.sum().backward()  # type: ignore[no-untyped-call]
    return x


@pytest.mark.parametrize("name", CASES)
def test_without_its_guard_a_function_does_otherwise(name: str, tmp_path: Path) -> None:
    body, kind, call, whole, ablated = CASES[name]
    module: Any = load(SOURCE.format(body=body), tmp_path)
    assert call(module.f) == whole
    with removing(module.f, kind):
        assert call(module.f) == ablated
    assert call(module.f) == whole


def test_a_closure_keeps_its_variables_even_where_a_guard_was_their_last_use() -> None:
    limit, count = 1.0, [0]

    def bounded(x: torch.Tensor) -> torch.Tensor:
        count[0] += 1
        return x.clamp(max=limit)

    with removing(bounded, "clamp"):
        assert bounded(leaf()).max().item() == 2.0
    assert bounded(leaf()).max().item() == 1.0
    assert count == [2]


class Parent:
    def update(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Child(Parent):
    __secret = 5

    def update(self, x: torch.Tensor, *, more: int = 1) -> torch.Tensor:
        return super().update(x).detach() * self.__secret + more

    @property
    def value(self) -> torch.Tensor:
        return leaf().detach()

    @staticmethod
    def alone(x: torch.Tensor) -> torch.Tensor:
        return x.detach()

    @classmethod
    def shared(cls, x: torch.Tensor) -> torch.Tensor:
        return x.detach()


def test_super_private_names_and_defaults_stay_what_they_are() -> None:
    with removing(Child.update, "detach"):
        found = Child().update(leaf())
    assert found.requires_grad
    assert found.tolist() == [21.0, 21.0, 21.0]


def test_properties_static_and_class_methods_have_guards_too() -> None:
    for name in ("value", "alone", "shared"):
        with removing(vars(Child)[name], "detach"):
            child = Child()
            found = child.value if name == "value" else getattr(child, name)(leaf())
            assert found.requires_grad


def counting(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(*args: Any) -> Any:
        counted.calls += 1  # type: ignore[attr-defined]
        return function(*args)

    counted.calls = 0  # type: ignore[attr-defined]
    return counted


class Decorated:
    @counting
    @torch.no_grad()
    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).clamp(max=1)

    @torch.no_grad()
    @counting
    def outer(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize("name", ["inner", "outer"])
def test_a_decorator_that_guards_is_taken_out_and_the_others_stay(name: str) -> None:
    layer = Decorated()
    assert not getattr(layer, name)(leaf()).requires_grad
    with removing(vars(Decorated)[name], "no_grad", Decorated):
        assert getattr(layer, name)(leaf()).requires_grad
    assert not getattr(layer, name)(leaf()).requires_grad
    counted: Any = Decorated.inner if name == "inner" else Decorated.outer.__wrapped__  # type: ignore[attr-defined]
    assert counted.calls == 3
    counted.calls = 0


def test_a_guard_under_decorators_is_taken_out() -> None:
    with removing(Decorated.inner, "clamp"):
        assert Decorated().inner(leaf()).max().item() == 4.0


def failing(x: torch.Tensor) -> torch.Tensor:
    y = x.detach()
    return y.no_such_attribute  # type: ignore[attr-defined, no-any-return]


def test_a_traceback_points_at_the_source_as_it_is() -> None:
    with pytest.raises(AttributeError) as before:
        failing(leaf())
    with removing(failing, "detach"), pytest.raises(AttributeError) as after:
        failing(leaf())
    places = [traceback.extract_tb(found.value.__traceback__)[-1] for found in (before, after)]
    assert places[0].lineno == places[1].lineno
    assert (
        places[1].line == "return y.no_such_attribute  # type: ignore[attr-defined, no-any-return]"
    )


def test_a_cell_of_a_notebook_is_a_source() -> None:
    """IPython registers each cell with linecache under a name of its own."""
    text = "def cell(x):\n    return x.detach()\n"
    name = "<ipython-input-1-abc>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    with removing(space["cell"], "detach"):
        assert space["cell"](leaf()).requires_grad


def test_without_a_source_there_is_a_clear_word() -> None:
    space: dict[str, Any] = {}
    exec(compile("def made(x):\n    return x.detach()\n", "<made>", "exec"), space)
    with pytest.raises(NoSource, match=r"no source for made: .*'<made>'.*written to a file"):
        source_of(space["made"])
    with pytest.raises(NoSource, match="builtin_function_or_method, which has no Python source"):
        source_of(torch.clamp)
    function = lambda x: x.detach()  # noqa: E731
    with pytest.raises(NoSource, match="or the function is a lambda"):
        source_of(function)


def test_a_file_that_has_changed_since_is_noticed(tmp_path: Path) -> None:
    module: Any = load("def f(x):\n    return x.detach()\n", tmp_path)
    (tmp_path / "written.py").write_text("# moved\n\n\ndef f(x):\n    return x\n")
    linecache.clearcache()
    with pytest.raises(NoSource, match="the file has changed since it was imported"):
        source_of(module.f)


def test_what_can_not_be_assigned_to_is_refused_and_nothing_has_changed(tmp_path: Path) -> None:
    module: Any = load("def f(x):\n    x.detach().data = x\n    return 1\n", tmp_path)
    code = module.f.__code__
    with pytest.raises(PertdbgError, match="can't be assigned to"), removing(module.f, "data"):
        pass
    assert module.f.__code__ is code


def test_an_edited_line_takes_the_place_of_the_source(tmp_path: Path) -> None:
    module: Any = load("def f(x):\n    rate = 2\n    return rate * x\n", tmp_path)
    with without([source_of(module.f)], [], lines={2: "    rate = 5"}):
        assert module.f(3) == 15
    assert module.f(3) == 6
    wrong = without([source_of(module.f)], [], lines={2: "    rate = ="})
    with pytest.raises(PertdbgError, match=r"written.py:2"), wrong:
        pass


def test_a_method_brings_along_what_it_calls_by_super() -> None:
    sources = sources_of_method(Child, "update")
    assert [source.name for source in sources] == ["Child.update", "Parent.update"]
