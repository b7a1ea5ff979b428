"""The repeated parts of records out of their JSON, each looked at closely.

A recording may come from anybody, with checksums that hold: what is not of the form that a writer
gives it is refused here, so that no one later need expect it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

from pertdbg.between import Between
from pertdbg.record import BoundOf, Caller, Reach, Unknown
from pertdbg.recording.between import of_row
from pertdbg.recording.schema import NAME_LIMIT, SOURCE_LIMIT, TEXT_LIMIT

ITEMS_LIMIT = 2000
"""Most items of one list; a graph's walk names at most 1,000 leaves."""

DIMENSIONS_LIMIT = 64
"""Most dimensions that a tensor of torch has."""

_SIZE_LIMIT = 1 << 63

StorageLayout = tuple[str, int | None, tuple[str, ...], bool]
"""Label, bytes, what it holds, and whether its address is known."""


class Norms(NamedTuple):
    """What limits an L2 norm of delta, by the names in `DeltaFacts`."""

    bound_norm: float | None = None
    bound_of: BoundOf | None = None
    norm_max: float | None = None


Reached = tuple[Reach, Between | None, Norms]
"""What a backward would reach, what ran before the call, and what limits a norm of delta: they are
stored together."""


def parse(part: str, text: str) -> Any:
    """Read a repeated part: `storages`, `shared`, `unknown`, and so on.

    Raises:
        ValueError: It is not of its form.
    """
    try:
        return _FORMS[part](json.loads(text))
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{part} makes no sense") from error


def sizes(text: str) -> tuple[int, ...]:
    """Read a shape or stride.

    Raises:
        ValueError: It is none.
    """
    try:
        found = _list(json.loads(text), DIMENSIONS_LIMIT)
    except (TypeError, RecursionError) as error:
        raise ValueError("not a shape") from error
    return tuple(_whole(size) for size in found)


def name(text: Any) -> str:
    """Give a name as it is.

    Raises:
        ValueError: It is not one, or too long.
    """
    return _text(text, NAME_LIMIT)


def name_or_none(text: Any) -> str | None:
    """Give a name as it is, or None.

    Raises:
        ValueError: It is neither, or too long.
    """
    return None if text is None else _text(text, NAME_LIMIT)


def message(text: Any) -> str:
    """Give a message as it is.

    Raises:
        ValueError: It is not one, or too long.
    """
    return _text(text, TEXT_LIMIT)


def source(text: Any) -> str | None:
    """Give a source as it is, or None.

    Raises:
        ValueError: It is neither, or too long.
    """
    return None if text is None else _text(text, SOURCE_LIMIT)


def _text(text: Any, limit: int) -> str:
    if not isinstance(text, str) or len(text) > limit:
        raise ValueError("not a text, or too long")
    return text


def _list(found: Any, limit: int = ITEMS_LIMIT) -> list[Any]:
    if not isinstance(found, list) or len(found) > limit:
        raise ValueError("not a list, or too long")
    return found


def _whole(number: Any) -> int:
    if type(number) is not int or not -_SIZE_LIMIT <= number < _SIZE_LIMIT:
        raise ValueError("not a number of 64 bits")
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _names(found: Any) -> tuple[str, ...]:
    return tuple(name(item) for item in _list(found))


def _storages(found: Any) -> tuple[StorageLayout, ...]:
    return tuple(
        (name(label), None if nbytes is None else _whole(nbytes), _names(holds), _flag(known))
        for label, nbytes, holds, known in _list(found)
    )


def _shared(found: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name(a), name(b)) for a, b in _list(found))


def _reach(found: Any) -> Reached:
    leaves, complete, *more = _list(found, 4)
    between = of_row(more[0]) if more and more[0] is not None else None
    norms = _norms(more[1]) if len(more) > 1 else Norms()
    return Reach(_names(leaves), _flag(complete)), between, norms


def _norms(found: Any) -> Norms:
    bound, of, largest = _list(found)
    if of not in get_args(BoundOf):
        raise ValueError("no known norm")
    if not all(each is None or type(each) in (int, float) for each in (bound, largest)):
        raise ValueError("not a number")
    return Norms(bound, of, largest)


def _unknown(found: Any) -> tuple[Unknown, ...]:
    return tuple(Unknown(name(field), name(reason)) for field, reason in _list(found))


def _caller(found: Any) -> Caller:
    file, line = _list(found)
    return Caller(name(file), _whole(line))


_FORMS: dict[str, Callable[[Any], Any]] = {
    "storages": _storages,
    "shared": _shared,
    "backward_reaches": _reach,
    "unknown": _unknown,
    "findings": _names,
    "caller": _caller,
}
