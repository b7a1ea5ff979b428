"""What is run, and what is different in one run: guards taken out, keys or lines changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pertdbg.guards.model import Edit, Guard


@dataclass(frozen=True)
class Target:
    """What is run: a scenario, or a script with its arguments."""

    scenario: str = ""
    """Path of the scenario's file; empty for a script."""
    given: tuple[str, ...] = ()
    """A script, or ``-m`` and a module, then arguments."""
    adapters: tuple[dict[str, Any], ...] = ()
    """JSON of what is looked for in a script."""

    @property
    def name(self) -> str:
        """What it is called."""
        if self.scenario:
            return self.scenario
        return self.given[1] if self.given[0] == "-m" else self.given[0]

    @property
    def folder(self) -> Path:
        """Where files of the person's own stand."""
        if self.scenario:
            return Path(self.scenario).resolve().parent
        return Path.cwd() if self.given[0] == "-m" else Path(self.given[0]).resolve().parent

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Target:
        """Read back what `dataclasses.asdict` gave."""
        return cls(values["scenario"], tuple(values["given"]), tuple(values["adapters"]))


@dataclass(frozen=True)
class Variant:
    """One run of a target. The empty variant is the whole run."""

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


@dataclass(frozen=True)
class Request:
    """What one process is to run, and where it is to leave the results."""

    target: Target
    folder: str
    variant: Variant
    guards: tuple[Guard, ...] = ()
    """Guards of a script that the variant lacks; those of a scenario are found where it runs."""
    file: str = ""
    """File whose lines a variant of a script changes."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Request:
        """Read back what `dataclasses.asdict` gave, keys and tuples as JSON has them."""
        return cls(
            Target.from_json(values["target"]),
            values["folder"],
            Variant.from_json(values["variant"]),
            tuple(guard_from_json(guard) for guard in values["guards"]),
            values["file"],
        )


def guard_from_json(values: dict[str, Any]) -> Guard:
    """Read back a guard that `dataclasses.asdict` gave."""
    spans = tuple(tuple(span) for span in values["removed"])
    edits = tuple(Edit(**edit) for edit in values["edits"])
    return Guard(**{**values, "span": tuple(values["span"]), "removed": spans, "edits": edits})
