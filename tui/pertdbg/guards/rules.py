"""The rules that know a guard when they see one: a node in, what to change out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pertdbg.guards.model import Action, Kind
from pertdbg.guards.syntax import (
    Tree,
    denominators,
    dotted,
    function_called,
    is_torch,
    method_called,
)


@dataclass(frozen=True)
class Hit:
    """A node that protects, and what becomes of it."""

    kind: Kind
    node: ast.AST
    action: Action
    which: int = 0


Rule = Callable[[ast.AST, Tree], Iterator[Hit]]

_METHODS: dict[str, Kind] = {
    **dict.fromkeys(("float", "double"), "float"),
    **dict.fromkeys(("half", "bfloat16"), "half"),
    **dict.fromkeys(("to", "type", "type_as"), "to"),
    **dict.fromkeys(("clamp", "clamp_", "clip", "clip_"), "clamp"),
    **dict.fromkeys(("clamp_min", "clamp_min_", "clamp_max", "clamp_max_"), "clamp"),
    **dict.fromkeys(("renorm", "renorm_"), "clamp"),
    **dict.fromkeys(("nan_to_num", "nan_to_num_"), "nan-check"),
    "detach": "detach",
    "detach_": "detach_",
    "clone": "clone",
    "requires_grad_": "requires_grad_",
}
_FUNCTIONS: dict[str, Kind] = {
    **dict.fromkeys(("clamp", "clamp_", "clip", "clip_", "clamp_min", "clamp_max"), "clamp"),
    "renorm": "clamp",
    "nan_to_num": "nan-check",
    "detach": "detach",
    "detach_": "detach_",
    "clone": "clone",
}
_MODES: dict[str, Kind] = {
    "no_grad": "no_grad",
    "inference_mode": "inference_mode",
    "set_grad_enabled": "set_grad_enabled",
    "enable_grad": "enable_grad",
}
_CHECKS: dict[str, Action] = {
    **dict.fromkeys(("isnan", "isinf", "isposinf", "isneginf"), "false"),
    "isfinite": "true",
}
_SMALL = 1e-4
"""A literal up to this, added in a denominator, is a guard and no quantity."""


def methods(node: ast.AST, _: Tree) -> Iterator[Hit]:
    """``x.detach()`` and other methods that give x, protected."""
    called = method_called(node)
    if called is not None and called[1] in _METHODS:
        yield Hit(_METHODS[called[1]], node, "receiver")


def functions(node: ast.AST, _: Tree) -> Iterator[Hit]:
    """``torch.clamp(x, ...)`` and other functions that give x, protected."""
    if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
        kind = _FUNCTIONS.get(node.func.attr) if is_torch(node.func.value) else None
        if kind is not None:
            yield Hit(kind, node, "argument")


def data(node: ast.AST, tree: Tree) -> Iterator[Hit]:
    """``x.data``, but not an attribute of the layer itself or a module called data."""
    if not isinstance(node, ast.Attribute) or node.attr != "data" or is_torch(node):
        return
    if tree.owner is None or dotted(node.value) != tree.owner:
        yield Hit("data", node, "value")


def modes(node: ast.AST, tree: Tree) -> Iterator[Hit]:
    """``with torch.no_grad():``, the same as a decorator, and the switch as a statement."""
    if isinstance(node, ast.withitem):
        kind = _mode(node.context_expr)
        if kind is not None:
            yield Hit(kind, node, "drop")
    elif isinstance(node, ast.Expr):
        kind = _mode(node.value)
        if kind == "set_grad_enabled":
            yield Hit(kind, node, "drop")
    elif node is tree.node:
        for number, decorator in enumerate(tree.node.decorator_list):
            kind = _mode(decorator)
            if kind is not None:
                yield Hit(kind, node, "decorator", number)


def _mode(node: ast.expr) -> Kind | None:
    name = dotted(node.func if isinstance(node, ast.Call) else node)
    return _MODES.get(name.rpartition(".")[2])


def requires_grad(node: ast.AST, _: Tree) -> Iterator[Hit]:
    """``x.requires_grad = flag`` and the argument ``requires_grad=`` of what makes a tensor."""
    if isinstance(node, ast.Assign):
        if any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in node.targets):
            yield Hit("requires_grad_", node, "drop")
    elif isinstance(node, ast.keyword) and node.arg == "requires_grad" and not _is_false(node):
        yield Hit("requires_grad_", node, "drop")


def retain_graph(node: ast.AST, _: Tree) -> Iterator[Hit]:
    """``retain_graph=True`` of a backward."""
    if isinstance(node, ast.keyword) and node.arg == "retain_graph" and not _is_false(node):
        yield Hit("retain_graph", node, "drop")


def _is_false(node: ast.keyword) -> bool:
    return isinstance(node.value, ast.Constant) and node.value.value is False


def clear_grad(node: ast.AST, _: Tree) -> Iterator[Hit]:
    """``x.grad = None``, alone or among others, ``x.grad.zero_()``, ``del``, ``zero_grad()``."""
    if _clears(node):
        yield Hit("clear-grad", node, "drop")
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(node, target)


def _clears(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return _is_none(node.value) and all(map(_is_grad, node.targets))
    if isinstance(node, ast.Delete):
        return all(map(_is_grad, node.targets))
    if not isinstance(node, ast.Expr):
        return False
    called = method_called(node.value)
    if called is None:
        return False
    zeroes = called[1] == "zero_" or (called[1] == "fill_" and "0" in ast.unparse(node.value))
    return called[1] == "zero_grad" or (zeroes and "grad" in _attributes(called[0]))


def _pairs(node: ast.Assign, target: ast.expr) -> Iterator[Hit]:
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        for number, (left, right) in enumerate(zip(target.elts, node.value.elts, strict=False)):
            if _is_grad(left) and _is_none(right):
                yield Hit("clear-grad", node, "pair", number)


def _is_grad(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _attributes(node: ast.AST) -> set[str]:
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def nan_checks(node: ast.AST, _: Tree) -> Iterator[Hit]:
    """``torch.isnan(x)``, ``x.isfinite()`` and the like, and ``x != x``."""
    called = method_called(node)
    action = _CHECKS.get(function_called(node) if called is None else called[1])
    if action is not None:
        yield Hit("nan-check", node, action)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        same = ast.dump(node.left) == ast.dump(node.comparators[0])
        if same and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            yield Hit("nan-check", node, "true" if isinstance(node.ops[0], ast.Eq) else "false")


def eps(node: ast.AST, tree: Tree) -> Iterator[Hit]:
    """A small number added to what is divided by, or the larger of it and that."""
    for denominator in denominators(node):
        yield from _added(denominator)
    if isinstance(node, ast.Assign) and _assigns(node.targets, tree.divisors):
        yield from _added(node.value)
    if isinstance(node, ast.AugAssign) and _grows(node, tree.divisors):
        yield Hit("eps", node, "drop")


def _added(whole: ast.expr) -> Iterator[Hit]:
    for node in ast.walk(whole):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            if _is_small(node.left):
                yield Hit("eps", node, "right")
            elif _is_small(node.right):
                yield Hit("eps", node, "left")
        elif function_called(node) in ("max", "maximum", "add") and isinstance(node, ast.Call):
            small = [number for number, arg in enumerate(node.args) if _is_small(arg)]
            if len(node.args) == 2 and len(small) == 1:
                yield Hit("eps", node, "argument", 1 - small[0])


def _grows(node: ast.AugAssign, names: set[str]) -> bool:
    adds = isinstance(node.op, ast.Add) and _is_small(node.value)
    return adds and _assigns([node.target], names)


def _assigns(targets: list[ast.expr], names: set[str]) -> bool:
    return any(isinstance(target, ast.Name) and target.id in names for target in targets)


def _is_small(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value <= _SMALL
    name = dotted(node).rpartition(".")[2].lower().strip("_")
    return name in ("eps", "epsilon", "tiny") or name.endswith("_eps")


RULES: tuple[Rule, ...] = (
    methods,
    functions,
    data,
    modes,
    requires_grad,
    retain_graph,
    clear_grad,
    nan_checks,
    eps,
)
