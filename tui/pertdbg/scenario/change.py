"""The same scenario with a few keys changed, for runs that are to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pertdbg.errors import PertdbgError
from pertdbg.scenario.checks import check
from pertdbg.scenario.model import Scenario


def changed(scenario: Scenario, values: Mapping[str, Any]) -> Scenario:
    """Give a scenario with other values under some dotted keys, such as ``loop.freeze``.

    What it expects is left out: it was said of the scenario as it is.

    Raises:
        PertdbgError: The values are not allowed, or have no meaning in this scenario.
    """
    if not values:
        return scenario
    table = scenario.model_dump(by_alias=True, exclude_unset=True, exclude={"expect"})
    for key, value in values.items():
        _set(table, key.split("."), value)
    try:
        result = Scenario.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise PertdbgError(f"{scenario.path}: {key}: {first['msg']}") from error
    for problem in check(_plain(table), scenario.path.parent):
        raise PertdbgError(f"{scenario.path}: {problem.key}: {problem.message}")
    result._path = scenario.path
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
