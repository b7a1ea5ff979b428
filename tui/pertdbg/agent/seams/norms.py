"""Which L2 norm of its subject a loop limits, and to what, as its source tells.

A limit may be of one of two forms: the subject is scaled by what a norm of it and a number come to
(`d * (eps / d.norm()).clamp(max=1)`, a mask of `norm > eps`), or it is normalised, at once or by a
function that does nothing else (`xi * _l2_normalize(d)`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pertdbg.agent.seams.flow import called, targets, used_names, writes
from pertdbg.agent.seams.guesses import is_keeping, is_plain, summands
from pertdbg.record import BoundOf

FunctionNamed = Callable[[str], ast.FunctionDef | None]
"""Gives a function of the same file."""

Dims = tuple[int, ...] | None
"""Dimensions that a norm goes over; None: all of them."""

_BEHIND_FIRST: tuple[int, ...] = (1, -1)
"""Stands for all dimensions behind the first."""

NORMS = frozenset({"norm", "vector_norm"})
_SHAPES = frozenset({"view", "reshape", "flatten", "view_as", "double", "unsqueeze", "squeeze"})
_MODULES = frozenset({"torch", "linalg", "np", "numpy", "LA", "F"})
_NORMALISER = re.compile(r"l2_?norm|normalize")


@dataclass(frozen=True)
class Norms:
    """What the source of a loop says of L2 norms."""

    limit: str | None = None
    """Expression that a norm of the subject is limited to."""
    dims: Dims = None
    """What this norm goes over."""
    told: bool = False
    """The code takes L2 norms, over these dimensions, of the subject or of its gradient."""
    other: str | None = None
    """Whose norm it is that limits the subject, where it is not the subject's own."""


SILENT = Norms()
"""A source that says nothing of them."""


@dataclass(frozen=True)
class _Norm:
    of: ast.expr
    dims: Dims


def of_dims(dims: Dims, count: int) -> BoundOf | None:
    """Say what a norm belongs to in a tensor of so many dimensions; None for none of these."""
    if dims is None:
        return "whole"
    if dims == _BEHIND_FIRST:
        return "sample" if count > 1 else "whole"
    over = {dim % count for dim in dims} if count else set()
    if over == set(range(count)):
        return "whole"
    if over == set(range(1, count)):
        return "sample"
    return "row" if over == {count - 1} else None


def norms_of(
    nodes: list[ast.AST],
    inside: list[ast.AST],
    name: str,
    gradient: set[str],
    function_named: FunctionNamed,
) -> Norms:
    """Read a loop for what limits an L2 norm of its subject.

    Args:
        nodes: The nodes of the whole function.
        inside: Those of the loop.
        name: The subject.
        gradient: Locals whose values depend on its gradient.
        function_named: Gives a function that the loop calls.
    """
    limit = _Reading(inside, name).limit(function_named)
    return limit or _Reading(nodes, name).geometry(gradient)


class _Reading:
    """The norms that a piece of code takes, by the locals that are made of them."""

    def __init__(self, inside: list[ast.AST], name: str) -> None:
        self._name, self._inside = name, sorted(inside, key=_place)
        self._shaped = {
            target.id: node.value
            for node in self._inside
            if isinstance(node, ast.Assign) and _peeled(node.value) is not node.value
            for target in targets(node)
            if isinstance(target, ast.Name) and target.id != name
        }
        self._norms: dict[str, _Norm] = {}
        for node in self._inside:
            found = self._norm_in(node.value) if isinstance(node, ast.Assign) else None
            for target in targets(node) if found is not None else ():
                if isinstance(target, ast.Name) and target.id != name and found is not None:
                    self._norms.setdefault(target.id, found)
        self.writes = [w for w in writes(self._inside, name, frozenset()) if w.value is not None]

    def limit(self, function_named: FunctionNamed) -> Norms | None:
        """Give the limit that the last move of the subject keeps to."""
        for write in reversed(self.writes):
            value = _kept(write.value)
            found = self._normalised(value, function_named) or self._scaled(value)
            if found is not None:
                return found
            if any(isinstance(n, ast.BinOp) for n in ast.walk(value)):
                return None  # what comes last moves it by something else
        return None

    def geometry(self, gradient: set[str]) -> Norms:
        """Say which norms the code takes of the subject, or of its gradient."""
        own = {self._name, *gradient}
        for node in self._inside:
            norm = _norm(node, self._shaped)
            reads = norm is not None and any(
                isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(norm.of)
            )
            if norm is not None and (reads or used_names(norm.of) & own):
                return Norms(dims=norm.dims, told=True)
        return SILENT

    def _scaled(self, value: ast.expr) -> Norms | None:
        """See ``d * factor`` where the factor is made of a norm and of what limits it."""
        over, under = _factors(value)
        scaled = [part for part in over if self._is_subject(part)]
        rest = [part for part in (*over, *under) if part not in scaled]
        found = [norm for part in rest if (norm := self._norm_in(part)) is not None]
        if not scaled or not found:
            return None
        whose = summands(_peeled(found[0].of, self._shaped))
        limits = [limit for part in rest for limit in self._limits(part)]
        plain = [ast.unparse(part) for part in over if is_plain(part) and part not in scaled]
        if any(self._norm_in(part) is not None for part in under) and not limits:
            limits = plain or ["1"]
        if not limits:
            return None
        own = {name for part in scaled for name in summands(part)} | {self._name}
        if whose.isdisjoint(own) or (len(whose) > 1 and not self._is_difference(found[0].of)):
            return Norms(limits[0], found[0].dims, other=ast.unparse(_peeled(found[0].of)))
        return Norms(limits[0], found[0].dims)

    def _is_subject(self, part: ast.expr) -> bool:
        """Say whether a factor is the subject, or its sum with a step or difference from clean."""
        names = summands(part)
        if self._name in names:
            return True
        return any(
            isinstance(node, ast.Assign)
            and self._name in summands(node.value)
            and any(isinstance(t, ast.Name) and t.id in names for t in targets(node))
            for node in self._inside
        )

    def _is_difference(self, node: ast.expr) -> bool:
        peeled = _peeled(node, self._shaped)
        return isinstance(peeled, ast.BinOp) and isinstance(peeled.op, ast.Sub)

    def _limits(self, part: ast.AST) -> Iterator[str]:
        """Give the numbers that a norm is divided by, divided from or compared with."""
        nodes = [*ast.walk(part), *self._made_of(part)]
        for node in nodes:
            sides: tuple[ast.expr, ...] = ()
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                sides = node.left, node.right
            elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
                sides = node.left, node.comparators[0]
            for one, other in (sides, sides[::-1]) if sides else ():
                if is_plain(one) and self._norm_in(one) is None and self._norm_in(other):
                    yield ast.unparse(one)

    def _made_of(self, part: ast.AST) -> Iterator[ast.AST]:
        """Give what the locals in a factor were made of."""
        waiting, seen = list(used_names(part)), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in self._norms:
                continue
            seen.add(name)
            for node in self._inside:
                if isinstance(node, ast.Assign) and any(
                    isinstance(target, ast.Name) and target.id == name for target in targets(node)
                ):
                    waiting.extend(used_names(node.value))
                    yield from ast.walk(node.value)

    def _normalised(self, value: ast.expr, function_named: FunctionNamed) -> Norms | None:
        """See ``xi * _l2_normalize(d)``."""
        over, under = _factors(value)
        calls = [part for part in over if isinstance(part, ast.Call)]
        plain = [part for part in over if is_plain(part)]
        if under or len(calls) != 1 or len(over) != len(plain) + 1 or len(plain) > 1:
            return None
        (call,) = calls
        if not _NORMALISER.search(called(call).lower()) or not call.args:
            return None
        limit = ast.unparse(plain[0]) if plain else "1"
        if called(call) == "normalize":
            return _by_normalize(call, limit)
        function = function_named(called(call))
        dims = None if function is None else _dims_of_normaliser(function)
        return None if dims is None else Norms(limit, dims)

    def _norm_in(self, value: ast.AST) -> _Norm | None:
        for node in ast.walk(value):
            found = _norm(node, self._shaped)
            if found is None and isinstance(node, ast.Name):
                found = self._norms.get(node.id)
            if found is not None:
                return found
        return None


def _by_normalize(call: ast.Call, limit: str) -> Norms | None:
    """Read torch's own `normalize`, whose dimension is 1 unless it is said."""
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if not _is_two(options.get("p")) or len(call.args) > 1:
        return None
    dims = _dims(options["dim"]) if "dim" in options else (1,)
    over = dims and _over(call.args[0], dims, {})
    return Norms(limit, over) if over else None


def _dims_of_normaliser(function: ast.FunctionDef) -> Dims:
    """Say what a function normalises over, where it divides its argument by a norm of it."""
    if not function.args.args:
        return None
    name = function.args.args[0].arg
    reading = _Reading(list(ast.walk(function)), name)
    for node in ast.walk(function):
        divided: ast.expr | None = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            by, divided = node.right, node.left
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            by, divided = node.value, node.target
        norm = None if divided is None else reading._norm_in(by)
        if norm is not None and divided is not None and name in used_names(divided):
            return norm.dims
    return None


def _norm(node: ast.AST, shaped: dict[str, ast.expr]) -> _Norm | None:
    """Read a call that gives an L2 norm; None where it is none, or another norm."""
    if not isinstance(node, ast.Call):
        return None
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    of, rest = argument_of(node)
    over = options.get("dim", options.get("axis"))
    if called(node) in NORMS and of is not None:
        order = options.get("p", options.get("ord", rest[0] if rest else None))
        over = over or (rest[1] if len(rest) > 1 else None)
        if not _is_two(order):
            return None
    elif called(node) == "sqrt" and isinstance(of := _guarded(of), ast.Call) and _sums(of):
        options = {keyword.arg: keyword.value for keyword in of.keywords}
        of, rest = argument_of(of)
        over = options.get("dim", options.get("axis", rest[0] if rest else None))
        of = _squared(of)
    else:
        return None
    if of is None:
        return None
    if over is None:
        return _Norm(of, None)
    dims = _dims(over)
    known = dims and _over(of, dims, shaped)
    return _Norm(of, known) if known else None


def argument_of(call: ast.Call) -> tuple[ast.expr | None, list[ast.expr]]:
    """Give the tensor that a function, or a method, is about, and the other arguments."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    root = owner
    while isinstance(root, ast.Attribute):
        root = root.value
    if owner is None or (isinstance(root, ast.Name) and root.id in _MODULES):
        return (call.args[0], call.args[1:]) if call.args else (None, [])
    return owner, call.args


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _guarded(node: ast.expr | None) -> ast.expr | None:
    """Give ``x`` of ``x + 1e-8``."""
    summed = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    return node.left if isinstance(node, ast.BinOp) and summed and is_plain(node.right) else node


def _sums(call: ast.Call) -> bool:
    return called(call) == "sum"


def _squared(node: ast.expr | None) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return node.left if _is_two(node.right) else None
    if isinstance(node, ast.Call) and called(node) == "pow":
        of, rest = argument_of(node)
        return of if rest and _is_two(rest[0]) else None
    return None


def _is_two(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value in (2, "fro"))


def _dims(node: ast.expr) -> Dims:
    if isinstance(node, (ast.Tuple, ast.List)):
        found = [dim for part in node.elts for dim in _dims(part) or ()]
        return tuple(found) if len(found) == len(node.elts) and found else None
    try:
        number = ast.literal_eval(node)
    except (ValueError, TypeError):
        ranges = [n for n in ast.walk(node) if isinstance(n, ast.Call) and called(n) == "range"]
        starts = [n.args[0] for n in ranges if len(n.args) == 2]
        behind = [n for n in starts if isinstance(n, ast.Constant) and n.value == 1]
        return _BEHIND_FIRST if behind else None
    return (number,) if type(number) is int else None


def _over(node: ast.expr, dims: tuple[int, ...], shaped: dict[str, ast.expr]) -> Dims:
    """Give dimensions of a tensor that may have been given another shape; None if not known."""
    if isinstance(node, ast.Name) and node.id in shaped:
        node = shaped[node.id]
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if called(node) in ("flatten", "view", "reshape"):
            flat = _is_flat(node) and dims in ((1,), (-1,))
            return _BEHIND_FIRST if flat else None
        node = node.func.value
    return dims


def _is_flat(call: ast.Call) -> bool:
    """Say whether a call leaves the first dimension, and makes one of all the others."""
    first = call.args[0] if call.args else None
    if called(call) == "flatten":
        return isinstance(first, ast.Constant) and first.value == 1 and len(call.args) == 1
    if len(call.args) < 2 or ast.unparse(call.args[1]) != "-1":
        return False
    return len(call.args) == 2 or isinstance(call.args[2], ast.Starred)


def _peeled(node: ast.expr, shaped: dict[str, ast.expr] | None = None) -> ast.expr:
    """Take off what changes a tensor's shape, or keeps it as it is."""
    if shaped is not None and isinstance(node, ast.Name) and node.id in shaped:
        node = shaped[node.id]
    while isinstance(node, ast.Call) and (called(node) in _SHAPES or is_keeping(node)):
        of, _ = argument_of(node)
        if of is None:
            break
        node = of
    return node


def _kept(node: ast.expr | None) -> ast.expr:
    return _peeled(node) if node is not None else ast.Constant(None)


def _factors(node: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """Take a product apart: what is multiplied, and what it is divided by.

    A clean tensor that a scaled difference is added to is left out.
    """
    node = _peeled(node) if isinstance(node, ast.Call) and not is_clamp(node) else node
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        over, under = _factors(node.left)
        more, less = _factors(node.right)
        if isinstance(node.op, ast.Div):
            more, less = less, more
        return over + more, under + less
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for side in (node.right, node.left):
            product = isinstance(side, ast.BinOp) and isinstance(side.op, (ast.Mult, ast.Div))
            other = node.left if side is node.right else node.right
            if product and isinstance(other, ast.Name):
                return _factors(side)
    return [node], []


def is_clamp(call: ast.Call) -> bool:
    """Say whether a call limits each element."""
    return called(call) in ("clamp", "clip", "clamp_", "clip_")
