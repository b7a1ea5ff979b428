"""A person's own keys: `keys.toml` in the configuration folder, from action id to keys."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pertdbg.app.keys import IDS

_LINE = re.compile(r"line (\d+)")


def keys_file() -> Path:
    """Say where a person's keys stand."""
    import platformdirs

    return platformdirs.user_config_path("pertdbg") / "keys.toml"


def load(path: Path) -> tuple[dict[str, str], list[str]]:
    """Read keys, for Textual's `App.set_keymap`.

    Returns:
        Keys by the id of their action, without what is wrong; and what is wrong, with its line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeDecodeError) as error:
        return {}, [f"{path}: can't be read: {error}"]
    return _parsed(path, text)


def _parsed(path: Path, text: str) -> tuple[dict[str, str], list[str]]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _LINE.search(str(error))
        place = f"line {found[1]}" if found else "at its end"
        return {}, [f"{path}, {place}: not TOML: {error}"]
    return _checked(path, text, data)


def _checked(path: Path, text: str, data: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    keymap: dict[str, str] = {}
    problems: list[str] = []
    owners: dict[str, str] = {}
    for name, value in _flat(data).items():
        keys = [value] if isinstance(value, str) else value
        problem = _problem(name, keys, owners)
        if problem:
            problems.append(f"{path}, line {_line_of(text, name)}: {problem}")
            continue
        owners.update(dict.fromkeys(keys, name))
        keymap[name] = ",".join(keys)
    return keymap, problems


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Join tables (`panel.map = "m"`) to ids."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def _problem(name: str, keys: Any, owners: Mapping[str, str]) -> str:
    if name not in IDS:
        import difflib

        near = difflib.get_close_matches(name, IDS, 1)
        return f"no action {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if not isinstance(keys, list) or not keys or not all(isinstance(k, str) and k for k in keys):
        return f'{name} takes a key or a list of keys, as in {name} = "f9"'
    taken = next((key for key in keys if key in owners), None)
    return f"{taken!r} is already the key of {owners[taken]!r}" if taken else ""


def _line_of(text: str, name: str) -> int:
    last = re.escape(name.rsplit(".", 1)[-1])
    pattern = re.compile(rf"""(^|[\s."'{{,]){last}["']?\s*=""")
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if pattern.search(line)), 1)
