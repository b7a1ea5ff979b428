"""What of delta arrives in the perturbed input, as facts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pertdbg.agent.measure import note_all, share
from pertdbg.agent.numbers import Plan, Raw
from pertdbg.agent.quiet import Notes, NotKnown
from pertdbg.agent.values import Values, expanded
from pertdbg.record import EffectFacts

_ARRIVED = ("visible_fraction", "gap_max")
_CHANGED = ("changed_fraction", "cosine")


@dataclass(slots=True)
class Moment:
    """The values of the three roles at one moment."""

    delta: Values | None = None
    input: Values | None = None
    perturbed_input: Values | None = None


@dataclass(slots=True)
class EffectReading:
    """What was read of the effect; its numbers may still lie on a device."""

    same: Raw = field(default_factory=dict)
    """Whether the input is still what it was at entry."""
    gap: Raw = field(default_factory=dict)
    changed: Raw = field(default_factory=dict)
    turn: Raw = field(default_factory=dict)
    no_cosine: str | None = None
    """Why the changes can't be compared in direction."""
    count: int = 0

    def parts(self) -> tuple[Raw, Raw, Raw, Raw]:
        """Give what is to be settled."""
        return self.same, self.gap, self.changed, self.turn

    def facts(self, parts: list[dict[str, float]], notes: Notes) -> EffectFacts:
        """Build the facts from what `parts` came to."""
        same, gap, changed, turn = parts
        cosine = None
        if changed and same.get("same") == 0:
            note_all("effect", _CHANGED, "input-changed", notes)
            changed = {}
        elif self.no_cosine is not None:
            notes.add("effect.cosine", self.no_cosine)
        elif changed:
            cosine = _cosine(turn, notes)
        return EffectFacts(
            visible_fraction=share(gap, "count", self.count),
            changed_fraction=share(changed, "count", self.count),
            cosine=cosine,
            gap_max=gap.get("max"),
        )


def _cosine(turn: dict[str, float], notes: Notes) -> float | None:
    if not turn or turn["aa"] == 0 or turn["bb"] == 0:
        notes.add("effect.cosine", "nothing-moved")
        return None
    cosine = turn["ab"] / (math.sqrt(turn["aa"]) * math.sqrt(turn["bb"]))
    return cosine if math.isnan(cosine) else max(-1.0, min(1.0, cosine))


def read_gap(now: Moment, reading: EffectReading, plan: Plan, notes: Notes) -> None:
    """Ask how the perturbed input differs from the input."""
    perturbed, clean = now.perturbed_input, now.input
    if perturbed is None or clean is None:
        return
    reading.count = perturbed.count
    if not perturbed.count:
        note_all("effect", _ARRIVED, "empty", notes)
        return
    with notes.attempting("effect", *_ARRIVED):
        clean = expanded(clean, perturbed.shape)
        reading.gap = plan.differ(perturbed, clean)


def read_change(
    now: Moment,
    then: Moment,
    why_not: str | None,
    reading: EffectReading,
    plan: Plan,
    notes: Notes,
) -> None:
    """Ask how the perturbed input differs from the one at entry, and its change from delta's.

    Args:
        now: The values at exit.
        then: Copies of the values at entry.
        why_not: Why these can't be compared, where that is known already.
        reading: Takes the numbers.
        plan: Will compute them.
        notes: Takes the reasons.
    """
    perturbed, perturbed0 = now.perturbed_input, then.perturbed_input
    if perturbed is None or now.input is None:
        return
    if why_not is None and perturbed0 is not None and perturbed.shape != perturbed0.shape:
        why_not = "shape-changed"
    if why_not is None and not perturbed.count:
        why_not = "empty"
    if why_not is not None or perturbed0 is None:
        note_all("effect", _CHANGED, why_not or "created", notes)
        return
    with notes.attempting("effect", *_CHANGED):
        reading.changed = plan.unequal(perturbed, perturbed0)
        _read_turn(perturbed, perturbed0, now.delta, then.delta, reading, plan)


def _read_turn(
    perturbed: Values,
    perturbed0: Values,
    delta: Values | None,
    delta0: Values | None,
    reading: EffectReading,
    plan: Plan,
) -> None:
    if delta is None or delta0 is None:
        reading.no_cosine = "no-delta"
    elif delta.shape != delta0.shape:
        reading.no_cosine = "shape-changed"
    else:
        try:
            delta, delta0 = (expanded(each, perturbed.shape) for each in (delta, delta0))
        except NotKnown as why:
            reading.no_cosine = why.reason
        else:
            reading.turn = plan.turn(perturbed, perturbed0, delta, delta0)
