"""From the tree of an expression to a part of an SQL question that leaves calls out.

The question never decides: it lets through every call at which the expression may be true, and
what it lets through is looked at. So it may be wider than the expression, and is where a part of
it can't be said. It is made of a checked tree and of names from the schema; values are bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pertdbg.conditions.fields import AT_EXIT
from pertdbg.conditions.fields import ROLES as ROLE_PLACES
from pertdbg.conditions.ofrow import COLUMNS, NAN_BITS, STATIC
from pertdbg.conditions.tree import (
    And,
    Binary,
    Call,
    Changed,
    Compare,
    Constant,
    Field,
    Is,
    Node,
    Not,
    Or,
    Shares,
    paths_of,
)
from pertdbg.recording.columns import GRAPHS, ROLES
from pertdbg.recording.reader import Recording

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_SQL = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "=", "!=": "<>"}
_LARGEST = 1 << 63
_EXACT = 1 << 53
"""Whole numbers below this are the same as floating point numbers."""

_LISTS = ("shape", "stride")
_GROUPS = {
    "update.raised": "update.raised.type",
    **{f"tensors.{role}": f"tensors.{role}" for role in ROLES},
    **{f"graph.{which}": f"graph.{which}.nodes" for which in GRAPHS},
}
"""Columns that are NULL where a group is null."""


@dataclass(frozen=True)
class Clause:
    """A condition in SQL, and the values of its parameters. Without text it lets all through."""

    text: str = ""
    values: tuple[Any, ...] = ()


ALL = Clause()


def clause_of(recording: Recording, node: Node) -> Clause:
    """Give what every call fulfils at which the expression is true."""
    return _Pushdown(recording).may(node, True)


class _Pushdown:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def may(self, node: Node, wanted: bool) -> Clause:
        """Give what every call fulfils at which the node is the wanted truth."""
        if isinstance(node, Not):
            return self.may(node.of, not wanted)
        if isinstance(node, (And, Or)):
            parts = [self.may(part, wanted) for part in node.parts]
            return _all(parts) if isinstance(node, And) is wanted else _any(parts)
        if isinstance(node, Field):
            return _truth(node.path, wanted)
        if isinstance(node, Is) and isinstance(node.of, Field):
            return _is(node.of.path, node.what, wanted is node.wanted)
        if isinstance(node, Compare) and node.sign in ("in", "not in"):
            return self._among(node.left, node.right, (node.sign == "in") is wanted)
        if isinstance(node, Compare):
            return self._compare(node, wanted)
        if isinstance(node, Changed) and wanted and isinstance(node.of, Field):
            return self._changed(node.of.path)
        return _shares(node) if isinstance(node, Shares) and wanted else ALL

    def _changed(self, path: str) -> Clause:
        """Leave out calls whose neighbour is the layer's call before, with the same in the column.

        With several layers the neighbour is mostly another layer's.
        """
        column = COLUMNS.get(path) or COLUMNS.get(f"tensors.{_static_of(path)[0]}")
        if column is None or path == "update.returned" or len(self._recording.layers) > 1:
            return ALL
        bit = NAN_BITS.get(path, 0)
        same = f"before.{column.name} IS call.{column.name}"
        if bit:
            same += f" AND (before.nan_mask & {bit}) IS (call.nan_mask & {bit})"
        return Clause(
            "NOT EXISTS (SELECT 1 FROM call AS before WHERE before.id = call.id - 1"  # noqa: S608
            f" AND before.layer = call.layer AND {same})"
        )

    def _compare(self, node: Compare, wanted: bool) -> Clause:
        left, right, sign = node.left, node.right, str(node.sign)
        if isinstance(left, Constant):
            left, right, sign = right, left, _TURNED[sign]
        if not wanted:
            sign = _OPPOSITE[sign]
        if isinstance(left, Field) and isinstance(right, Field):
            return _two_columns(left.path, sign, right.path)
        if isinstance(left, Binary) and left.sign == "%" and isinstance(right, Constant):
            return _remainder(left, sign, right.value)
        if not isinstance(left, Field) or not isinstance(right, Constant):
            return _computed(left, sign, right, loose=sign == "!=" or not wanted)
        if isinstance(right.value, bool):
            if left.path == "update.returned" and sign == "!=":
                return ALL  # a text stands in another column, and is neither
            return _truth(left.path, right.value is (sign == "=="))
        return self._with_constant(left.path, sign, right.value)

    def _with_constant(self, path: str, sign: str, value: Any) -> Clause:
        if not _is_bindable(value):
            return ALL
        if path == "layer":
            return self._layer((value,), sign == "==") if sign in ("==", "!=") else ALL
        return _of_field(path, f"{_SQL[sign]} ?", (value,))

    def _among(self, left: Node, right: Node, inside: bool) -> Clause:
        if not isinstance(left, Field) or not isinstance(right, Constant):
            return ALL
        values = right.value
        if not isinstance(values, tuple) or not all(map(_is_bindable, values)):
            return ALL
        if left.path == "layer":
            return self._layer(values, inside)
        slots = ", ".join("?" * len(values))
        return _of_field(left.path, f"{'' if inside else 'NOT '}IN ({slots})", values)

    def _layer(self, names: Iterable[str], inside: bool) -> Clause:
        known = self._recording._interned.layers()
        idents = [ident for ident, layer in known.items() if (layer.name in names) is inside]
        return Clause(f"layer IN ({', '.join('?' * len(idents))})", tuple(idents))


def _truth(path: str, wanted: bool) -> Clause:
    """Give what every call fulfils at which a field is True, or False."""
    column = COLUMNS.get(path)
    if column is not None and column.kind == "bool":
        return Clause(f"{column.name} {'<>' if wanted else '='} 0")
    return _of_static(path, f"{'<>' if wanted else '='} 0", ())


def _is(path: str, what: bool | None, holds: bool) -> Clause:
    if what is not None:
        return _truth(path, what) if holds else ALL
    null = "IS NULL" if holds else "IS NOT NULL"
    if path in _GROUPS:
        return Clause(f"{COLUMNS[_GROUPS[path]].name} {null}")
    if path == "update.returned" and not holds:
        return ALL  # a text stands in another column
    role, name = _static_of(path)
    if name and holds:
        return _any([_of_static(path, null, ()), Clause(f"{_role_column(role)} IS NULL")])
    return _of_field(path, null, ())


def _of_field(path: str, test: str, values: tuple[Any, ...]) -> Clause:
    """Give what every call fulfils at which a test holds of a number or text, or it is NaN."""
    column = COLUMNS.get(path)
    if column is None or path == "update.returned":
        return _of_static(path, test, values)
    if column.kind not in ("int", "float", "text", "bool"):
        return ALL
    return _any([Clause(f"{column.name} {test}", values), *_nan(path)])


def _of_static(path: str, test: str, values: tuple[Any, ...]) -> Clause:
    """Give what every call fulfils at which a test holds of a static fact of a tensor."""
    role, name = _static_of(path)
    if not name:
        return ALL
    kinds = f"SELECT id FROM tensor_kind WHERE {name} {test}"  # noqa: S608 - names of the schema
    return Clause(f"{_role_column(role)} IN ({kinds})", values)


def _static_of(path: str) -> tuple[str, str]:
    """Give the role and the name of a static fact; empty where it is none."""
    role, _, name = path.removeprefix("tensors.").rpartition(".")
    return (role, name) if role in ROLES and name in STATIC and name not in _LISTS else ("", "")


def _role_column(role: str) -> str:
    return COLUMNS[f"tensors.{role}"].name


def _two_columns(one: str, sign: str, other: str) -> Clause:
    columns = [COLUMNS.get(path) for path in (one, other)]
    names = [c.name for c in columns if c is not None and c.kind in ("int", "float")]
    if len(names) < 2:
        return ALL
    return _any([Clause(f"{names[0]} {_SQL[sign]} {names[1]}"), *_nan(one), *_nan(other)])


def _remainder(left: Binary, sign: str, value: Any) -> Clause:
    """Say ``call % 100 == 0``. SQL's remainder of a negative number is another than Python's."""
    path = left.left.path if isinstance(left.left, Field) else ""
    column, by = COLUMNS.get(path), left.right
    whole = column is not None and column.kind == "int" and left.sign == "%"
    if column is None or not whole or not isinstance(by, Constant) or not _is_bindable(value):
        return ALL
    if type(by.value) is not int or not 0 < by.value < _LARGEST:
        return ALL
    return Clause(f"({column.name} < 0 OR {column.name} % ? {_SQL[sign]} ?)", (by.value, value))


def _computed(left: Node, sign: str, right: Node, *, loose: bool) -> Clause:
    """Compare what is computed from real numbers, where SQL computes the same.

    NaN is NULL there: a call with one among its numbers is let through, and where the comparison
    is true of NaN (`loose`), so is one at which NaN may come out.
    """
    one, other = _number(left), _number(right)
    if one is None or other is None:
        return ALL
    values = one.values + other.values
    parts = [Clause(f"{one.text} {_SQL[sign]} {other.text}", values)]
    bits = sum(NAN_BITS.get(path, 0) for path in {*paths_of(left), *paths_of(right)})
    if bits:
        parts.append(Clause("nan_mask & ?", (bits,)))
    if loose:
        parts.append(Clause(f"({one.text} - {other.text}) IS NULL", values))
    return _any(parts)


@dataclass(frozen=True)
class _Number:
    text: str
    values: tuple[Any, ...]
    is_real: bool


def _number(node: Node) -> _Number | None:
    """Say a number in SQL; None where SQL might compute another."""
    if isinstance(node, Constant) and type(node.value) in (int, float):
        exact = math.isfinite(node.value) and abs(node.value) < _EXACT
        real = type(node.value) is float
        return _Number("?", (node.value,), is_real=real) if exact else None
    if isinstance(node, Field):
        column = COLUMNS.get(node.path)
        if column is None or column.kind not in ("int", "float"):
            return None
        return _Number(column.name, (), is_real=column.kind == "float")
    if isinstance(node, Call) and node.name == "abs":
        of = _number(node.arguments[0])
        return _Number(f"abs({of.text})", of.values, True) if of and of.is_real else None
    if not isinstance(node, Binary) or node.sign not in ("+", "-", "*", "/"):
        return None
    left, right = _number(node.left), _number(node.right)
    if left is None or right is None or not (left.is_real or right.is_real):
        return None
    if isinstance(node.left, Constant) and isinstance(node.right, Constant):
        return None
    text = f"({left.text} {node.sign} {right.text})"
    return _Number(text, left.values + right.values, is_real=True)


def _shares(node: Shares) -> Clause:
    """Leave out calls at which nothing is shared, or a tensor is not there."""
    tensors = [f"{_role_column(ROLE_PLACES[role])} IS NOT NULL" for role in (node.one, node.other)]
    if node.one in AT_EXIT and node.other in AT_EXIT:
        tensors.append("shared IS NOT NULL")
    return _all([Clause(text) for text in tensors])


def _nan(path: str) -> list[Clause]:
    bit = NAN_BITS.get(path)
    return [] if bit is None else [Clause("nan_mask & ?", (bit,))]


def _is_bindable(value: Any) -> bool:
    if type(value) is int:
        return -_LARGEST <= value < _LARGEST
    return isinstance(value, str) or (isinstance(value, float) and value == value)


def _all(parts: list[Clause]) -> Clause:
    return _joined([part for part in parts if part.text], " AND ")


def _any(parts: list[Clause]) -> Clause:
    return ALL if any(not part.text for part in parts) else _joined(parts, " OR ")


def _joined(parts: list[Clause], word: str) -> Clause:
    if len(parts) < 2:
        return parts[0] if parts else ALL
    text = word.join(part.text for part in parts)
    return Clause(f"({text})", tuple(value for part in parts for value in part.values))
