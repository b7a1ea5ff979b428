"""What the source of a loop says of its delta: where the input is, the bound, the step size."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pertdbg.agent.seams.flow import Write, called, targets, used_names

_CLAMPS = frozenset({"clamp", "clamp_", "clip", "clip_"})
_KEEPING = frozenset(
    {"clone", "detach", "to", "float", "cuda", "contiguous", "requires_grad_", "Variable", *_CLAMPS}
)
"""Functions whose result still is their argument, moved a little at most."""
_EXTREMES = frozenset({"min", "max", "minimum", "maximum", *_CLAMPS})


@dataclass(frozen=True)
class Guesses:
    """What the text of a loop suggests; names and expressions, to be tried when it runs."""

    added_to: tuple[str, ...]
    """Names in what the subject is added to: the subject is a delta."""
    made_from: tuple[str, ...]
    """Names that the subject is first a copy of, or that something is added to for it."""
    is_delta: bool
    bounds: tuple[str, ...]
    """Expressions that each element is limited to."""
    ranges: tuple[str, ...]
    """Those of them that limit the subject itself, which is its range where it is an image."""
    steps: tuple[str, ...]
    """Expressions that the gradient is multiplied by."""


def guess(
    inside: list[ast.AST],
    name: str,
    derived: set[str],
    gradient: set[str],
    creating: list[Write],
    parameters: set[str],
) -> Guesses:
    """Read a loop for what stands beside its subject.

    Args:
        inside: The nodes of the loop.
        name: The subject.
        derived: Locals whose values depend on the subject.
        gradient: Locals whose values depend on its gradient.
        creating: The statements that first make the subject.
        parameters: Arguments of the function: the clean input is rather one of them.
    """
    sums = [side for node in inside for side in _other_sides(node, name, derived)]
    added_to = _in_order(part for side in sums for part in _tensors_of(side))
    made_from = {part for write in creating for part in summands(write.value)} - {name}
    images = _Images(inside, name, gradient)
    limits = [limit for node in inside for limit in _bounds(node, images)]
    return Guesses(
        added_to=added_to,
        made_from=tuple(sorted(made_from, key=lambda part: (part not in parameters, part))),
        is_delta=bool(sums),
        bounds=_in_order(bound for bound, _ in limits),
        ranges=_in_order(bound for bound, of_image in limits if of_image),
        steps=_in_order(step for node in inside for step in _steps(node, name, gradient)),
    )


def _tensors_of(node: ast.expr) -> list[str]:
    """Give the names, and attributes of names, that an expression is made of."""
    chains = [ast.unparse(part) for part in ast.walk(node) if _is_chain(part)]
    return [*sorted(used_names(node)), *sorted(chains)]


def _is_chain(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and is_plain(node)


def is_keeping(call: ast.Call) -> bool:
    """Say whether a call's result still is its argument, moved a little at most."""
    return called(call) in _KEEPING


def is_extreme(call: ast.Call) -> bool:
    """Say whether a call limits its argument."""
    return called(call) in _EXTREMES


def is_copy(value: ast.expr, name: str) -> bool:
    """Say whether a value is that of a local, unchanged."""
    plain = not any(
        isinstance(part, ast.BinOp) or (isinstance(part, ast.Call) and is_extreme(part))
        for part in ast.walk(value)
    )
    return plain and summands(value) == {name}


def summands(node: ast.AST | None) -> set[str]:
    """Give the names that a value is a copy of, or a sum with: ``x`` of ``x.clone() + noise()``."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return summands(node.left) | summands(node.right)
    if isinstance(node, ast.Attribute) and node.attr == "data":
        return summands(node.value)
    if isinstance(node, ast.Call) and called(node) in _KEEPING:
        method = isinstance(node.func, ast.Attribute) and node.func.value
        if isinstance(method, ast.expr) and ast.unparse(method) != "torch":
            return summands(method)
        return summands(node.args[0] if node.args else None)
    return set()


def _in_order(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _other_sides(node: ast.AST, name: str, derived: set[str]) -> Iterator[ast.expr]:
    """Give what a delta is added to: ``x`` of ``x + delta`` and of ``x + scale * delta``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if _is_scaled(one, name) and not used_names(other) & derived and used_names(other):
            yield other


def _is_scaled(node: ast.expr, name: str) -> bool:
    """Say whether an expression is the subject, a slice of it, or a multiple of these."""
    if isinstance(node, ast.Subscript):
        return _is_scaled(node.value, name)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _is_scaled(node.left, name) or _is_scaled(node.right, name)
    return isinstance(node, ast.Name) and node.id == name


class _Images:
    """Tells limits of an image itself from those of its difference from another."""

    def __init__(self, inside: list[ast.AST], name: str, gradient: set[str]) -> None:
        self._subject, self._gradient = name, gradient
        self._names = {name, *self._made_of(inside)}

    def limited_by(self, call: ast.Call) -> bool:
        """Say whether a call limits an image itself."""
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        if of is None or (isinstance(of, ast.Name) and of.id == "torch"):
            of = call.args[0] if call.args else None
        if of is None or self._is_difference(of):
            return False
        return not self._names.isdisjoint(summands(of))

    def _made_of(self, inside: list[ast.AST]) -> Iterator[str]:
        """Give the locals that are the image plus something."""
        for node in inside:
            value = node.value if isinstance(node, ast.Assign) else None
            of_image = value is not None and self._subject in summands(value)
            if value is not None and of_image and not self._is_difference(value):
                yield from (each.id for each in targets(node) if isinstance(each, ast.Name))

    def _is_difference(self, node: ast.expr) -> bool:
        """Say whether something is taken off that is no step along the gradient."""
        return any(
            isinstance(part, ast.BinOp)
            and isinstance(part.op, ast.Sub)
            and not used_names(part.right) & self._gradient
            and not _reads_grad(part.right, self._subject)
            for part in ast.walk(node)
        )


def _bounds(node: ast.AST, images: _Images) -> Iterator[tuple[str, bool]]:
    """Give the limits on both sides of zero, or of another tensor, that a call sets.

    With each goes whether it limits an image itself, rather than its difference from another.
    """
    if not isinstance(node, ast.Call):
        return
    if called(node) in _CLAMPS:
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        plain = {ast.unparse(argument) for argument in arguments}
        for argument in arguments:
            if isinstance(argument, ast.UnaryOp) and isinstance(argument.op, ast.USub):
                limit = ast.unparse(argument.operand)
                if limit in plain:
                    yield limit, images.limited_by(node)
    if called(node) in _EXTREMES:
        yield from ((limit, False) for limit in _around(node))


def _around(call: ast.Call) -> Iterator[str]:
    """Give ``e`` of ``min(max(x, clean - e), clean + e)``."""
    sides: dict[type[ast.operator], set[tuple[str, str]]] = {ast.Add: set(), ast.Sub: set()}
    for part in ast.walk(call):
        if isinstance(part, ast.BinOp) and type(part.op) in sides:
            sides[type(part.op)].add((ast.unparse(part.left), ast.unparse(part.right)))
    yield from sorted(limit for _, limit in sides[ast.Add] & sides[ast.Sub])


def _steps(node: ast.AST, name: str, gradient: set[str]) -> Iterator[str]:
    """Give the factors of the gradient: ``alpha`` of ``alpha * grad.sign()``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if is_plain(one) and (used_names(other) & gradient or _reads_grad(other, name)):
            yield ast.unparse(one)


def is_plain(node: ast.expr) -> bool:
    """Say whether something is a name, an attribute that a name leads to, or a number."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, (ast.Name, ast.Constant))


def _reads_grad(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr == "grad" and name in summands(part.value)
        for part in ast.walk(node)
    )
