"""One thing that is wrong with a TOML file: where, and in words. Light to import."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

KeyPath = tuple["str | int", ...]
"""Keys and, within arrays, positions from 0."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and the key that it is wrong with."""

    path: KeyPath
    message: str

    @property
    def key(self) -> str:
        """The key as a person writes it; elements of arrays are counted from 1."""
        parts = ""
        for part in self.path:
            parts += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
        return parts.lstrip(".")


def nearest(value: Any, allowed: Iterable[str]) -> str:
    """Say which of the allowed names is meant, if one is close, and which there are."""
    names = list(allowed)
    close = difflib.get_close_matches(str(value), names, n=1)
    meant = f"; did you mean {close[0]}?" if close else ";"
    return f"{meant} allowed: {', '.join(names)}"


def show(value: Any) -> str:
    """Show a value as TOML writes it, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else text[:57] + "..."
