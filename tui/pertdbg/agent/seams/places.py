"""Perturbations that are no locals: attributes, and entries of a dict or a list.

`self.delta`, `state["delta"]` and `deltas[i]` are read as if they were locals of that name, so
that whatever finds a local's loop finds theirs.
"""

from __future__ import annotations

import ast
import copy
import functools
import types
from collections.abc import Iterator
from typing import TypeVar

from pertdbg.agent.seams.entries import with_entries
from pertdbg.agent.seams.flow import is_place, own_nodes, taken_of, without_data

B = TypeVar("B", bound=ast.AST)


def with_places(body: B, gradient_calls: frozenset[str]) -> B:
    """Give a function in which each place that a gradient is taken of is a name.

    Args:
        body: The function, or a module.
        gradient_calls: Functions beside `grad` that give the gradient of an argument.
    """
    body = with_entries(body)
    places = frozenset(_places(list(own_nodes(body)), gradient_calls))
    if not places:
        return body
    named: B = _Naming(places).visit(copy.deepcopy(body))
    return named


def last_part(place: str) -> str:
    """Give what a place is called: ``delta`` of ``self.delta`` and of ``state['delta']``."""
    node = ast.parse(place, mode="eval").body
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return place


@functools.lru_cache(maxsize=256)
def root_of(place: str) -> str:
    """Give the name that a place is reached from: ``self`` of ``self.delta``."""
    node: ast.AST = ast.parse(place, mode="eval").body
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


@functools.lru_cache(maxsize=256)
def index_of(place: str) -> str | None:
    """Give the local that says which entry a place is: ``i`` of ``deltas[i]``."""
    if place.isidentifier():
        return None
    node = ast.parse(place, mode="eval").body
    indexed = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name)
    return node.slice.id if indexed else None  # type: ignore[attr-defined]


def is_outside(place: str, code: types.CodeType) -> bool:
    """Say whether a place outlives one run of a function: it is not reached from a local alone."""
    if place.isidentifier():
        return place not in code.co_varnames
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    root = root_of(place)
    return root in arguments or root not in (*code.co_varnames, *code.co_cellvars)


def _places(nodes: list[ast.AST], gradient_calls: frozenset[str]) -> Iterator[str]:
    """Give the places whose `.grad` is read, and those that a call or an optimizer is given."""
    for of, _ in taken_of(nodes, gradient_calls):
        place = without_data(of)
        if isinstance(place, (ast.Attribute, ast.Subscript)) and is_place(place):
            yield ast.unparse(place)


class _Naming(ast.NodeTransformer):
    """Puts a name in the stead of each place."""

    def __init__(self, places: frozenset[str]) -> None:
        self._places = places

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._named(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._named(node)

    def _named(self, node: ast.Attribute | ast.Subscript) -> ast.AST:
        text = ast.unparse(node)
        if text in self._places:
            return ast.copy_location(ast.Name(text, node.ctx), node)
        return self.generic_visit(node)
