"""Entries of a list or dict of perturbations that a loop calls by a name of their own.

`d = deltas[i]`, `for i, d in enumerate(deltas)` and `for name, d in deltas.items()` give an entry a
local name. Where the loop writes the entry back, or in place, that name is read as the entry.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pertdbg.agent.seams.flow import (
    Loop,
    called,
    is_place,
    own_nodes,
    targets,
    writes,
)

B = TypeVar("B", bound=ast.AST)


@dataclass(frozen=True)
class _Alias:
    """A local of a loop that stands for an entry."""

    name: str
    entry: str
    given_by: ast.AST
    """The statement, or the loop, that binds it."""


def with_entries(body: B) -> B:
    """Give a function in which such a local is written as the entry that it stands for."""
    if not any(_aliases(loop) for loop in _loops(body)):
        return body
    body = copy.deepcopy(body)
    for loop in _loops(body):
        for alias in _aliases(loop):
            if _is_bound_elsewhere(alias, loop, body) or not _is_moved(alias, loop):
                continue
            _Entering(alias).visit(loop)
    return body


def _loops(body: ast.AST) -> list[Loop]:
    return [node for node in own_nodes(body) if isinstance(node, Loop)]


def _aliases(loop: Loop) -> list[_Alias]:
    return list(_of_header(loop)) + [
        _Alias(node.targets[0].id, ast.unparse(node.value), node)
        for node in loop.body
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Subscript)
        and isinstance(node.value.slice, ast.Name)
        and is_place(node.value)
    ]


def _of_header(loop: Loop) -> Iterator[_Alias]:
    """See ``for i, d in enumerate(deltas)`` and ``for name, d in deltas.items()``."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return
    call, pair = loop.iter, loop.target
    names = pair.elts if isinstance(pair, ast.Tuple) else []
    if len(names) != 2 or not all(isinstance(name, ast.Name) for name in names):
        return
    of: ast.expr | None = None
    if called(call) == "enumerate" and len(call.args) == 1 and not call.keywords:
        of = call.args[0]
    elif called(call) == "items" and isinstance(call.func, ast.Attribute):
        of = call.func.value
    if of is not None and is_place(of):
        key, name = (ast.unparse(each) for each in names)
        yield _Alias(name, f"{ast.unparse(of)}[{key}]", loop)


def _is_bound_elsewhere(alias: _Alias, loop: Loop, body: ast.AST) -> bool:
    """Say whether the local is bound outside of the loop too, and so is more than the entry."""
    inside = {id(node) for node in own_nodes(loop)} | {id(loop)}
    return any(
        id(node) not in inside
        for node in own_nodes(body)
        for target in targets(node)
        if isinstance(target, ast.Name) and target.id == alias.name
    )


def _is_moved(alias: _Alias, loop: Loop) -> bool:
    """Say whether the loop writes to the entry: by its place, or in place."""
    nodes = list(own_nodes(loop))
    back = any(ast.unparse(each) == alias.entry for node in nodes for each in targets(node))
    return back or any(write.value is None for write in writes(nodes, alias.name, frozenset()))


class _Entering(ast.NodeTransformer):
    """Puts the entry in the stead of its name, and nothing in the stead of what names it."""

    def __init__(self, alias: _Alias) -> None:
        self._alias = alias

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if node is self._alias.given_by:
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        if node is self._alias.given_by and isinstance(node.target, ast.Tuple):
            node.target = node.target.elts[0]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != self._alias.name:
            return node
        entry: Any = ast.parse(self._alias.entry, mode="eval").body
        entry.ctx = node.ctx
        for part in ast.walk(entry):
            ast.copy_location(part, node)
        return entry  # type: ignore[no-any-return]
