"""Reading a scenario file: every error of it at once, each with its place."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pertdbg.errors import PertdbgError
from pertdbg.scenario.checks import check
from pertdbg.scenario.model import Scenario
from pertdbg.scenario.positions import Positions
from pertdbg.scenario.problems import Problem, explain

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
    text = _read(path)
    positions = Positions(text)
    values = _parse(path, text, positions)
    try:
        scenario = Scenario.model_validate(values)
    except ValidationError as error:
        problems = [explain(details) for details in error.errors()]
    else:
        problems = []
    known = {problem.path for problem in problems}
    problems += [found for found in check(values, path.parent) if found.path not in known]
    if problems:
        raise PertdbgError(_listing(path, problems, positions))
    scenario._path = path
    return scenario


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
