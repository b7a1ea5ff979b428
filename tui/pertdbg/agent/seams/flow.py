"""What a piece of source reads and writes, as far as its text tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Node = ast.AST
Body = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
Loop = ast.For | ast.While

_LISTS = (ast.List, ast.Tuple)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_SHAPE_ONLY = frozenset({"shape", "size", "device", "dtype", "ndim", "dim", "numel", "new_zeros"})
_NO_WRITE = frozenset({"requires_grad_", "retain_grad_", "share_memory_", "zero_grad_"})


@dataclass(frozen=True)
class Write:
    """A statement that gives a local a new value, or changes the tensor that it stands for."""

    line: int
    last_line: int
    value: ast.expr | None
    """What is assigned; None for a change in place."""


def own_nodes(body: Node) -> Iterator[Node]:
    """Walk a function, without the functions and classes inside it.

    ``a, b = x, y`` is walked as ``a = x`` and ``b = y``: what `a` is made of is not `y`.
    """
    waiting: list[Node] = list(ast.iter_child_nodes(body))
    while waiting:
        node = waiting.pop()
        apart = _apart(node)
        if apart:
            waiting.extend(apart)
            continue
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _apart(node: Node) -> list[ast.Assign]:
    """Take an assignment of several values to as many targets apart."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return []
    target, value = node.targets[0], node.value
    if not isinstance(target, _LISTS) or not isinstance(value, _LISTS):
        return []
    starred = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    if starred or len(target.elts) != len(value.elts):
        return []
    pairs = zip(target.elts, value.elts, strict=True)
    return [ast.copy_location(ast.Assign([one], other), node) for one, other in pairs]


def mentions(node: Node | None, names: Iterable[str]) -> bool:
    """Say whether a value depends on one of the names by more than its shape."""
    return bool(used_names(node).intersection(names))


def used_names(node: Node | None) -> set[str]:
    """Give the names on whose values an expression depends, not only on their shapes."""
    if node is None or isinstance(node, _SCOPES):
        return set()
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Attribute) and node.attr in _SHAPE_ONLY:
        return set()
    children: Iterable[Node] = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call) and called(node).endswith("_like"):
        children = [keyword.value for keyword in node.keywords]
    found: set[str] = set()
    for child in children:
        found |= used_names(child)
    return found


def called(call: ast.Call) -> str:
    """Give the last part of a call's name: ``clamp`` of ``torch.clamp(x)``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


_HELPER = frozenset({"grad", "grads", "gradient", "gradients"})
_NO_HELPERS = frozenset(
    {
        "grad",
        "no_grad",
        "enable_grad",
        "zero_grad",
        "zero_gradients",
        "requires_grad",
        "retain_grad",
    }
)
_OF_FUNCTIONS = frozenset({"grad", "grad_and_value", "value_and_grad", "jacrev"})
_OF_ARGUMENTS = frozenset({"jacobian", "vjp"})
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def is_helper(name: str) -> bool:
    """Say whether a function's name suggests that it gives the gradient of an argument."""
    if name.endswith("_") or name in _NO_HELPERS:
        return False
    return not _HELPER.isdisjoint(_HUMP.sub("_", name).lower().split("_"))


def differentiated(call: ast.Call, gradient_calls: frozenset[str]) -> list[ast.expr]:
    """Give what a call differentiates with respect to, tuples and lists taken apart."""
    every = [*call.args, *(keyword.value for keyword in call.keywords)]
    arguments: list[ast.expr] = []
    if called(call) == "grad":
        arguments = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "inputs")]
    elif isinstance(call.func, ast.Call):
        arguments = every if called(call.func) in _OF_FUNCTIONS else []
    elif called(call) in gradient_calls or called(call) in _OF_ARGUMENTS or is_helper(called(call)):
        arguments = every
    found: list[ast.expr] = []
    for argument in arguments:
        found += argument.elts if isinstance(argument, _LISTS) else [argument]
    return found


def gives(call: ast.Call, gradient_calls: frozenset[str]) -> bool:
    """Say whether a call gives gradients, as far as its name tells."""
    return called(call) in ("backward", "grad") or bool(differentiated(call, gradient_calls))


def may_give(names: Iterable[str]) -> bool:
    """Say whether one of the names that a function uses may give a gradient."""
    known = _OF_FUNCTIONS | _OF_ARGUMENTS
    return any(name in known or is_helper(name) for name in names)


def optimized(nodes: Iterable[Node]) -> dict[str, list[ast.expr]]:
    """Give what each optimizer was made for: the parts of a list that it was given."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            every = [*node.value.args, *(keyword.value for keyword in node.value.keywords)]
            parts = [part for each in every if isinstance(each, _LISTS) for part in each.elts]
            for target in node.targets if parts else ():
                found.setdefault(ast.unparse(target), []).extend(parts)
    return found


def taken_of(
    nodes: Iterable[Node], gradient_calls: frozenset[str]
) -> Iterator[tuple[ast.expr, ast.Attribute | ast.Call]]:
    """Give what gradients are taken of, each with the place.

    That is the owner of a `.grad` that is no function, what a call differentiates with respect to,
    and what an optimizer was made for, at its `step`.
    """
    nodes = list(nodes)
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    made_for = optimized(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "grad" and id(node) not in functions:
            yield node.value, node
        elif isinstance(node, ast.Call):
            stepped = made_for.get(stepper(node), []) if called(node) == "step" else []
            yield from ((part, node) for part in (*differentiated(node, gradient_calls), *stepped))


def without_data(node: ast.expr) -> ast.expr:
    """Give ``x`` of ``x.data``, and anything else as it is."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node


def targets(node: Node) -> list[ast.expr]:
    """Give what a statement assigns to, tuples taken apart."""
    if isinstance(node, ast.Assign):
        waiting = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For)):
        waiting = [node.target]
    else:
        return []
    found: list[ast.expr] = []
    while waiting:
        target = waiting.pop()
        if isinstance(target, _LISTS):
            waiting.extend(target.elts)
        else:
            found.append(target.value if isinstance(target, ast.Starred) else target)
    return found


def writes(nodes: Iterable[Node], name: str, steppers: frozenset[str]) -> list[Write]:
    """List the writes of a local, in the order of their lines.

    Args:
        nodes: Where to look.
        name: The local.
        steppers: Optimizers that were made with it, as text; their `step` is a write.
    """
    found = []
    for node in nodes:
        write = _assigned(node, name) or _in_place(node, name, steppers)
        if write is not None:
            found.append(write)
    return sorted(found, key=lambda write: write.line)


def _assigned(node: Node, name: str) -> Write | None:
    for target in targets(node):
        whole = isinstance(target, ast.Name) and target.id == name
        if not whole and not (_root(target) == name and _is_value(target)):
            continue
        value = getattr(node, "value", None) or getattr(node, "iter", None)
        if isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        changed = not whole or isinstance(node, ast.AugAssign)
        return _write(node, None if changed else value)
    return None


def _is_value(target: ast.expr) -> bool:
    """Say whether a target is a part of the tensor: ``x[0]``, ``x.data``, ``x.data[0]``."""
    while isinstance(target, ast.Subscript):
        target = target.value
        if isinstance(target, ast.Name):
            return True
    return isinstance(target, ast.Attribute) and target.attr == "data"


def _in_place(node: Node, name: str, steppers: frozenset[str]) -> Write | None:
    if not isinstance(node, ast.Call):
        return None
    method = called(node)
    owner = _root(node.func)
    in_place = method.endswith("_") and not method.endswith("__") and method not in _NO_WRITE
    if in_place and owner == name and not _through_grad(node.func):
        return _write(node, None)
    if in_place and any(_root(argument) == name for argument in node.args[:1]):
        return _write(node, None)
    if any(keyword.arg == "out" and _root(keyword.value) == name for keyword in node.keywords):
        return _write(node, None)
    if method == "step" and stepper(node) in steppers:
        return _write(node, None)
    return None


def is_place(node: ast.expr) -> bool:
    """Say whether something is a name, or an attribute or entry that a name leads to."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Constant, ast.Name)):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def stepper(call: ast.Call) -> str:
    """Give the object whose method is called, as text."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _through_grad(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in ast.walk(node))


def _write(node: Node, value: ast.expr | None) -> Write:
    line: int = getattr(node, "lineno", 0)
    return Write(line, getattr(node, "end_lineno", line) or line, value)


def _root(node: ast.expr) -> str:
    """Give the name that a chain of attributes, indices and calls begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def spread(nodes: Iterable[Node], names: set[str]) -> set[str]:
    """Add the locals whose values depend on the names, to the end."""
    assigned: list[tuple[set[str], list[str]]] = []
    for node in nodes:
        made = [target.id for target in targets(node) if isinstance(target, ast.Name)]
        if made:
            assigned.append((used_names(getattr(node, "value", None)), made))
    grown, before = set(names), -1
    while before != len(grown):
        before = len(grown)
        for used, results in assigned:
            if used & grown:
                grown.update(results)
    return grown
