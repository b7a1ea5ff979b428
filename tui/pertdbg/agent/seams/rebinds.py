"""Where a function gives the moved subject another name: `x_adv = x + eps * x.grad.sign()`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from pertdbg.agent.seams.flow import called, is_place, targets, used_names, writes
from pertdbg.agent.seams.guesses import is_extreme, is_keeping, summands

RETURNED = "return"
"""Stands for a value that is returned, and has no name."""

_MODULES = frozenset({"torch", "F", "nn", "functional", "np", "numpy", "math"})
_SUMS = frozenset({"add", "sub", "subtract"})


@dataclass(frozen=True)
class Rebound:
    """The statements that bind the moved subject to another name."""

    name: str
    """The local; `RETURNED` where it is the function's value."""
    lines: frozenset[int]
    is_delta: bool
    """It is a delta, rather than the perturbed input."""


def rebound(
    nodes: list[ast.AST],
    name: str,
    gradient: set[str],
    uses: set[int],
    giving: list[int],
    *,
    is_delta: bool,
) -> Rebound | None:
    """Find where code binds a subject that its gradient has moved to another name.

    Args:
        nodes: Where to look.
        name: The subject.
        gradient: Locals whose values depend on its gradient.
        uses: Identities of the nodes that give its gradient.
        giving: Lines of the calls that give gradients.
        is_delta: The subject is added to something.
    """
    step = _Step(name, _copies(nodes, name), gradient, uses, is_delta)
    found = [
        (target, node)
        for node in nodes
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr))
        and any(line <= (node.end_lineno or node.lineno) for line in giving)
        for target in step.binds(node)
    ]
    if not found:
        return None
    bound, first = min(found, key=lambda pair: (pair[0] == RETURNED, pair[1].lineno))
    until = min((line for line in giving if line > (first.end_lineno or 0)), default=None)
    lines = set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    for write in writes(nodes, bound, frozenset()):
        if write.line > first.lineno and (until is None or write.last_line < until):
            kept = write.value is None or bound in used_names(write.value)
            lines.update(range(write.line, write.last_line + 1) if kept else ())
    return Rebound(bound, frozenset(lines), is_delta)


class _Step:
    """Knows a step along the gradient of one subject when it sees one."""

    def __init__(
        self, name: str, copies: set[str], gradient: set[str], uses: set[int], is_delta: bool
    ) -> None:
        self._name, self._copies = name, copies | {name}
        self._gradient, self._uses, self._is_delta = gradient, uses, is_delta

    def binds(self, node: ast.stmt) -> Iterable[str]:
        """Give the name that a statement binds the moved subject to."""
        if isinstance(node, ast.Return):
            return [RETURNED] if node.value is not None and self._is_moved(node.value) else []
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = [ast.unparse(each) for each in targets(node) if is_place(each)]
            if len(names) != 1 or self._name in names or node.value is None:
                return []
            if names[0] in used_names(node.value) - self._copies:
                return []  # it goes on from what it was, not from the subject
            return names if self._is_moved(node.value) else []
        name = self._moves_copy(node)
        return [name] if name in self._copies - {self._name} else []

    def _is_moved(self, value: ast.expr) -> bool:
        """Say whether a value is the subject plus something made of its gradient."""
        if isinstance(value, ast.BinOp):
            if isinstance(value.op, (ast.Add, ast.Sub)):
                return self._is_copy(value) and self._follows(value)
            return self._is_new_delta(value)
        if not isinstance(value, ast.Call):
            return False
        owner = value.func.value if isinstance(value.func, ast.Attribute) else None
        arguments = [*value.args, *(keyword.value for keyword in value.keywords)]
        inside = arguments if owner is None or _is_module(owner) else [owner, *arguments]
        if is_keeping(value) or is_extreme(value):
            return any(self._is_moved(part) for part in inside)
        plain = owner is None or not (_is_module(owner) or self._is_copy(owner))
        if not plain and called(value) not in _SUMS:
            return False
        copies = [part for part in inside if self._is_copy(part)]
        return bool(copies) and any(self._follows(part) for part in inside if part not in copies)

    def _is_new_delta(self, value: ast.BinOp) -> bool:
        """Say whether a value is a delta of one step: a multiple of what its gradient gives."""
        scaled = self._is_delta and isinstance(value.op, ast.Mult)
        return scaled and any(
            isinstance(side, ast.Call) and self._follows(side) for side in (value.left, value.right)
        )

    def _is_copy(self, node: ast.expr) -> bool:
        """Say whether a value is the subject, a copy of it, or a sum with these."""
        return not self._copies.isdisjoint(summands(node))

    def _follows(self, node: ast.expr) -> bool:
        """Say whether a value is made of the gradient."""
        return bool(used_names(node) & self._gradient) or any(
            id(part) in self._uses for part in ast.walk(node)
        )

    def _moves_copy(self, node: ast.stmt) -> str:
        """Give the local that a statement moves in place along the gradient."""
        if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
            target: ast.expr = node.target
            parts = [node.value]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if called(call) not in ("add_", "sub_") or not isinstance(call.func, ast.Attribute):
                return ""
            target, parts = call.func.value, call.args
        else:
            return ""
        if isinstance(target, ast.Attribute) and target.attr == "data":
            target = target.value
        moved = any(map(self._follows, parts))
        return target.id if moved and isinstance(target, ast.Name) else ""


def _copies(nodes: list[ast.AST], name: str) -> set[str]:
    """Give the locals that are copies of another, or that it is a copy of."""
    found: set[str] = set()
    for node in nodes:
        if not isinstance(node, ast.Assign) or any(
            isinstance(n, ast.BinOp) for n in ast.walk(node)
        ):
            continue
        names = {each.id for each in targets(node) if isinstance(each, ast.Name)}
        of = summands(node.value)
        if name in names:
            found |= of
        elif name in of:
            found |= names
    return found


def _is_module(owner: ast.expr) -> bool:
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in _MODULES
