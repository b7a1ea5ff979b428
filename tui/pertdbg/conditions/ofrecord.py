"""The values of an expression out of a record."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from pertdbg.conditions.evaluate import Leaves, Value, same
from pertdbg.conditions.fields import AT_EXIT, ROLES, fields
from pertdbg.record import CallRecord

_NUMBERS = (float, int)

FIRST = "there is no earlier call of the layer to compare with"


class OfRecord(Leaves):
    """Looks fields up in records."""

    def field(self, path: str) -> Value:
        """Give what looks a field up; null where a group on the way is null."""
        get = attrgetter(path)
        if fields()[path] - {"none"} == {"number"}:
            return _number(get)

        def value(record: Any, _: Any) -> Any:
            try:
                found = get(record)
            except AttributeError:  # the group is null
                return None
            return tuple(found) if type(found) is dict else found

        return value

    def shares(self, one: str, other: str) -> Value:
        """Give what says whether two tensors share storage."""
        first, second = (attrgetter(f"tensors.{ROLES[role]}.storage") for role in (one, other))
        pairs = {(one, other), (other, one)} if one in AT_EXIT and other in AT_EXIT else set()

        def value(record: Any, _: Any) -> bool | None:
            try:
                a, b = first(record), second(record)
            except AttributeError:  # one of the tensors is not there
                return None
            if a is None or b is None:
                return None
            return not pairs.isdisjoint(record.shared) if pairs else bool(a == b)

        return value

    def changed(self, path: str) -> Value:
        """Give what says whether a field is another than before; null is a value as others are.

        What could not be known at one of the two calls makes it unknown.
        """
        get = self.field(path)

        def value(record: Any, previous: Any) -> bool | None:
            if previous is None:
                return None
            now, before = get(record, None), get(previous, None)
            for found, at in ((now, record), (before, previous)):
                if found is None and at.unknown and at.reason(path) is not None:
                    return None
            return not same(now, before)

        return value


def reason(record: CallRecord, path: str) -> str:
    """Say why a field of a record is null."""
    given = record.reason(path)
    if given is None and path.startswith("gradient."):
        given = record.gradient.reason
    if given is not None:
        return given
    group = path.rpartition(".")[0]
    while group:
        if OfRecord().field(group)(record, None) is None:
            return f"there is no {group}"
        group = group.rpartition(".")[0]
    return "it is null"


def _number(get: Callable[[Any], Any]) -> Value:
    def value(record: Any, _: Any) -> Any:
        try:
            found = get(record)
        except AttributeError:  # the group is null
            return None
        return found if type(found) in _NUMBERS else None

    return value
