"""What an expression is once it has been read and found right: a small tree of frozen nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

Arithmetic = Literal["+", "-", "*", "/", "//", "%", "**"]
Comparison = Literal["<", "<=", ">", ">=", "==", "!=", "in", "not in"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a truth, a text, or a tuple of numbers or of texts."""

    value: Any


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the record."""

    path: str


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list, counted from 0, or from the end with -1."""

    of: Node
    index: int


@dataclass(frozen=True, slots=True)
class Negative:
    """A number with the other sign."""

    of: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic between two numbers."""

    sign: Arithmetic
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Compare:
    """Two values compared."""

    sign: Comparison
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Is:
    """Whether a value is None, True or False; always known."""

    of: Node
    what: bool | None
    wanted: bool
    """False for `is not`."""


@dataclass(frozen=True, slots=True)
class Not:
    """The other truth."""

    of: Node


@dataclass(frozen=True, slots=True)
class And:
    """Whether all are true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Whether one is true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of numbers or lists: `abs`, `sqrt`, `isnan`, `len` and so on."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Shares:
    """Whether two tensors share storage."""

    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Changed:
    """Whether a value is another than in the layer's call before."""

    of: Node


Node = (
    Constant
    | Field
    | Item
    | Negative
    | Binary
    | Compare
    | Is
    | Not
    | And
    | Or
    | Call
    | Shares
    | Changed
)


def walk(node: Node) -> Iterator[Node]:
    """Give a node and all those below it."""
    yield node
    for field in fields(node):
        value = getattr(node, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Node):
                yield from walk(part)


def paths_of(node: Node) -> tuple[str, ...]:
    """Give the fields that an expression looks at, in the order in which they stand."""
    return tuple(dict.fromkeys(n.path for n in walk(node) if isinstance(n, Field)))
