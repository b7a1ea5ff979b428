"""An expression over a record: what it is worth at a call, or why that is not known."""

from __future__ import annotations

from typing import Any

from pertdbg.conditions.evaluate import build
from pertdbg.conditions.fields import ROLES, Kinds
from pertdbg.conditions.ofrecord import FIRST, OfRecord, reason
from pertdbg.conditions.reading import read
from pertdbg.conditions.tree import Changed, Node, Shares, paths_of, walk
from pertdbg.record import CallRecord


class Expression:
    """A checked expression. Its value is computed by closures; no code is made of it."""

    def __init__(self, text: str) -> None:
        """Read an expression.

        Raises:
            ConditionError: It is not one of the language.
        """
        self.text = text.strip()
        self.tree: Node
        self.kinds: Kinds
        """What the value may be."""
        self.tree, self.kinds = read(text)
        self.fields = paths_of(self.tree)
        """The fields that it looks at."""
        self.needs_previous = any(isinstance(node, Changed) for node in walk(self.tree))
        """Whether it looks at the call before."""
        self._value = build(self.tree, OfRecord())

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def is_truth(self) -> bool:
        """Whether it is true or false, so that it can be a condition."""
        return "truth" in self.kinds

    def value(self, record: CallRecord, previous: CallRecord | None = None) -> Any:
        """Give its value at a call; None where that is not known.

        Args:
            record: The call.
            previous: The call of the same layer before it, for `changed`.
        """
        return self._value(record, previous)

    def holds(self, record: CallRecord, previous: CallRecord | None = None) -> bool:
        """Say whether it is true at a call. What is not known is not true."""
        return self._value(record, previous) is True

    def why_unknown(self, record: CallRecord, previous: CallRecord | None = None) -> str:
        """Say why the value is not known at a call; empty where it is known."""
        if self._value(record, previous) is not None:
            return ""
        missing = self._missing(record)
        if missing:
            parts = [f"{path} is unknown at call {record.call}: {w}" for path, w in missing.items()]
            return "; ".join(parts)
        if self.needs_previous and previous is None:
            return FIRST
        if self.needs_previous:
            return f"it is unknown at call {record.call - 1}, before this one"
        return "the arithmetic has no result: a division by zero, or a number too large"

    def _missing(self, record: CallRecord) -> dict[str, str]:
        """Give the fields that are null at a call, and the tensors without storage, with why."""
        leaves = OfRecord()
        looked_at = {path: path for path in self.fields}
        for node in walk(self.tree):
            if isinstance(node, Shares):
                roles = (node.one, node.other)
                looked_at.update({role: f"tensors.{ROLES[role]}.storage" for role in roles})
        return {
            name: reason(record, path)
            for name, path in looked_at.items()
            if leaves.field(path)(record, None) is None
        }


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        ConditionError: It is not one of the language; the text names the place, and what may
            stand there.
    """
    return Expression(text)
