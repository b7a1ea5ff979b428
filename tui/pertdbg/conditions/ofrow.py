"""The values of an expression out of a few columns of the table `call`, for going over many calls.

What is found so has not been checked against a checksum: it says where to look.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pertdbg.conditions.evaluate import Leaves, Value, build, same
from pertdbg.conditions.fields import AT_EXIT, ROLES, fields
from pertdbg.conditions.tree import Changed, Field, Is, Node, walk
from pertdbg.recording.columns import CALL, FLOATS, HISTOGRAM_RANGE
from pertdbg.recording.columns import ROLES as PLACES
from pertdbg.recording.reader import Recording
from pertdbg.recording.safeopen import DamagedRecording
from pertdbg.recording.schema import TENSOR_KINDS

COLUMNS = {column.path: column for column in CALL}
NAN_BITS = {column.path: 1 << k for k, column in enumerate(FLOATS + HISTOGRAM_RANGE)}
"""Bit of `nan_mask` that says that a real column is NaN."""

STATIC = frozenset(TENSOR_KINDS.columns[1:])
"""Facts of a tensor that stand in `tensor_kind`."""

_ALWAYS = ("id", "call", "layer", "nan_mask")
_MASK = 3
_DIRECT = ("int", "bool", "float", "text", "address")
_GROUPS = {"graph.delta", "graph.perturbed_input"}
_WRAP = 1 << 64

Row = tuple[Any, ...]


class NotHere(Exception):
    """The expression looks at something that is not found so."""


class OfRow(Leaves):
    """Looks fields up in rows of the columns that were asked for."""

    def __init__(self, recording: Recording) -> None:
        self._interned = recording._interned
        self.columns: list[str] = list(_ALWAYS)
        """Paths of the columns to read, in order; grows while an expression is built."""

    def value_of(self, node: Node) -> Value:
        """Give the function that computes a node from a row and the one before it.

        Raises:
            NotHere: The expression looks at something that is not found so.
        """
        for part in walk(node):
            of = part.of if isinstance(part, (Changed, Is)) else None
            if isinstance(part, Changed) and isinstance(of, Field) and "group" in fields()[of.path]:
                raise NotHere
        return build(node, self)

    def field(self, path: str) -> Value:
        """Give what looks a field up."""
        special = {"layer": self._layer, "update.returned": self._returned}
        if path in special:
            return special[path]()
        if "group" in fields()[path]:
            return self._group(path)
        column = COLUMNS.get(path)
        if column is not None and column.kind in _DIRECT:
            return self._direct(path)
        role, _, name = path.removeprefix("tensors.").rpartition(".")
        if role in PLACES and name in STATIC:
            return self._static(role, name)
        return self._detail(path)

    def shares(self, one: str, other: str) -> Value:
        """Give what says whether two tensors share storage."""
        a, b = (self._static(ROLES[role], "storage") for role in (one, other))
        pairs = {(one, other), (other, one)} if one in AT_EXIT and other in AT_EXIT else set()
        shared = self._detail("shared")

        def value(row: Any, _: Any) -> bool | None:
            first, second = a(row, None), b(row, None)
            if first is None or second is None:
                return None
            return not pairs.isdisjoint(shared(row, None)) if pairs else bool(first == second)

        return value

    def changed(self, path: str) -> Value:
        """Give what says whether a field is another than before, or may be."""
        get = self.field(path)

        def value(row: Any, previous: Any) -> bool | None:
            if previous is None:
                return None
            return not same(get(row, None), get(previous, None))

        return value

    def _place(self, path: str) -> int:
        if path not in self.columns:
            self.columns.append(path)
        return self.columns.index(path)

    def _direct(self, path: str) -> Value:
        place, kind = self._place(path), COLUMNS[path].kind
        types = (str,) if kind == "text" else (int, float)
        bit = NAN_BITS.get(path, 0)

        def value(row: Any, _: Any) -> Any:
            found = row[place]
            if type(found) not in types:  # nothing but what belongs there is computed with
                is_nan = found is None and bit and type(row[_MASK]) is int and row[_MASK] & bit
                return math.nan if is_nan else None
            if kind == "bool":
                return bool(found)
            return found % _WRAP if kind == "address" else found

        return value

    def _layer(self) -> Value:
        place, name = self._place("layer"), _known(self._interned.layer_name)
        return lambda row, _: name(row[place])

    def _returned(self) -> Value:
        truth, kind = self._direct("update.returned"), self._place("update.returned_type")

        def value(row: Any, _: Any) -> Any:
            found = truth(row, None)
            return row[kind] if found is None else found

        return value

    def _group(self, path: str) -> Value:
        """Give what says whether a group is there: something, or None."""
        role = path.removeprefix("tensors.")
        if "none" not in fields()[path]:
            return lambda _row, _: True
        if role in PLACES or path in _GROUPS or path == "update.raised":
            within = {"update.raised": "update.raised.type"}
            within |= {group: f"{group}.nodes" for group in _GROUPS}
            place = self._place(within.get(path, f"tensors.{role}"))
            return lambda row, _: row[place]
        return self._detail(path)

    def _static(self, role: str, name: str) -> Value:
        place, kind = self._place(f"tensors.{role}"), _known(self._interned.tensor_kind)

        def value(row: Any, _: Any) -> Any:
            found = kind(row[place])
            return None if found is None else found[name]

        return value

    def _detail(self, path: str) -> Value:
        """Give what looks a repeated part up, and a field in it."""
        part, _, name = path.partition(".")
        within = _WITHIN.get(part)
        if within is None:
            raise NotHere
        place = self._place(within)
        look = _known(lambda ident: self._interned.detail(within, ident))
        take = _TAKE[part]

        def value(row: Any, _: Any) -> Any:
            found = take(look(row[place]))
            for step in name.split(".") if name else ():
                found = None if found is None else getattr(found, step)
            return found

        return value


def _list(found: Any) -> Any:
    return () if found is None else found


_WITHIN = {
    **{name: name for name in ("shared", "unknown", "findings", "caller")},
    **dict.fromkeys(("backward_reaches", "between"), "backward_reaches"),
}
_TAKE: dict[str, Callable[[Any], Any]] = {
    "shared": _list,
    "unknown": _list,
    "findings": _list,
    "caller": lambda found: found,
    "backward_reaches": lambda found: None if found is None else found[0],
    "between": lambda found: None if found is None else found[1],
}


def _known(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def found(ident: Any) -> Any:
        try:
            return None if ident is None else look(ident)
        except (DamagedRecording, ValueError, TypeError):
            return None

    return found
