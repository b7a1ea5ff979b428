"""Adapters as data: one TOML file each, read and checked here, sent to the agent as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

from pertdbg.adapters.load import load

__all__ = ["adapters", "load", "shipped"]


def shipped() -> list[dict[str, Any]]:
    """Read the adapters that ship, in the order in which they are tried."""
    found = [load(path) for path in sorted(Path(__file__).parent.glob("*.toml"))]
    return sorted(found, key=itemgetter("order"))


def adapters(own: Iterable[Path] = ()) -> list[dict[str, Any]]:
    """Read a person's own adapters and those that ship; their own are tried first.

    Raises:
        PertdbgError: A file can't be read, or has errors.
    """
    found = [load(path) for path in own]
    names = {adapter["name"] for adapter in found}
    return found + [adapter for adapter in shipped() if adapter["name"] not in names]
