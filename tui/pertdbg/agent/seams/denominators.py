"""Numbers that only keep a denominator from being zero, whatever they are called."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pertdbg.agent.seams.flow import called
from pertdbg.agent.seams.norms import NORMS, argument_of, is_clamp

_SIZES = frozenset({*NORMS, "sqrt", "std", "var", "mean", "sum", "amax", "abs"})


def is_guard(expression: str, nodes: Iterable[ast.AST]) -> bool:
    """Say whether code uses a number only to keep a denominator from being zero."""
    nodes = list(nodes)
    parents = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    places = [
        node
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and ast.unparse(node) == expression
    ]
    return bool(places) and all(_guards(node, parents) for node in places)


def _guards(node: ast.expr, parents: dict[int, ast.AST]) -> bool:
    above = parents.get(id(node))
    if isinstance(above, ast.keyword):
        call = parents.get(id(above))
        least = isinstance(call, ast.Call) and is_clamp(call) and len(call.keywords) == 1
        return above.arg == "eps" or (least and above.arg == "min")
    if isinstance(above, ast.Call) and node in above.args:
        if called(above) in ("max", "maximum"):
            return any(_is_size(part) for part in above.args if part is not node)
        return called(above) == "clamp_min" or (is_clamp(above) and argument_of(above)[1] == [node])
    if not isinstance(above, ast.BinOp) or not isinstance(above.op, ast.Add):
        return False
    other = above.left if node is above.right else above.right
    over = parents.get(id(above))
    divides = isinstance(over, ast.BinOp) and isinstance(over.op, ast.Div) and over.right is above
    return divides or _is_size(other)


def _is_size(node: ast.expr) -> bool:
    """Say whether something is a norm, or another size, of a tensor."""
    names = [called(part) for part in ast.walk(node) if isinstance(part, ast.Call)]
    return bool(_SIZES.intersection(names)) or "norm" in ast.unparse(node).lower()
