"""A condition to stop at: an expression that is true or false, and when it counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pertdbg.conditions.errors import ConditionError
from pertdbg.conditions.expression import Expression
from pertdbg.conditions.named import NAMED
from pertdbg.record import CallRecord

MOST = 1 << 31
"""Greatest count of hits."""

NAME_LIMIT = 1000
"""Most characters of a layer's name."""

FORM = "EXPRESSION; after N hits; skip N; layer NAME; rank N"
"""How a condition is written in one line."""

_OPTION = re.compile(
    r"after (?P<hits>[0-9]+)(?: hits?)?|skip (?P<skip>[0-9]+)"
    r"|layer (?P<layer>\S.*)|rank (?P<rank>[0-9]+)"
)
_OUTSIDE_TEXTS = re.compile(r"""(?:[^;"']|"[^"]*"|'[^']*'|["'])*""")


@dataclass(frozen=True)
class Condition:
    """Where to stop."""

    text: str
    """An expression, or one of the names in `NAMED`."""
    hits: int = 1
    """Stop when it holds for the so manieth time, and after that."""
    skip: int = 0
    """After each stop, pass over so many calls at which it holds."""
    layer: str | None = None
    """The only layer that counts."""
    rank: int | None = None
    """The only rank that counts."""
    expression: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the expression.

        Raises:
            ConditionError: It is none, or is neither true nor false; a count is out of range.
        """
        text = self.text.strip()
        object.__setattr__(self, "text", text)
        expression = Expression(NAMED[text].text if text in NAMED else _resolved(text))
        if not expression.is_truth:
            raise ConditionError(text, 1, "it is neither true nor false: compare it, as in > 0")
        object.__setattr__(self, "expression", expression)
        self._check_counts()

    def _check_counts(self) -> None:
        counts = {"after": (self.hits, 1), "skip": (self.skip, 0), "rank": (self.rank or 0, 0)}
        for name, (count, least) in counts.items():
            if type(count) is not int or not least <= count <= MOST:
                problem = f"{name} takes a whole number from {least} on"
                raise ConditionError(self.text, len(self.text), problem)
        if self.layer is not None and not (0 < len(self.layer) <= NAME_LIMIT):
            raise ConditionError(self.text, len(self.text), "layer takes the name of a layer")

    def __str__(self) -> str:
        parts = [self.text]
        if self.hits != 1:
            parts.append(f"after {self.hits} hits")
        if self.skip:
            parts.append(f"skip {self.skip}")
        if self.layer is not None:
            parts.append(f"layer {self.layer}")
        if self.rank is not None:
            parts.append(f"rank {self.rank}")
        return "; ".join(parts)

    @classmethod
    def of(cls, line: str) -> Condition:
        """Read a condition from one line: ``EXPRESSION; after 3 hits; skip 2; layer pert; rank 0``.

        Raises:
            ConditionError: It is not of that form.
        """
        text = _before_options(line)
        given: dict[str, Any] = {}
        place = len(text) + 1
        for option in line[place:].split(";") if len(text) < len(line) else ():
            found = _OPTION.fullmatch(option.strip())
            name = found.lastgroup if found else None
            if found is None or name is None or name in given:
                raise ConditionError(line, place + 1, f"a condition is written {FORM}")
            value = found[name]
            given[name] = value if name == "layer" else min(int(value[:12]), MOST + 1)
            place += len(option) + 1
        return cls(text, **given)

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON values, without what is as usual."""
        usual = {"hits": 1, "skip": 0, "layer": None, "rank": None}
        said = {name: getattr(self, name) for name in usual}
        return {"text": self.text, **{k: v for k, v in said.items() if v != usual[k]}}

    @classmethod
    def from_json(cls, data: Any) -> Condition:
        """Read what `as_json` gave, or one line of text.

        Raises:
            ConditionError: It is neither.
        """
        if isinstance(data, str):
            return cls.of(data)
        known = {"text", "hits", "skip", "layer", "rank"}
        if not isinstance(data, Mapping) or not data.keys() <= known:
            raise ConditionError("", 1, f"a condition is a line, {FORM}")
        texts = (data.get("text"), data.get("layer", ""))
        if not all(isinstance(text, str) for text in texts):
            raise ConditionError("", 1, "the text and the layer of a condition are texts")
        return cls(**data)

    def concerns(self, record: CallRecord) -> bool:
        """Say whether the call is of its layer and rank."""
        return (self.layer is None or self.layer == record.layer) and (
            self.rank is None or self.rank == record.rank
        )

    def holds(self, record: CallRecord, previous: CallRecord | None = None) -> bool:
        """Say whether it is true at a call of its layer and rank; hits are not counted."""
        return self.concerns(record) and self.expression.holds(record, previous)


class Counter:
    """Counts the hits of a condition over a run."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.hits = 0

    def stops(self, record: CallRecord, previous: CallRecord | None) -> bool:
        """Say whether to stop at the next call; each call is shown once, in order."""
        condition = self.condition
        if not condition.holds(record, previous):
            return False
        self.hits += 1
        past = self.hits - condition.hits
        return past >= 0 and past % (condition.skip + 1) == 0


def _before_options(line: str) -> str:
    """Give what stands before the first `;` that is not inside a text."""
    found = _OUTSIDE_TEXTS.match(line)
    return "" if found is None else found[0]


def _resolved(text: str) -> str:
    """Give an expression as it is; a name that is nearly one of the named conditions is refused."""
    if not re.fullmatch(r"[a-z]+(-[a-z]+)+", text):
        return text
    import difflib  # only for a mistake

    close = difflib.get_close_matches(text, NAMED, 1)
    if not close:
        return text
    problem = f"no condition is called that; did you mean {close[0]}? named: {', '.join(NAMED)}"
    raise ConditionError(text, 1, problem)
