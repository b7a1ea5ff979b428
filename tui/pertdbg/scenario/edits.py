"""Guards and lines that a scenario has changed in the update method: found, and put in place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from pertdbg.errors import PertdbgError
from pertdbg.guards.find import find_guards
from pertdbg.guards.install import take_out
from pertdbg.guards.model import Guard
from pertdbg.guards.source import FunctionSource, sources_of_method
from pertdbg.scenario.model import Removed, Scenario


def edit(scenario: Scenario, cls: type[nn.Module]) -> None:
    """Change the update method of a class as a scenario says, until the process ends.

    Raises:
        PertdbgError: A guard or a line does not stand where the scenario says.
    """
    if scenario.guards_removed or scenario.lines:
        sources = sources_of_method(cls, scenario.layer.observed.method)
        guards = removed(scenario, find_guards(sources))
        take_out(sources, guards, cls, lines(scenario, sources))


def removed(scenario: Scenario, guards: Sequence[Guard]) -> list[Guard]:
    """Find the guards that a scenario leaves out.

    Raises:
        PertdbgError: One does not stand where the scenario says.
    """
    return [
        guard for wanted in scenario.guards_removed for guard in _meant(scenario, wanted, guards)
    ]


def lines(scenario: Scenario, sources: Sequence[FunctionSource]) -> dict[int, str]:
    """Give the lines that a scenario changes, by number.

    Raises:
        PertdbgError: Another text stands in one of them.
    """
    text = sources[0].lines
    for number, line in enumerate(scenario.lines):
        there = text[line.line - 1].rstrip("\n") if line.line <= len(text) else ""
        if there.strip() != line.was.strip():
            raise PertdbgError(
                f"{scenario.file}: lines[{number + 1}]: line {line.line} of {sources[0].file} is "
                f"{there.strip()!r}, not {line.was.strip()!r}"
            )
    return {line.line: line.now for line in scenario.lines}


def _meant(scenario: Scenario, wanted: Removed, guards: Sequence[Guard]) -> list[Guard]:
    file = wanted.file or (Path(guards[0].file).name if guards else "")
    found = [
        guard
        for guard in guards
        if (guard.kind, guard.line, Path(guard.file).name) == (wanted.kind, wanted.line, file)
    ]
    if not found:
        there = ", ".join(f"{guard.kind} in line {guard.line}" for guard in guards) or "none"
        raise PertdbgError(
            f"{scenario.file}: guards_removed: no {wanted.kind} in line {wanted.line} of {file}; "
            f"there are: {there}"
        )
    return found
