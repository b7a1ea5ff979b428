"""Reading a scenario file: every error of it at once, each with its place."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from pertdbg.errors import PertdbgError
from pertdbg.scenario.change import ChangeError, changed
from pertdbg.scenario.checks import check, check_expect
from pertdbg.scenario.library import find
from pertdbg.scenario.model import Derived, Scenario
from pertdbg.scenario.positions import Positions
from pertdbg.scenario.problem import Problem
from pertdbg.scenario.problems import explain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load(path: Path) -> Scenario:
    """Read and check a scenario file. Nothing that it names is run.

    Raises:
        PertdbgError: The file can't be read, or has errors. The text has a line for each,
            ``FILE:LINE:COLUMN: key: what is wrong and what is allowed``, in the file's order.
    """
    return _load(path, ())


def _load(path: Path, above: tuple[Path, ...]) -> Scenario:
    text = _read(path)
    positions = Positions(text)
    values = _parse(path, text, positions)
    if "base" in values:
        return _derived(path, values, positions, (*above, path.resolve()))
    scenario, problems = _validated(Scenario, values)
    known = {problem.path for problem in problems}
    problems += [found for found in check(values, path.parent) if found.path not in known]
    if scenario is None or problems:
        raise PertdbgError(_listing(path, problems, positions))
    scenario._path = path
    return scenario


def _derived(
    path: Path, values: dict[str, Any], positions: Positions, above: tuple[Path, ...]
) -> Scenario:
    """Read a scenario that is another one but for what it says."""
    derived, problems = _validated(Derived, values)
    if derived is None:
        raise PertdbgError(_listing(path, problems, positions))
    base = path.parent / derived.base if derived.base.endswith(".toml") else find(derived.base)
    if base.resolve() in above:
        at = _listing(path, [Problem(("base",), "goes round in a circle")], positions)
        raise PertdbgError(at)
    try:
        scenario = changed(_load(base, above), derived.change)
    except ChangeError as error:
        problem = Problem(("change", error.key), error.message)
        raise PertdbgError(_listing(path, [problem], positions)) from error
    said = {key: getattr(derived, key) for key in derived.model_fields_set & _OWN}
    expects = {**values, "loop": {"calls": scenario.loop.calls}}
    problems = list(check_expect(expects))
    if problems:
        raise PertdbgError(_listing(path, problems, positions))
    result = scenario.model_copy(update={"expect": (), **said})
    result._file = path
    return result


_OWN = frozenset({"title", "about", "guards_removed", "lines", "breakpoints", "watches", "expect"})
"""Keys of a derived scenario that stand in the place of the other one's."""

T = TypeVar("T", Scenario, Derived)


def _validated(table: type[T], values: dict[str, Any]) -> tuple[T | None, list[Problem]]:
    try:
        return table.model_validate(values), []
    except ValidationError as error:
        return None, [explain(details, table) for details in error.errors()]


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise PertdbgError(f"{path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise PertdbgError(f"{path}:{line}: is not UTF-8: {error.reason}") from error


def _parse(path: Path, text: str, positions: Positions) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if positions.repeated:
            raise PertdbgError(_repeated(path, positions)) from error
        message, place = str(error), _AT.search(str(error))
        line, column = text.count("\n") + 1, 1
        if place is not None:
            message = message[: place.start()]
            if place[1] is not None:
                line, column = int(place[1]), int(place[2])
        raise PertdbgError(f"{path}:{line}:{column}: not TOML: {message}") from error


def _repeated(path: Path, positions: Positions) -> str:
    return "\n".join(
        f"{path}:{line}:{column}: {Problem(key, '').key}: stands here for the second time; "
        f"first in line {first[0]}"
        for key, (line, column), first in positions.repeated
    )


def _listing(path: Path, problems: list[Problem], positions: Positions) -> str:
    placed = sorted(
        (positions.of(problem.path), problem.key, problem.message) for problem in problems
    )
    return "\n".join(
        f"{path}:{line}:{column}: {key}: {message}" for (line, column), key, message in placed
    )
