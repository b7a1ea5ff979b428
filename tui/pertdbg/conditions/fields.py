"""The names that an expression may use: the fields of a record, by their dotted paths."""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pertdbg.record import CallRecord

Kind = Literal["number", "truth", "text", "none", "numbers", "texts", "pairs", "group"]
"""What a value may be. `numbers`, `texts` and `pairs` are lists; a `group` holds further fields."""

Kinds = frozenset[Kind]

WORDS: dict[Kind, str] = {
    "number": "a number",
    "truth": "true or false",
    "text": "a text",
    "none": "nothing",
    "numbers": "a list of numbers",
    "texts": "a list of names",
    "pairs": "a list of pairs",
    "group": "a group of fields",
}

FUNCTIONS = (
    *("abs", "changed", "isfinite", "isinf", "isnan", "len", "log10", "max", "min"),
    *("shares", "sqrt"),
)
"""What may be called."""

ROLES = {
    "delta": "after.delta",
    "input": "after.input",
    "perturbed_input": "after.perturbed_input",
    "gradient": "before.gradient",
    "before.delta": "before.delta",
    "before.input": "before.input",
    "before.perturbed_input": "before.perturbed_input",
}
"""Tensors that `shares` takes, and where they stand in `CallRecord.tensors`."""

AT_EXIT = ("delta", "input", "perturbed_input")
"""Those of which `CallRecord.shared` speaks."""

_KEYWORDS = ("and", "or", "not", "in", "is", "None", "True", "False", "inf", "nan")
_LAST_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*$")


@functools.cache
def fields() -> dict[str, Kinds]:
    """Give every field and group of a record by its path, with what it may be."""
    return dict(_fields(CallRecord, ""))


@functools.cache
def field_names() -> tuple[str, ...]:
    """List the fields that have a value of their own, in the record's order."""
    return tuple(path for path, kinds in fields().items() if "group" not in kinds)


def nearest(name: str) -> str:
    """Say which field is meant by a name that is none, and what there is near it."""
    import difflib  # only for a mistake; the agent has no need of it

    group = name
    while group and "group" not in fields().get(group, ()):
        group = group.rpartition(".")[0]
    there = _in_group(group)
    close = difflib.get_close_matches(name, fields(), 1, 0.75) or difflib.get_close_matches(
        name, [*there, *field_names()], 1
    )
    meant = f"; did you mean {close[0]}?" if close else ";"
    what = f"in {group} there are" if group else "there are"
    return f"{meant} {what} {', '.join(there)}"


def complete(text: str) -> list[str]:
    """Give the names that may stand at the end of an expression that is being written.

    Args:
        text: What is written so far.

    Returns:
        Whole names, groups among them with a dot at their end.
    """
    found = _LAST_NAME.search(text)
    begun = found[0] if found else ""
    group = begun.rpartition(".")[0]
    names = [path + "." if "group" in fields()[path] else path for path in _in_group(group)]
    if not group:
        names += [f"{name}(" for name in FUNCTIONS] + list(_KEYWORDS)
    return [name for name in names if name.startswith(begun)]


def _in_group(group: str) -> list[str]:
    prefix = f"{group}." if group else ""
    return [p for p in fields() if p.startswith(prefix) and "." not in p[len(prefix) :]]


def _fields(cls: type, prefix: str) -> Iterator[tuple[str, Kinds]]:
    for name, hint in typing.get_type_hints(cls).items():
        kinds = frozenset(_kinds(_options(hint)))
        yield prefix + name, kinds
        if "group" in kinds:
            inner = next(part for part in _options(hint) if dataclasses.is_dataclass(part))
            yield from _fields(typing.cast("type", inner), f"{prefix}{name}.")


def _options(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return typing.get_args(hint)
    return (hint,)


def _kinds(options: Iterable[Any]) -> Iterator[Kind]:
    for option in options:
        origin, inner = typing.get_origin(option), typing.get_args(option)
        if dataclasses.is_dataclass(option):
            yield "group"
        elif option is bool:
            yield "truth"
        elif option in (int, float):
            yield "number"
        elif option is str or origin is Literal:
            yield "text"
        elif option is type(None):
            yield "none"
        elif origin is dict:
            yield "texts"
        elif inner[0] in (int, float):
            yield "numbers"
        else:
            yield "texts" if inner[0] is str else "pairs"
