"""The conditions that a person has set, each of which can be off for a while."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pertdbg.record import CallRecord

if TYPE_CHECKING:
    from pertdbg.conditions import Condition


@dataclass(frozen=True)
class Stop:
    """A condition, and whether it counts."""

    condition: Condition
    on: bool = True


class Stops:
    """The conditions in the order in which they were set."""

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        """Begin with some that count."""
        self.all = [Stop(condition) for condition in conditions]

    @property
    def on(self) -> list[Condition]:
        """Those that count."""
        return [stop.condition for stop in self.all if stop.on]

    def set(self, condition: Condition) -> None:
        """Add a condition, or let it count again."""
        for place, stop in enumerate(self.all):
            if stop.condition == condition:
                self.all[place] = Stop(condition)
                return
        self.all.append(Stop(condition))

    def toggle(self, place: int) -> None:
        """Let a condition count, or not any more."""
        stop = self.all[place]
        self.all[place] = Stop(stop.condition, not stop.on)

    def remove(self, place: int) -> None:
        """Forget a condition."""
        del self.all[place]


def proposed(panel: str, record: CallRecord | None) -> str:
    """Give a condition on what a panel shows of a call above all."""
    if record is None:
        return ""
    after = record.tensors.after
    if panel == "storage":
        pair = record.shared[0] if record.shared else ("input", "perturbed_input")
        return f"shares({pair[0]}, {pair[1]})"
    if panel == "leaf" and after.delta is not None:
        return f"{'not ' if after.delta.is_leaf else ''}tensors.after.delta.is_leaf"
    if panel in ("delta", "map"):
        return _above("delta.max_abs", record.delta.max_abs)
    if not record.gradient.present:
        return "gradient.present"
    return _above("gradient.norm", record.gradient.norm)


def _above(field: str, value: float | None) -> str:
    """Propose what is beyond a value: three digits of it, rounded up, where that is a number."""
    if value is None or not math.isfinite(value):
        return f"not isfinite({field})" if value is not None else f"changed({field})"
    text = f"{value:.3g}"
    if value and float(text) < value:
        text = f"{value + 10.0 ** (math.floor(math.log10(abs(value))) - 2):.3g}"
    return f"{field} > {text}"
