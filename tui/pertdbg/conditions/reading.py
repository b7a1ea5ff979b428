"""From the text of an expression to its tree: what is not allowed is refused, with its place."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, get_args

from pertdbg.conditions import tokens
from pertdbg.conditions.errors import ConditionError
from pertdbg.conditions.fields import FUNCTIONS, ROLES, WORDS, Kind, Kinds, fields, nearest
from pertdbg.conditions.tree import (
    And,
    Arithmetic,
    Binary,
    Call,
    Changed,
    Compare,
    Comparison,
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

DEEPEST = 60
"""Most levels of a tree."""

MOST_ITEMS = 50
"""Most items of a list that is written out."""

MOST_BITS = 64
"""Of a whole number that is written out."""

GREATEST_POWER = 16

_ARITHMETIC: dict[type[ast.operator], Arithmetic] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_COMPARISON: dict[type[ast.cmpop], Comparison] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_NAMED = {"inf": math.inf, "nan": math.nan}
_LISTS: dict[Kind, Kind] = {"numbers": "number", "texts": "text"}
_NUMBER: Kinds = frozenset({"number"})
_TRUTH: Kinds = frozenset({"truth"})
_ARGUMENTS = {
    **dict.fromkeys(("abs", "isfinite", "isinf", "isnan", "log10", "sqrt"), (1, 1)),
    **dict.fromkeys(("max", "min"), (2, 8)),
    "len": (1, 1),
}
_TESTS = ("isfinite", "isinf", "isnan")

Read = tuple[Node, Kinds]


def read(text: str) -> Read:
    """Read an expression: its tree, and what its value may be.

    Raises:
        ConditionError: It is not one of the language.
    """
    tokens.check(text)
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ConditionError(text, _column(text, error), _said(error)) from None
    except (ValueError, RecursionError, MemoryError):
        raise ConditionError(text, 1, "it is too deeply nested") from None
    return _Reader(text).read(body, 0)


def _column(text: str, error: SyntaxError) -> int:
    if not error.offset:  # more was expected at the end
        return len(text) + 1
    return min(error.offset + len(text) - len(text.lstrip()), len(text) + 1)


def _said(error: SyntaxError) -> str:
    said = error.msg.partition(". ")[0]
    return "something is missing or out of place" if "invalid syntax" in said else said


class _Reader:
    """Reads the nodes of one expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._indent = len(text) - len(text.lstrip())
        self._in_changed = False
        self._readers: dict[type[ast.expr], Callable[[Any, int], Read]] = {
            ast.Constant: self._constant,
            ast.Name: self._path,
            ast.Attribute: self._path,
            ast.Subscript: self._item,
            ast.Tuple: self._list,
            ast.List: self._list,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binary,
            ast.BoolOp: self._logic,
            ast.Compare: self._compare,
            ast.Call: self._call,
        }

    def read(self, node: ast.expr, depth: int) -> Read:
        """Read a node and all below it."""
        if depth > DEEPEST:
            self._refuse(node, "it is too deeply nested")
        reader = self._readers.get(type(node))
        if reader is None:
            self._refuse(node, f"{_named(node)} has no place in a condition")
        return reader(node, depth + 1)

    def _refuse(self, node: ast.expr, problem: str) -> NoReturn:
        # The parser counts bytes of UTF-8.
        before = self._text.strip().encode()[: node.col_offset].decode(errors="replace")
        raise ConditionError(self._text, self._indent + len(before) + 1, problem)

    def _constant(self, node: ast.Constant, _: int) -> Read:
        value = node.value
        if value is None:
            self._refuse(node, "None stands behind is, or is not, only")
        if isinstance(value, bool):
            return Constant(value), _TRUTH
        if type(value) not in (int, float, str):
            self._refuse(node, "a value is a number or a text")
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            self._refuse(node, f"a whole number has at most {MOST_BITS} bits")
        return Constant(value), frozenset({"text"}) if isinstance(value, str) else _NUMBER

    def _path(self, node: ast.expr, _: int) -> Read:
        path = self._dotted(node)
        if path in _NAMED:
            return Constant(_NAMED[path]), _NUMBER
        kinds = fields().get(path)
        if kinds is None:
            self._refuse(node, self._no_field(path))
        return Field(path), kinds

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return node.id
        if not isinstance(node, ast.Attribute):
            self._refuse(node, "a field is a name, or names with dots between them")
        return f"{self._dotted(node.value)}.{node.attr}"

    def _no_field(self, path: str) -> str:
        if path in FUNCTIONS:
            return f"{path} is a function: write {path}(...)"
        return f"there is no field {path}{nearest(path)}"

    def _item(self, node: ast.Subscript, depth: int) -> Read:
        of, kinds = self.read(node.value, depth)
        index, _ = self.read(node.slice, depth) if _is_number(node.slice) else (None, None)
        if not isinstance(index, Constant) or not isinstance(index.value, int):
            self._refuse(node.slice, "an item is chosen by a whole number")
        found = frozenset(_LISTS[kind] for kind in kinds if kind in _LISTS)
        if not found:
            self._refuse(node.value, f"{_words(kinds)} has no items")
        return Item(of, index.value), found | {"none"}

    def _list(self, node: ast.Tuple | ast.List, depth: int) -> Read:
        items = [self.read(item, depth) for item in node.elts]
        kinds = frozenset(kind for _, found in items for kind in found)
        constant = all(isinstance(item, Constant) for item, _ in items)
        if not constant or len(kinds) != 1 or not kinds <= {"number", "text"}:
            self._refuse(node, "a list is of numbers or of texts, written out, at least one")
        if len(items) > MOST_ITEMS:
            self._refuse(node, f"a list has at most {MOST_ITEMS} items")
        values = tuple(item.value for item, _ in items if isinstance(item, Constant))
        return Constant(values), frozenset({"numbers" if kinds == _NUMBER else "texts"})

    def _unary(self, node: ast.UnaryOp, depth: int) -> Read:
        of, kinds = self.read(node.operand, depth)
        if isinstance(node.op, ast.Not):
            self._need("truth", node.operand, kinds)
            return Not(of), _TRUTH
        self._need("number", node.operand, kinds)
        if isinstance(node.op, ast.UAdd):
            return of, kinds
        return Constant(-of.value) if isinstance(of, Constant) else Negative(of), _NUMBER

    def _binary(self, node: ast.BinOp, depth: int) -> Read:
        sign = _ARITHMETIC.get(type(node.op))
        if sign is None:
            self._refuse(node, f"arithmetic is {', '.join(_ARITHMETIC.values())}")
        left, kinds = self.read(node.left, depth)
        self._need("number", node.left, kinds)
        right, kinds = self.read(node.right, depth)
        self._need("number", node.right, kinds)
        if sign == "**" and not _is_power(right):
            self._refuse(
                node.right, f"a power is a whole number of at most {GREATEST_POWER}, written out"
            )
        return Binary(sign, left, right), _NUMBER | {"none"}

    def _logic(self, node: ast.BoolOp, depth: int) -> Read:
        parts = []
        for value in node.values:
            part, kinds = self.read(value, depth)
            self._need("truth", value, kinds)
            parts.append(part)
        logic = And if isinstance(node.op, ast.And) else Or
        return logic(tuple(parts)), _TRUTH

    def _compare(self, node: ast.Compare, depth: int) -> Read:
        parts: list[Node] = []
        before, left = node.left, self.read(node.left, depth)
        for operator, value in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, (ast.Is, ast.IsNot)):
                if value is not node.comparators[-1]:
                    self._refuse(value, "is does not go on; write and")
                parts.append(self._is(before, left, value, isinstance(operator, ast.Is)))
                break
            right = self.read(value, depth)
            sign = _COMPARISON[type(operator)]
            self._check_comparison(sign, before, left, right)
            parts.append(Compare(sign, left[0], right[0]))
            before, left = value, right
        return (parts[0] if len(parts) == 1 else And(tuple(parts))), _TRUTH

    def _is(self, before: ast.expr, left: Read, value: ast.expr, wanted: bool) -> Node:
        what = value.value if isinstance(value, ast.Constant) else 0
        if not (what is None or what is True or what is False):
            self._refuse(value, "behind is stands None, True or False; to compare write ==")
        if what is not None and "truth" not in left[1]:
            self._refuse(before, f"it is {_words(left[1])}, never {what}")
        return Is(left[0], what, wanted)

    def _check_comparison(self, sign: Comparison, node: ast.expr, left: Read, right: Read) -> None:
        a, b = left[1] - {"none"}, right[1] - {"none"}
        if sign in ("in", "not in"):
            fits = any(_LISTS.get(kind) in a for kind in b) or (a >= {"text"} <= b)
        elif sign in ("==", "!="):
            fits = bool(a & b & {"number", "truth", "text", "numbers", "texts"})
        else:
            fits = a == b and a in (_NUMBER, {"text"})
        if not fits:
            doubt = "; name one of its fields" if "group" in a | b else ""
            self._refuse(node, f"{_words(a)} {sign} {_words(b)} has no meaning{doubt}")

    def _call(self, node: ast.Call, depth: int) -> Read:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            self._refuse(node.func, f"only these can be called: {', '.join(FUNCTIONS)}")
        if node.keywords:
            self._refuse(node, f"{name} takes no names of arguments")
        if name == "shares":
            return self._shares(node)
        if name == "changed":
            return self._changed(node, depth)
        low, high = _ARGUMENTS[name]
        if not low <= len(node.args) <= high:
            many = str(low) if low == high else f"{low} to {high}"
            self._refuse(node, f"{name} takes {many} argument{'s' if high > 1 else ''}")
        arguments = []
        for value in node.args:
            argument, kinds = self.read(value, depth)
            if name != "len":
                self._need("number", value, kinds)
            elif not kinds & {"numbers", "texts", "pairs", "text"}:
                self._refuse(value, f"it is {_words(kinds)}, which has no length")
            arguments.append(argument)
        return Call(name, tuple(arguments)), _TRUTH if name in _TESTS else _NUMBER | {"none"}

    def _shares(self, node: ast.Call) -> Read:
        roles = [self._dotted(value) for value in node.args]
        wrong = [value for value, role in zip(node.args, roles, strict=True) if role not in ROLES]
        if wrong or len(roles) != 2:
            self._refuse([*wrong, node][0], f"shares takes two of {', '.join(ROLES)}")
        return Shares(roles[0], roles[1]), _TRUTH

    def _changed(self, node: ast.Call, depth: int) -> Read:
        if len(node.args) != 1:
            self._refuse(node, "changed takes one argument")
        if self._in_changed:
            self._refuse(node, "changed can't stand inside changed")
        self._in_changed = True
        of, _ = self.read(node.args[0], depth)
        self._in_changed = False
        return Changed(of), _TRUTH

    def _need(self, kind: Kind, node: ast.expr, kinds: Kinds) -> None:
        """Refuse a value that can't be of the kind that its place needs."""
        if kind in kinds:
            return
        hint = ""
        if "group" in kinds:
            hint = "; name one of its fields"
        elif kind == "truth" and kinds & {"number", "text"}:
            hint = f"; compare it, as in {'> 0' if 'number' in kinds else '== ...'}"
        self._refuse(node, f"it is {_words(kinds)}, and {WORDS[kind]} is needed{hint}")


def _is_number(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int


def _is_power(node: Node) -> bool:
    value = node.value if isinstance(node, Constant) else None
    return isinstance(value, int) and abs(value) <= GREATEST_POWER


def _words(kinds: Iterable[Kind]) -> str:
    known = [WORDS[kind] for kind in get_args(Kind) if kind in kinds and kind != "none"]
    return " or ".join(known)


def _named(node: ast.expr) -> str:
    return {ast.IfExp: "if and else", ast.Slice: "a slice"}.get(type(node), type(node).__name__)
