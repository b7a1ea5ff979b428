"""What a rule is: a small function that looks at one call of one layer and names a fault, or not.

A rule is a function over (call, past) with its definition and its source in the docstring::

    @rule("grad-zero", flags=("gradient_norm = 0",))
    def zero(call: CallRecord, past: Past) -> Found | None:
        \"\"\"The gradient at delta is exactly zero everywhere. Source: ...\"\"\"
        if call.gradient.norm != 0:
            return None
        return Found("the gradient ...", evidence=("gradient.norm",))

An `ending` sees a layer once more when the script has ended: what ran after the layer's last call,
and the exception that the script ended with.

A rule gives only what it saw: `Checker` adds call, layer, line, severity and remedy, reports each
kind (and reason) once per layer, counts later calls, and hangs consequences under their causes.

**What a rule may depend on.** In a recording of a million calls not every record is built. A rule
is asked about each record whose *signature*, together with that of the layer's record before, has
not been seen often already. A signature is: every interned part of the record (static facts of the
seven tensors, `storages`, `shared`, `backward_reaches`, `unknown`, and every other part of
`columns.DETAILS`), `update.created`, `update.returned`, `update.raised`, `gradient.present`,
`gradient.reason`, `gradient.backwards`, `delta.bound_kind`; how the versions and addresses of
delta, input and perturbed input at entry compare with those at exit of the record before, and
whether each of the graphs got deeper; and the `flags` of all rules. So a rule that looks at a
number (a norm, a count, a fraction) must name a flag which is true wherever the rule would speak:
an SQL condition on columns of `call` (`Column.name`: a path with underscores). What is only in
interned parts needs no flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pertdbg.findings.model import Place, Severity
from pertdbg.record import CallRecord
from pertdbg.recording.parts import LayerSource


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule saw."""

    message: str
    """What is wrong and why it matters, in about two sentences, with this call's values."""
    evidence: tuple[str, ...] = ()
    """Paths of fields of the record whose values prove it, such as `gradient.norm`,
    `tensors.after.delta.is_leaf`, `between.backwards`; after `previous.` a path in the layer's
    record before."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """More evidence, by name: plain JSON values that are in no single field."""
    reason: str | None = None
    remedy: str | None = None
    """Where the remedy of the kind is not specific enough."""
    severity: Severity | None = None
    """Where it is not that of the kind."""
    place: Place | None = None
    """Line at fault, where it is not the record's `source_line`."""
    because: tuple[str, ...] = ()
    """Kinds of which this is a consequence, beside those that `kinds.CAUSES` names."""
    call: CallRecord | None = None
    """The record to report it at, and to take the evidence from, where it is an earlier one than
    the one that was looked at."""


@dataclass(frozen=True, slots=True)
class Closing:
    """How the script ended, as seen after the last call of a layer."""

    between: Any = None
    """What ran after the last record of the recording (`Recording.closing`); None if unknown."""
    raised: Any = None
    """The exception that ended the script (`Recording.raised`); None if there was none."""
    last: bool = True
    """Whether this layer is the one that made the last record of its rank."""
    finished: bool = True
    """Whether the run has come to its end, rather than to the last record written so far."""


class Past:
    """The earlier records of the layer, and what its rules have to remember."""

    def __init__(self, source: LayerSource | None = None) -> None:
        self.source = source
        """Where the layer's update method stands, if that is known."""
        self._records: list[Callable[[], CallRecord | None]] = []
        self._creation: Callable[[], CallRecord | None] = _nothing
        self.found: dict[str, int] = {}
        """Kinds found so far in this layer, with the call where each was found first."""

    @property
    def previous(self) -> CallRecord | None:
        """The layer's record before; None at the first, and where that is damaged."""
        return self.back(1)

    @property
    def creation(self) -> CallRecord | None:
        """The record of the call that made the delta in use before this call, if it was seen."""
        return self._creation()

    def back(self, n: int) -> CallRecord | None:
        """Give the record n calls before, n from 1 to `KEPT`; None where there is none."""
        return self._records[-n]() if 1 <= n <= len(self._records) else None

    def add(self, created: bool, record: Callable[[], CallRecord | None]) -> None:
        """Take note of a record that has been looked at, or passed over."""
        self._records.append(record)
        if len(self._records) > KEPT:
            del self._records[0]
        if created:
            self._creation = record


KEPT = 8
"""How many records of a layer a rule can look back on."""


def _nothing() -> CallRecord | None:
    return None


Answer = Found | Iterable[Found] | None
Look = Callable[[CallRecord, Past], Answer]
Closer = Callable[[CallRecord, Past, Closing], Answer]


@dataclass(frozen=True, slots=True)
class Rule:
    """A function that looks at each call, and what it has to be asked for."""

    kind: str
    look: Look
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """A function that looks at the last call of a layer once the script has ended."""

    kind: str
    look: Closer


RULES: list[Rule] = []
ENDINGS: list[Ending] = []


def rule(kind: str, *, flags: tuple[str, ...] = ()) -> Callable[[Look], Look]:
    """Make a function a rule.

    Args:
        kind: What it names.
        flags: SQL conditions on columns of `call`; see the module.
    """

    def register(look: Look) -> Look:
        RULES.append(Rule(kind, look, flags))
        return look

    return register


def ending(kind: str) -> Callable[[Closer], Closer]:
    """Make a function an ending: it is given a layer's last record, its past, and the end."""

    def register(look: Closer) -> Closer:
        ENDINGS.append(Ending(kind, look))
        return look

    return register
