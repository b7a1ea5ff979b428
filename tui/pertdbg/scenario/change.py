"""The same scenario with a few keys changed, for runs that are to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pertdbg.errors import PertdbgError
from pertdbg.scenario.checks import check
from pertdbg.scenario.model import Scenario
from pertdbg.scenario.problems import explain


class ChangeError(PertdbgError):
    """A value that is not allowed under a key, or has no meaning there."""

    def __init__(self, path: Path, key: str, message: str) -> None:
        super().__init__(f"{path}: {key}: {message}")
        self.key, self.message = key, message


def changed(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Give a scenario with other values under some dotted keys, such as ``loop.freeze``.

    What it expects is left out: it was said of the scenario as it is.

    Raises:
        ChangeError: The values are not allowed, or have no meaning in this scenario.
    """
    if not values:
        return scenario
    table = scenario.model_dump(by_alias=True, exclude_unset=True, exclude={"expect"})
    for key, value in values.items():
        _set(table, key.split("."), value)
    try:
        result = Scenario.model_validate(table)
    except ValidationError as error:
        problem = explain(error.errors()[0])
        raise ChangeError(scenario.path, problem.key, problem.message) from error
    for problem in check(_plain(table), scenario.path.parent):
        raise ChangeError(scenario.path, problem.key, problem.message)
    result._path, result._file = scenario.path, scenario.file
    return result


def _set(table: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        table = table.setdefault(key, {})
    table[path[-1]] = value


def _plain(value: Any) -> Any:
    """Give what the TOML parser would: lists where the model has tuples."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
