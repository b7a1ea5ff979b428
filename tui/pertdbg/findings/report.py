"""What a check reports: the findings of a target, and whether it was observed as expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pertdbg.findings.model import SEVERITIES, Finding

if TYPE_CHECKING:
    from pertdbg.scenario.expect import Outcome

FailOn = Literal["error", "warning", "never"]


@dataclass(frozen=True)
class Report:
    """What a check came to."""

    target: str
    """As it was named."""
    findings: list[Finding]
    calls: int
    exit_status: int | None = None
    """Of the target; None where that is not known."""
    outcomes: Sequence[Outcome] | None = None
    """Of the expectations of a scenario; None for what has none."""
    problems: list[str] = field(default_factory=list)
    """What of the target could not be checked."""

    def status(self, fail_on: FailOn) -> int:
        """Give the exit status of the command: 0 if all is well, 1 if not.

        A scenario that says what is to be observed is well where that was observed: it may show a
        fault on purpose.
        """
        if fail_on == "never":
            return 0
        if self.outcomes is not None:
            return int(any(not outcome.met for outcome in self.outcomes))
        worst = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
        return int(any(finding.severity in worst for finding in self.findings))
