"""What a piece of source reads and writes, as far as its text tells."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Node = ast.AST
Body = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
Loop = ast.For | ast.While

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
    """Walk a function, without the functions and classes inside it."""
    waiting: list[Node] = list(ast.iter_child_nodes(body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


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
        if isinstance(target, (ast.Tuple, ast.List)):
            waiting.extend(target.elts)
        else:
            found.append(target.value if isinstance(target, ast.Starred) else target)
    return found


def writes(nodes: Iterable[Node], name: str, steppers: frozenset[str]) -> list[Write]:
    """List the writes of a local, in the order of their lines.

    Args:
        nodes: Where to look.
        name: The local.
        steppers: Optimizers that were made with it; their `step` is a write.
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
    if method == "step" and owner in steppers:
        return _write(node, None)
    return None


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
