"""Holding a scenario's expectations against the records of a run."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pertdbg.record import CallRecord

if TYPE_CHECKING:
    from pertdbg.scenario.model import Expect


@dataclass(frozen=True)
class Outcome:
    """Whether an expectation was met."""

    expect: Expect
    met: bool
    calls: int
    """How many calls it was held against."""
    text: str
    """One line: what was expected and, where it was not met, what was observed first."""


@functools.cache
def fields() -> tuple[str, ...]:
    """List the dotted paths of a record, tables included."""
    return tuple(_paths(CallRecord, ""))


def value_of(record: CallRecord, field: str) -> Any:
    """Look a dotted path up in a record; a path through something that is null is null."""
    value: Any = record
    for name in field.split("."):
        value = None if value is None else getattr(value, name)
    return value


def evaluate(expectations: Iterable[Expect], records: Iterable[CallRecord]) -> list[Outcome]:
    """Hold expectations against the records of a run, in one pass over them.

    Returns:
        One outcome for each expectation, in their order. One that concerns no call of the run is
        not met.
    """
    states = [_State(expect) for expect in expectations]
    for record in records:
        for state in states:
            state.see(record)
    return [state.outcome() for state in states]


class _State:
    """What has been seen for one expectation."""

    def __init__(self, expect: Expect) -> None:
        self._expect = expect
        self._calls = 0
        self._against: str | None = None

    def see(self, record: CallRecord) -> None:
        if not _concerns(self._expect, record):
            return
        self._calls += 1
        if self._against is None and not _holds(self._expect, record):
            value = value_of(record, self._expect.field)
            self._against = f"call {record.call}: it is {_say(value)}"

    def outcome(self) -> Outcome:
        wanted = f"{_which(self._expect)}: {self._expect.field} {_conditions(self._expect)}"
        against = self._against if self._calls else "no such call was made"
        text = wanted if against is None else f"{wanted}; {against}"
        return Outcome(self._expect, against is None, self._calls, text)


def _concerns(expect: Expect, record: CallRecord) -> bool:
    if expect.layer is not None and expect.layer != record.layer:
        return False
    if expect.call is not None:
        return expect.call == record.call
    return expect.calls == "all" or (expect.calls == "creations") == record.update.created


def _holds(expect: Expect, record: CallRecord) -> bool:
    value = value_of(record, expect.field)
    known = value is not None or record.reason(expect.field) != expect.reason
    if "reason" in expect.model_fields_set and known:
        return False
    return all(test(value, wanted) for test, wanted in _tests(expect))


def _tests(expect: Expect) -> Iterator[tuple[Callable[[Any, Any], bool], Any]]:
    for name, test in _CONDITIONS.items():
        if name in expect.model_fields_set:
            yield test, getattr(expect, name)


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        rows = isinstance(value, (tuple, list)) and len(value) == len(wanted)
        return rows and all(_same(a, b) for a, b in zip(value, wanted, strict=True))
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(value == wanted or (value != value and wanted != wanted))


def _number(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def test(value: Any, wanted: Any) -> bool:
        return type(value) in (int, float) and compare(value, wanted)

    return test


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return isinstance(wanted, str) and wanted in value
    return isinstance(value, (tuple, list, dict)) and any(_same(part, wanted) for part in value)


_CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": _same,
    "not_equals": lambda value, wanted: not _same(value, wanted),
    "above": _number(lambda value, wanted: value > wanted),
    "at_least": _number(lambda value, wanted: value >= wanted),
    "below": _number(lambda value, wanted: value < wanted),
    "at_most": _number(lambda value, wanted: value <= wanted),
    "contains": _contains,
    "null": lambda value, wanted: (value is None) is wanted,
}


def _which(expect: Expect) -> str:
    number = {"all": "every call", "creations": "every creation", "updates": "every update"}
    which = f"call {expect.call}" if expect.call is not None else number[expect.calls or "all"]
    return which if expect.layer is None else f"{which} of {expect.layer}"


def _conditions(expect: Expect) -> str:
    given = expect.model_fields_set
    parts = [
        f"{name.replace('_', ' ')} {_say(getattr(expect, name))}"
        for name in (*_CONDITIONS, "reason")
        if name in given
    ]
    return " and ".join(parts)


def _say(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if not dataclasses.is_dataclass(value) else "not null"


def _paths(cls: type, prefix: str) -> Iterator[str]:
    for name, hint in typing.get_type_hints(cls).items():
        yield prefix + name
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part) and not isinstance(hint, types.GenericAlias):
                yield from _paths(typing.cast("type", part), f"{prefix}{name}.")
