"""Python that a scenario names: found, imported and called, with its failures in words."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pertdbg.errors import PertdbgError


def find_object(place: str, folder: Path, key: str) -> Any:
    """Import what a place names.

    Args:
        place: ``file.py:name``, relative to the folder, or ``package.module:name``.
        folder: Where the scenario's file lies; its modules can import each other.
        key: Where the scenario names the place, for the error.

    Raises:
        PertdbgError: There is no such file, module or name, or importing it fails.
    """
    home, _, name = place.rpartition(":")
    found: Any = _guarded(f"{key}: importing {home}", lambda: _module(home, folder))
    for part in name.split("."):
        if not hasattr(found, part):
            known = [other for other in vars(found) if not other.startswith("_")]
            close = difflib.get_close_matches(part, known, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise PertdbgError(f"{key}: {home} has no attribute {part!r}{meant}")
        found = getattr(found, part)
    return found


def call(function: Callable[..., Any], place: str, key: str, *args: Any, **kwargs: Any) -> Any:
    """Call what a scenario names.

    Raises:
        PertdbgError: It can't be called, or it raises; the text has the exception's type and text.
    """
    return _guarded(f"{key}: {place}", lambda: function(*args, **kwargs))


def _guarded(doing: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except PertdbgError as error:
        raise PertdbgError(f"{doing}: {error}") from error
    except Exception as error:  # a person's code may raise anything
        text = " ".join(str(error).split())
        raise PertdbgError(f"{doing} raised {type(error).__name__}: {text}") from error


def _module(home: str, folder: Path) -> ModuleType:
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    if not home.endswith(".py"):
        return importlib.import_module(home)
    path = (folder / home).resolve()
    if not path.is_file():
        raise PertdbgError(f"there is no file {path}")
    return _from_file(path)


def _from_file(path: Path) -> ModuleType:
    """Import a file once under its own name, or under a longer one where that is taken."""
    name = path.stem
    if name in sys.modules and not _is_from(sys.modules[name], path):
        name = f"{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PertdbgError(f"{path} can't be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_from(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path
