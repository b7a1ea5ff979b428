"""What a guard is: a place in a source, and how to take it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "detach",
    "detach_",
    "data",
    "clone",
    "float",
    "half",
    "to",
    "no_grad",
    "inference_mode",
    "set_grad_enabled",
    "enable_grad",
    "requires_grad_",
    "clamp",
    "clear-grad",
    "nan-check",
    "retain_graph",
    "eps",
]
"""`float` is any cast to a wider type by name, `half` to a narrower one, `to` any other."""

Action = Literal[
    "receiver", "argument", "value", "drop", "pair", "left", "right", "false", "true", "decorator"
]
"""What becomes of a node: a call becomes its receiver or an argument; an attribute its value; a
sum one of its sides; a check one that never (`false`) or always (`true`) holds; of an assignment
of several one pair goes, of a statement or an argument all."""

Span = tuple[int, int, int, int]
"""Line and column of the first character, line and column behind the last one; both from 1."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a syntax tree."""

    node: int
    """Number of the node in the order of `ast.walk` over the function."""
    action: Action
    which: int = 0
    """Which argument, pair or decorator."""


@dataclass(frozen=True, slots=True)
class Guard:
    """An operation that protects."""

    id: str
    """`g1`, `g2` and so on, in the order of the source."""
    kind: Kind
    function: str
    """Qualified name of the function that it stands in."""
    file: str
    span: Span
    """The expression or statement, with what it protects."""
    text: str
    """The expression or statement in one line."""
    removed: tuple[Span, ...]
    """What goes when the guard is taken out."""
    edits: tuple[Edit, ...]

    @property
    def line(self) -> int:
        """The line of the first character that goes."""
        return self.removed[0][0]
