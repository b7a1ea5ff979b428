"""How to observe one kind of layer: plain data that the host sends to the agent as JSON."""

from __future__ import annotations

import ast
import functools
import math
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pertdbg.record import BoundKind


@dataclass(frozen=True)
class Adapter:
    """Which method is the update, and where its tensors and numbers stand.

    `delta`, `input` and `perturbed_input` name attributes of the layer. `bound` and
    `learning_rate` are arithmetic over numbers and attributes, such as
    ``2 * self.init_perturbation``.
    """

    method: str = "update_delta"
    delta: str = "delta"
    input: str = "input"
    perturbed_input: str = "perturbated_input"
    bound: str | None = None
    bound_kind: BoundKind | None = None
    learning_rate: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Give the fields as JSON values."""
        return asdict(self)


SIFT = Adapter(
    bound="2 * self.init_perturbation",
    bound_kind="creation",
    learning_rate="self.learning_rate",
)
"""The layer of DeBERTa's scale-invariant fine-tuning, and copies of it."""


class Missing(Exception):
    """An attribute or number of the layer that could not be had; the text says why."""


class Absent(Missing):
    """There is no such attribute (yet): a layer gets its tensors as it runs."""


class Unbound(Missing):
    """There is no such name (yet): a function binds its locals as it runs."""


def stored(owner: object, name: str) -> Any:
    """Look an attribute up without running code of the layer.

    Only what is stored is found: instance attributes, parameters, buffers, submodules, slots and
    plain class attributes. A property is refused, since it may compute, draw random numbers or
    change the layer.

    Raises:
        Absent: There is no such attribute.
        Missing: It is computed by a descriptor.
    """
    fields = getattr(owner, "__dict__", {})
    if name in fields:
        return fields[name]
    for table in ("_parameters", "_buffers", "_modules"):
        entries = fields.get(table)
        if entries is not None and name in entries:
            return entries[name]
    for cls in type(owner).__mro__:
        if name in cls.__dict__:
            return _of_class(owner, name, cls.__dict__[name])
    raise Absent(f"{type(owner).__name__} has no attribute {name!r}")


def _of_class(owner: object, name: str, value: Any) -> Any:
    if isinstance(value, types.MemberDescriptorType):
        try:
            return value.__get__(owner)
        except AttributeError:
            raise Absent(f"slot {name!r} is empty") from None
    if hasattr(type(value), "__get__"):
        raise Missing(f"{name!r} is computed by a {type(value).__name__}, which is not run")
    return value


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


def number(expression: str | None, owner: object) -> float | None:
    """Evaluate a number that a layer declares, such as a bound; see `number_in`."""
    return number_in(expression, {"self": owner})


def number_in(expression: str | None, names: Mapping[str, object]) -> float | None:
    """Evaluate a number that the code declares, such as a bound.

    Args:
        expression: Numbers, names and their stored attributes under ``+ - * /``, and `sqrt` of
            such a number; None for none.
        names: What the names stand for: ``self``, or the locals of a function.

    Raises:
        Missing: The expression is of another form, or a part of it is not a plain number.
    """
    if expression is None:
        return None
    try:
        return float(_evaluate(_parsed(expression), names))
    except ArithmeticError as error:
        raise Missing(f"{expression!r}: {error}") from None


def thing_in(expression: str, names: Mapping[str, object]) -> Any:
    """Look up what an expression such as ``self.model`` stands for; no code of the target runs.

    Raises:
        Unbound: A name is not there (yet).
        Absent: An attribute is not there (yet).
        Missing: The expression is of another form, or an attribute is computed.
    """
    return _looked_up(_parsed(expression), names)


@functools.lru_cache(maxsize=1024)
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise Missing(f"{expression!r} is not an expression: {error.msg}") from None


def _evaluate(node: ast.expr, names: Mapping[str, object]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluate(node.left, names), _evaluate(node.right, names)
        return float(_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return float(_OPERATORS[type(node.op)](_evaluate(node.operand, names)))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "sqrt" and len(node.args) == 1:
        return _root(_evaluate(node.args[0], names))
    value: Any = node.value if isinstance(node, ast.Constant) else _looked_up(node, names)
    if type(value) not in (int, float):
        raise Missing(f"{ast.unparse(node)} is a {type(value).__name__}, not a plain number")
    return float(value)


def _root(value: float) -> float:
    if value < 0:
        raise Missing(f"the square root of {value}")
    return math.sqrt(value)


def _entry(owner: Any, node: ast.Subscript, names: Mapping[str, object]) -> Any:
    """Give an entry of a dict, a list or a tuple; those of other classes are computed."""
    index = node.slice
    key: Any = index.value if isinstance(index, ast.Constant) else _looked_up(index, names)
    if type(owner) not in (dict, list, tuple) or type(key) not in (str, int):
        raise Missing(
            f"{ast.unparse(node)} is computed by a {type(owner).__name__}, which is not run"
        )
    try:
        return owner[key]
    except LookupError:
        raise Absent(f"{ast.unparse(node)} is not there") from None


def _looked_up(node: ast.expr, names: Mapping[str, object]) -> Any:
    if isinstance(node, ast.Name):
        if node.id in names:
            return names[node.id]
        raise Unbound(f"{node.id} is neither a number nor an attribute of self")
    if isinstance(node, ast.Attribute):
        return stored(_looked_up(node.value, names), node.attr)
    if isinstance(node, ast.Subscript):
        return _entry(_looked_up(node.value, names), node, names)
    raise Missing(f"{ast.unparse(node)} is neither a number nor an attribute of self")
