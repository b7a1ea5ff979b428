"""From the tree of an expression to a function that computes its value: nested closures, no code.

A value that is not known is None, and so is what is computed from it: a comparison with it is
neither true nor false. `and` and `or` are known as soon as one side settles them. Where
arithmetic has no result (a division by zero, a number too large) that is None as well. NaN is a
number, and compares as Python's does.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from pertdbg.conditions.tree import (
    And,
    Binary,
    Call,
    Changed,
    Compare,
    Constant,
    Field,
    Is,
    Item,
    Negative,
    Node,
    Not,
    Or,
    Shares,
)

Value = Callable[[Any, Any], Any]
"""Computes a value from a record and the record of the layer's call before it."""

MOST_BITS = 1024
"""Of a whole number; as far as floating point numbers reach."""

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "isfinite": math.isfinite,
    "isinf": math.isinf,
    "isnan": math.isnan,
    "len": len,
    "log10": math.log10,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
}


class Leaves:
    """Where the values come from: records, or something that stands for them."""

    def field(self, path: str) -> Value:
        """Give what looks a field up."""
        raise NotImplementedError

    def shares(self, one: str, other: str) -> Value:
        """Give what says whether two tensors share storage."""
        raise NotImplementedError

    def changed(self, path: str) -> Value:
        """Give what says whether a field is another than in the call before."""
        raise NotImplementedError


def build(node: Node, leaves: Leaves) -> Value:
    """Make the function that computes a node's value."""
    return _BUILDERS[type(node)](node, leaves)


def same(one: Any, other: Any) -> bool:
    """Say whether nothing has changed: NaN is the same as NaN here."""
    return bool(one == other or (one != one and other != other))


def _constant(node: Constant, _: Leaves) -> Value:
    value = node.value
    return lambda _record, _previous: value


def _field(node: Field, leaves: Leaves) -> Value:
    return leaves.field(node.path)


def _shares(node: Shares, leaves: Leaves) -> Value:
    return leaves.shares(node.one, node.other)


def _item(node: Item, leaves: Leaves) -> Value:
    of, index = build(node.of, leaves), node.index

    def value(record: Any, previous: Any) -> Any:
        items = of(record, previous)
        return items[index] if items is not None and -len(items) <= index < len(items) else None

    return value


def _negative(node: Negative, leaves: Leaves) -> Value:
    of = build(node.of, leaves)

    def value(record: Any, previous: Any) -> Any:
        number = of(record, previous)
        return None if number is None else -number

    return value


def _binary(node: Binary, leaves: Leaves) -> Value:
    left, right = build(node.left, leaves), build(node.right, leaves)
    compute, power = _ARITHMETIC[node.sign], node.sign == "**"

    def value(record: Any, previous: Any) -> Any:
        a = left(record, previous)
        b = None if a is None else right(record, previous)
        if b is None:
            return None
        try:
            if power and type(a) is int and a.bit_length() * abs(b) > 2 * MOST_BITS:
                return None
            result = compute(a, b)
        except ArithmeticError:
            return None
        return result if type(result) is float or result.bit_length() <= MOST_BITS else None

    return value


def _compare(node: Compare, leaves: Leaves) -> Value:
    if node.sign in ("in", "not in"):
        return _among(node, leaves)
    compare, left = _ORDER[node.sign], build(node.left, leaves)
    if isinstance(node.right, Constant):
        return _compare_with(left, compare, node.right.value)
    right = build(node.right, leaves)

    def value(record: Any, previous: Any) -> bool | None:
        a = left(record, previous)
        b = None if a is None else right(record, previous)
        return None if b is None else compare(a, b)

    return value


def _compare_with(left: Value, compare: Callable[[Any, Any], bool], constant: Any) -> Value:
    def value(record: Any, previous: Any) -> bool | None:
        a = left(record, previous)
        return None if a is None else compare(a, constant)

    return value


def _among(node: Compare, leaves: Leaves) -> Value:
    left, right, wanted = build(node.left, leaves), build(node.right, leaves), node.sign == "in"

    def value(record: Any, previous: Any) -> bool | None:
        a = left(record, previous)
        b = None if a is None else right(record, previous)
        if b is None:
            return None
        if isinstance(b, str):
            return (isinstance(a, str) and a in b) is wanted
        there: bool = bool(a == a) and a in b  # a tuple would find a NaN that is itself
        return there is wanted

    return value


def _is(node: Is, leaves: Leaves) -> Value:
    of, what, wanted = build(node.of, leaves), node.what, node.wanted
    return lambda record, previous: (of(record, previous) is what) is wanted


def _not(node: Not, leaves: Leaves) -> Value:
    of = build(node.of, leaves)

    def value(record: Any, previous: Any) -> bool | None:
        truth = of(record, previous)
        return not truth if type(truth) is bool else None

    return value


def _logic(node: And | Or, leaves: Leaves) -> Value:
    parts = tuple(build(part, leaves) for part in node.parts)
    settles = isinstance(node, Or)

    def value(record: Any, previous: Any) -> bool | None:
        result: bool | None = not settles
        for part in parts:
            truth = part(record, previous)
            if type(truth) is bool and truth == settles:
                return truth
            if type(truth) is not bool:
                result = None
        return result

    return value


def _call(node: Call, leaves: Leaves) -> Value:
    arguments = tuple(build(argument, leaves) for argument in node.arguments)
    compute = _FUNCTIONS[node.name]

    def value(record: Any, previous: Any) -> Any:
        given = [argument(record, previous) for argument in arguments]
        if None in given:
            return None
        try:
            return compute(*given)
        except (ArithmeticError, ValueError):
            return None

    return value


def _changed(node: Changed, leaves: Leaves) -> Value:
    if isinstance(node.of, Field):
        return leaves.changed(node.of.path)
    of = build(node.of, leaves)

    def value(record: Any, previous: Any) -> bool | None:
        now = of(record, None)
        before = None if now is None or previous is None else of(previous, None)
        return None if before is None else not same(now, before)

    return value


_BUILDERS: dict[type, Callable[[Any, Leaves], Value]] = {
    Constant: _constant,
    Field: _field,
    Item: _item,
    Negative: _negative,
    Binary: _binary,
    Compare: _compare,
    Is: _is,
    Not: _not,
    And: _logic,
    Or: _logic,
    Call: _call,
    Shares: _shares,
    Changed: _changed,
}
