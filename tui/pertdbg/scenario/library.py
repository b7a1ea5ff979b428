"""The scenarios that ship. They are known to be valid, so that naming one needs no checking."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import pertdbg
from pertdbg.errors import PertdbgError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT = "sift"
"""The scenario that runs where none is named."""


def folder() -> Path:
    """Find the folder of the scenarios: in the package, or beside its source in a checkout."""
    package = Path(pertdbg.__file__).resolve().parent
    installed = package / "scenarios"
    return installed if installed.is_dir() else package.parents[1] / "scenarios"


def names() -> list[str]:
    """List the names, the default first."""
    found = sorted(path.stem for path in folder().glob("*.toml"))
    return sorted(found, key=lambda name: name != DEFAULT)


def find(name: str) -> Path:
    """Find the file of a scenario that ships.

    Raises:
        PertdbgError: There is none of that name.
    """
    if name in names():
        return folder() / f"{name}.toml"
    close = difflib.get_close_matches(name, names(), n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise PertdbgError(
        f"{name}: no scenario of that name ships{meant or ';'} there are {', '.join(names())}"
    )


def listing() -> list[tuple[str, str]]:
    """List names and titles, the default first."""
    return [(name, introduction(find(name))[0]) for name in names()]


def ships(path: Path) -> bool:
    """Say whether a file is one of the scenarios that ship."""
    return path.resolve().parent == folder()


def introduction(path: Path) -> tuple[str, str]:
    """Give title and `about` of a scenario that ships."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    return values["title"], values["about"].strip()


def stops(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the breakpoints and the watches of a scenario that is known to be valid."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(values.get("breakpoints", ())), tuple(values.get("watches", ()))
