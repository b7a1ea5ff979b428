"""Two recordings, aligned by layer and call: the first fact that differs and what follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pertdbg.compare.facts import TOLERANCE, Difference, differences
from pertdbg.record import CallRecord
from pertdbg.recording.reader import DamagedRecord, Recording

Key = tuple[str, int]
"""Layer and number of a call."""


@dataclass(frozen=True, slots=True)
class Place:
    """A call in which something differs."""

    layer: str
    call: int
    id_a: int
    id_b: int
    difference: Difference
    """The first fact, in the order of a record's fields."""


@dataclass(slots=True)
class FactDifferences:
    """One fact over all calls in which it differs."""

    fact: str
    first: Place
    calls: int = 0
    worst: float | None = None
    """Largest |a - b|, where there is one."""
    worst_call: int = 0
    last: float | None = None
    """|a - b| in the last of these calls."""
    growth: list[tuple[int, float]] = field(default_factory=list)
    """Call and |a - b|, of the 1st, 2nd, 4th, 8th, ... call in which it differs."""


@dataclass(slots=True)
class Comparison:
    """How two recordings differ."""

    tolerance: float
    compared: int = 0
    """Calls that both have."""
    first: Place | None = None
    """The first call and fact that differ at all."""
    first_beyond: Place | None = None
    """The first that differ by more than the tolerance."""
    facts: dict[str, FactDifferences] = field(default_factory=dict)
    """By the fact, in the order in which they began to differ."""
    only_a: list[Key] = field(default_factory=list)
    """Calls that only one has."""
    only_b: list[Key] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """Records that could not be compared."""

    @property
    def complete(self) -> bool:
        """Whether both have the same calls, all of them sound."""
        return not (self.only_a or self.only_b or self.damaged)

    def same(self, *, within_tolerance: bool = False) -> bool:
        """Say whether nothing differs, or nothing by more than the tolerance."""
        return self.complete and (self.first_beyond if within_tolerance else self.first) is None


def compare(a: Recording, b: Recording, tolerance: float = TOLERANCE) -> Comparison:
    """Compare two recordings.

    Args:
        a: One.
        b: The other.
        tolerance: Relative difference from which on two real numbers are told apart.

    Raises:
        PertdbgError: One of them cannot be read on.
    """
    result = Comparison(tolerance)
    for one, other in _aligned(a, b, result):
        result.compared += 1
        for difference in differences(one, other, tolerance):
            place = Place(one.layer, one.call, one.id, other.id, difference)
            _note(result, place)
    return result


def _note(result: Comparison, place: Place) -> None:
    difference = place.difference
    result.first = result.first or place
    if difference.kind != "bits":
        result.first_beyond = result.first_beyond or place
    fact = result.facts.setdefault(difference.fact, FactDifferences(difference.fact, place))
    fact.calls += 1
    size = difference.size
    fact.last = size
    if size is None:
        return
    if fact.worst is None or size > fact.worst:
        fact.worst, fact.worst_call = size, place.call
    if fact.calls & (fact.calls - 1) == 0:
        fact.growth.append((place.call, size))


def _aligned(
    a: Recording, b: Recording, result: Comparison
) -> Iterator[tuple[CallRecord, CallRecord]]:
    """Give the records of the same call of the same layer, in the order of `a` or `b`.

    Both are read side by side, so that no more is held than the recordings are out of step.
    """
    waiting: tuple[dict[Key, CallRecord], dict[Key, CallRecord]] = ({}, {})
    streams = (_sound(a, result), _sound(b, result))
    ended = [False, False]
    while not all(ended):
        for side in (0, 1):
            record = None if ended[side] else next(streams[side], None)
            if record is None:
                ended[side] = True
                continue
            key = (record.layer, record.call)
            partner = waiting[1 - side].pop(key, None)
            if partner is None:
                waiting[side][key] = record
            else:
                yield (record, partner) if side == 0 else (partner, record)
    result.only_a, result.only_b = list(waiting[0]), list(waiting[1])


def _sound(recording: Recording, result: Comparison) -> Iterator[CallRecord]:
    for found in recording.scan():
        if isinstance(found, DamagedRecord):
            result.damaged.append(str(found))
        else:
            yield found
