"""What ran between two calls, as a recording keeps it: lists in the order of the fields.

It stands as the third item of a record's part `backward_reaches`, which every record has, so that
a recording from before it was there reads as one in which it is not known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import zip_longest
from operator import attrgetter
from types import MappingProxyType
from typing import Any, get_args

from pertdbg.between import BackwardFacts, Between, Input, Taken, Way
from pertdbg.recording.schema import NAME_LIMIT, TEXT_LIMIT

CLOSING = "closing"
"""Key of the meta table under which stands what ran after each layer's last call."""

NAMES_LIMIT = 32
"""Most names of one kind that are kept."""

_PASSES_LIMIT = 64
_BETWEEN = Between.__slots__
_BACKWARD = BackwardFacts.__slots__
_TAKEN = Taken.__slots__
_FIRST_OF_ALL, _FIRST = 14, 8
"""Fields that every recording has of an interval, and of a pass through the engine; those behind
them were added later."""
_of_between: Callable[[Between], tuple[Any, ...]] = attrgetter(*_BETWEEN)
_of_backward: Callable[[BackwardFacts], tuple[Any, ...]] = attrgetter(*_BACKWARD)
_of_taken: Callable[[Taken], tuple[Any, ...]] = attrgetter(*_TAKEN)


def to_row(between: Between) -> tuple[Any, ...]:
    """Turn it into tuples and plain values."""
    values = dict(zip(_BETWEEN, _of_between(between), strict=True))
    values["backwards"] = tuple(_of_backward(each) for each in between.backwards)
    values["taken"] = None if between.taken is None else _of_taken(between.taken)
    for name in ("leaks", "written", "left_on", "snapshots"):
        values[name] = values[name][:NAMES_LIMIT]
    return tuple(values.values())


def of_row(found: Any) -> Between:
    """Build it from lists, looking closely at each value.

    Raises:
        ValueError: It is not of the form that `to_row` gives.
    """
    values = _fields(found, _BETWEEN, _FIRST_OF_ALL)
    taken = values["taken"]
    names = {name: _names(values[name]) for name in ("leaks", "written", "left_on", "snapshots")}
    flags = {name: _flag(values[name]) for name in _FLAGS}
    rest: dict[str, Any] = {**names, **flags}
    return Between(
        input=_one_of(values["input"], get_args(Input)),
        backwards=tuple(_backward(each) for each in _list(values["backwards"], _PASSES_LIMIT)),
        taken=None if taken is None else _taken(taken),
        padding=_flag_or_none(values["padding"]),
        unmoved=_name_or_none(values["unmoved"]),
        **rest,
    )


def closing_text(closing: Mapping[str, Between]) -> str:
    """Turn what ran after each layer's last call into a text that the meta table takes."""
    rows = {layer[:NAME_LIMIT]: to_row(each) for layer, each in closing.items()}
    text = json.dumps(rows)
    while len(text) > TEXT_LIMIT and rows:
        rows.popitem()
        text = json.dumps(rows)
    return text


def closing_of(text: Any) -> Mapping[str, Between]:
    """Read what `closing_text` gave; empty where it is of another form, or too long."""
    if not isinstance(text, str) or len(text) > TEXT_LIMIT:
        return MappingProxyType({})
    try:
        found = json.loads(text)
        return MappingProxyType({_name(layer): of_row(row) for layer, row in found.items()})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return MappingProxyType({})


_FLAGS = ("forwards", "kept_gradient", "retained", "stale", "stochastic", "plain_step")


def _backward(found: Any) -> BackwardFacts:
    values = _fields(found, _BACKWARD, _FIRST)
    return BackwardFacts(
        root=_name_or_none(values["root"]),
        fills=_flag(values["fills"]),
        retains=_flag(values["retains"]),
        creates=_flag(values["creates"]),
        reaches_delta=_flag_or_none(values["reaches_delta"]),
        factor=_number_or_none(values["factor"]),
        raised=_name_or_none(values["raised"]),
        finite=_flag_or_none(values["finite"]),
        output_finite=_flag_or_none(values["output_finite"]),
    )


def _taken(found: Any) -> Taken:
    values = _fields(found, _TAKEN)
    way: Way | None = _one_of(values["way"], get_args(Way))
    if way is None:
        raise ValueError("no way")
    return Taken(
        module=_name(values["module"]),
        way=way,
        dtype=_name(values["dtype"]),
        module_dtype=_name_or_none(values["module_dtype"]),
        grad_mode=_flag(values["grad_mode"]),
        autocast=_flag(values["autocast"]),
        raised=_name_or_none(values["raised"]),
    )


def _fields(found: Any, names: tuple[str, ...], least: int | None = None) -> dict[str, Any]:
    """Give the values by their names; those behind the first `least` may be missing."""
    values = _list(found, len(names))
    if len(values) < (len(names) if least is None else least):
        raise ValueError("too short")
    return dict(zip_longest(names, values))


def _list(found: Any, limit: int) -> list[Any]:
    if not isinstance(found, list) or len(found) > limit:
        raise ValueError("not a list, or too long")
    return found


def _names(found: Any) -> tuple[str, ...]:
    return tuple(_name(each) for each in _list(found, NAMES_LIMIT))


def _name(text: Any) -> str:
    if not isinstance(text, str) or len(text) > NAME_LIMIT:
        raise ValueError("not a text, or too long")
    return text


def _name_or_none(text: Any) -> str | None:
    return None if text is None else _name(text)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _flag_or_none(value: Any) -> bool | None:
    return None if value is None else _flag(value)


def _number_or_none(value: Any) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise ValueError("not a number")
    return None if value is None else float(value)


def _one_of(value: Any, words: tuple[Any, ...]) -> Any:
    if value is not None and value not in words:
        raise ValueError("not one of the words")
    return value
