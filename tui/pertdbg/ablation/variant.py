"""What is different in one run: guards taken out, keys of the scenario or lines changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Variant:
    """One run of a scenario. The empty variant is the whole run."""

    without: tuple[str, ...] = ()
    """Ids of the guards that are taken out of the update method and what it calls."""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """Other values of the scenario, by dotted key: ``loop.clean_gradients``, ``seed``,
    ``layer.arguments.learning_rate``."""
    lines: Mapping[int, str] = field(default_factory=dict)
    """New text for lines of the update method's file, by number."""
    steps: int | None = None
    """Number of update calls; None for what the scenario says."""

    def as_json(self) -> dict[str, Any]:
        """Give JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Variant:
        """Read back what `as_json` gave, keys of `lines` as JSON has them."""
        lines = {int(number): text for number, text in values["lines"].items()}
        return cls(tuple(values["without"]), values["scenario"], lines, values["steps"])
