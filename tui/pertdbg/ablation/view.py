"""Two runs side by side, as the rules see them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pertdbg.ablation.observed import Observed
from pertdbg.record import CallRecord

MISSING = object()
"""Stands where a run has no such field."""


@dataclass(frozen=True)
class First:
    """The first call at which a field differs."""

    call: int
    whole: Any
    other: Any


Differences = dict[str, First]


@dataclass(frozen=True)
class View:
    """The whole run, another one, and the fields that differ."""

    whole: Observed
    other: Observed
    differences: Differences
    noise: frozenset[str]
    """Fields that tell nothing, since they differ between two whole runs too."""

    def pairs(self) -> Iterator[tuple[CallRecord, CallRecord]]:
        """Give the records of the calls that both runs made."""
        yield from comparable(self.whole, self.other)

    def call(self, index: int) -> int:
        """Give the number of a call by its position."""
        return self.other.records[index].id


def comparable(whole: Observed, other: Observed) -> Iterator[tuple[CallRecord, CallRecord]]:
    """Give the calls that both runs made, but not one that only one of them did not finish."""
    for a, b in zip(whole.records, other.records, strict=False):
        if (a.update.raised is None) != (b.update.raised is None):
            return
        yield a, b


def differences(whole: Observed, other: Observed) -> Differences:
    """Find the fields that differ, each at the first call where it does."""
    found: Differences = {}
    pairs = comparable(whole, other)
    for (record, _), a, b in zip(pairs, whole.flat, other.flat, strict=False):
        for field in a.keys() | b.keys():
            left, right = a.get(field, MISSING), b.get(field, MISSING)
            if field not in found and left != right:
                found[field] = First(record.id, left, right)
    return found
