"""What an ablation found, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pertdbg.ablation.observed import Raised
from pertdbg.guards.model import Guard

ChangeKind = Literal[
    "raised",
    "not-run",
    "leaf-lost",
    "requires-grad-lost",
    "gradient-leaks",
    "reaches",
    "graph-deeper",
    "memory",
    "storage-shared",
    "precision-lost",
    "dtype",
    "bound-left",
    "not-finite",
    "refused",
    "values",
    "output",
    "facts",
]
"""In the order of their weight, the heaviest first."""


@dataclass(frozen=True)
class Change:
    """One way in which a run differs from the whole one."""

    kind: ChangeKind
    call: int
    """The first call that shows it."""
    detail: str
    """In words."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same in values, by names that depend on the kind."""


@dataclass(frozen=True)
class Result:
    """One variant, compared with the whole run."""

    without: tuple[str, ...]
    changes: tuple[Change, ...]
    raised: Raised | None
    calls: int
    """Records that it left."""

    @property
    def same(self) -> bool:
        """Whether nothing changed: no fact of any record, no loss, no bit of the tensors."""
        return not self.changes

    @property
    def first_call(self) -> int | None:
        """The first call that shows a change."""
        return min((change.call for change in self.changes), default=None)

    def has(self, kind: ChangeKind) -> Change | None:
        """Give the change of a kind, if there is one."""
        return next((change for change in self.changes if change.kind == kind), None)


@dataclass(frozen=True)
class Condition:
    """The same runs in other circumstances: what they say of a guard may be otherwise."""

    name: str
    """`clean-gradients`, `parameters`, `dtype` or `nan`."""
    words: str
    """With these circumstances, as in "with ...": `the clean pass without gradients`."""
    changed: Mapping[str, Any]
    """The keys of the scenario that differ, and their values."""
    calls: int
    """Update calls of the run in which no guard is missing."""
    raised: Raised | None
    """What ended that run; there are no results then."""
    results: Mapping[str, Result]
    """By the id of the guard that was taken out."""


@dataclass(frozen=True)
class Report:
    """All of an ablation."""

    target: str
    title: str
    calls: int
    """Update calls of the whole run."""
    raised: Raised | None
    """What ended the whole run, if it did not end by itself."""
    noise: tuple[str, ...]
    """Fields that differ between two whole runs, and so are compared nowhere."""
    guards: tuple[Guard, ...]
    singles: tuple[Result, ...]
    pairs: tuple[Result, ...]
    """Empty unless pairs were asked for."""
    paired: bool
    sufficient: tuple[tuple[str, ...], ...]
    """Least sets of guards with which alone the run is the same as the whole one; each was run."""
    conditions: tuple[Condition, ...]
    freezes: bool
    """Whether the loop freezes the parameters during the perturbed passes."""
    seconds: float
    runs: int

    def guard(self, ident: str) -> Guard:
        """Find a guard by its id."""
        return next(guard for guard in self.guards if guard.id == ident)

    def single(self, ident: str) -> Result:
        """Give the result without one guard."""
        return next(result for result in self.singles if result.without == (ident,))

    def covers(self, ident: str) -> list[Result]:
        """Give the pairs that change something where neither guard alone does."""
        quiet = {result.without[0] for result in self.singles if result.same}
        return [
            pair
            for pair in self.pairs
            if ident in pair.without and not pair.same and quiet.issuperset(pair.without)
        ]
