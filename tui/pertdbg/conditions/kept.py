"""Watches and conditions that are kept for a scenario or script, in a file that one can edit."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pertdbg.conditions.condition import Condition
from pertdbg.conditions.errors import ConditionError
from pertdbg.conditions.expression import Expression
from pertdbg.errors import PertdbgError

LIMIT = 1 << 20
"""Most bytes of a file."""

MOST = 200
"""Most watches, and most conditions."""

_HEAD = """\
# What pertdbg shows at every call of this target, and where it stops it. The app writes this file;
# it can be edited while the app is closed. A condition may go on, as in
#   "gradient.norm > 1e3; after 3 hits; skip 2; layer NAME; rank 0"
"""


def folder() -> Path:
    """Say where the files are."""
    import platformdirs

    return platformdirs.user_config_path("pertdbg") / "watches"


@dataclass
class Kept:
    """What is kept for one target. Change the lists, then `save`."""

    target: str
    """What it is kept for: `Session.kept_as`."""
    watches: list[str] = field(default_factory=list)
    """Expressions to show, as texts; one that can't be read stays, and stands in `problems`."""
    stop_when: list[str] = field(default_factory=list)
    """Conditions, in their one-line form."""
    problems: list[str] = field(default_factory=list)
    """What is wrong with the file, in lines for people."""
    broken: bool = False
    """The file can't be read: `save` puts it aside, under a name that ends in `.broken`."""

    @classmethod
    def load(cls, target: str) -> Kept:
        """Read what is kept for a target; nothing, where there is no file. Never raises."""
        kept = cls(target)
        try:
            data = kept.path.read_bytes()[: LIMIT + 1]
        except FileNotFoundError:
            return kept
        except OSError as error:
            kept.problems.append(f"{kept.path}: can't be read: {error.strerror}")
            return kept
        kept._take(data)
        return kept

    @property
    def path(self) -> Path:
        """The file."""
        last = re.split(r"[/\\ ]", self.target.rstrip("/\\ "))[-1]
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", last)[:40].strip(".") or "target"
        digest = hashlib.sha256(self.target.encode(errors="surrogateescape")).hexdigest()
        return folder() / f"{name}-{digest[:12]}.toml"

    def expressions(self) -> list[Expression]:
        """Give the watches that can be read."""
        return [one for one in (_read(Expression, text) for text in self.watches) if one]

    def conditions(self) -> list[Condition]:
        """Give the conditions that can be read."""
        return [one for one in (_read(Condition.of, text) for text in self.stop_when) if one]

    def save(self) -> None:
        """Write the file whole, in the place of the one before; without content there is none.

        Raises:
            PertdbgError: It can't be written.
        """
        try:
            if self.broken and self.path.exists():
                self.path.replace(self.path.with_suffix(".toml.broken"))
            self.broken = False
            if self.watches or self.stop_when:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _write(self.path, self._text())
            else:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            raise PertdbgError(f"{self.path}: can't be written: {error.strerror}") from error

    def _text(self) -> str:
        parts = [f"{_HEAD}\ntarget = {_quoted(self.target)}\n"]
        for key in ("watches", "stop_when"):
            lines = [f"    {_quoted(text)},\n" for text in dict.fromkeys(getattr(self, key))]
            parts.append(f"{key} = [\n{''.join(lines)}]\n" if lines else f"{key} = []\n")
        return "\n".join(parts)

    def _take(self, data: bytes) -> None:
        try:
            values = _parsed(data)
        except ValueError as error:
            self.broken = True
            self.problems.append(f"{self.path}: is not read: {error}")
            return
        self.watches = self._texts(values, "watches", Expression)
        self.stop_when = self._texts(values, "stop_when", Condition.of)

    def _texts(self, values: dict[str, Any], key: str, read: Callable[[str], Any]) -> list[str]:
        found = values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            self.broken = True
            self.problems.append(f"{self.path}: {key} is not a list of texts")
            return []
        if len(found) > MOST:
            self.broken = True
            self.problems.append(f"{self.path}: of {key} only the first {MOST} are taken")
        for text in found[:MOST]:
            try:
                read(text)
            except ConditionError as error:
                self.problems.append(f"{self.path}: {key}: {error}")
        return list(dict.fromkeys(found[:MOST]))


def _read(read: Callable[[str], Any], text: str) -> Any:
    with contextlib.suppress(ConditionError):
        return read(text)
    return None


def _parsed(data: bytes) -> dict[str, Any]:
    """Read TOML.

    Raises:
        ValueError: It is none, or too large.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if len(data) > LIMIT:
        raise ValueError(f"it has more than {LIMIT} bytes")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("it is too deeply nested") from None


def _quoted(text: str) -> str:
    """Write a text as TOML does."""
    sound = text.encode("utf-8", "replace").decode()
    return json.dumps(sound, ensure_ascii=False).replace("\x7f", "\\u007f")


def _write(path: Path, text: str) -> None:
    """Put a file in the place of another, so that there is always a whole one."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def merged(*texts: Iterable[str]) -> list[str]:
    """Put lists of texts behind each other, each text once."""
    return list(dict.fromkeys(text for several in texts for text in several))
