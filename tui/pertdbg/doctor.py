"""How this installation stands: what is there, what is missing, what to know."""

from __future__ import annotations

import importlib.metadata
import locale
import os
import platform
import shutil
import socket
import sqlite3
import sys
import tempfile

from pertdbg.app.keymap import keys_file

_REQUIRED = ("torch", "numpy", "textual", "rich", "click", "pydantic", "safetensors")
_OPTIONAL = {"scikit-learn": "the scenario digits-pgd; `pip install 'pertdbg[digits]'`"}


def report() -> tuple[list[str], bool]:
    """Look at the installation.

    Returns:
        Lines to print, and whether everything that is required is there.
    """
    rows = [_python(), *(_package(name) for name in _REQUIRED), _sqlite(), _sockets(), _temporary()]
    lines = [f"pertdbg {importlib.metadata.version('pertdbg')} on {platform.platform()}"]
    lines += [f"  {'ok  ' if well else 'MISS'} {text}" for text, well in rows]
    lines += [f"  note {text}" for text in _notes()]
    return lines, all(well for _, well in rows)


def _python() -> tuple[str, bool]:
    return f"python {platform.python_version()} ({sys.executable})", sys.version_info >= (3, 10)


def _package(name: str) -> tuple[str, bool]:
    try:
        return f"{name} {importlib.metadata.version(name)}", True
    except importlib.metadata.PackageNotFoundError:
        return f"{name} is not installed; `pip install {name}`", False


def _sqlite() -> tuple[str, bool]:
    """Say which SQLite library records, and whether it has the WAL-reset bug.

    The bug (3.7.0 to 3.51.2, sqlite.org/wal.html) needs two connections that write or checkpoint
    at one instant. pertdbg uses exactly one; it matters to those who open a recording for
    writing with another program while it is made.
    """
    version = sqlite3.sqlite_version_info
    fixed = version >= (3, 51, 3) or (version[:2] == (3, 50) and version[2] >= 7)
    fixed = fixed or (version[:2] == (3, 44) and version[2] >= 6)
    hint = "" if fixed else "; never write to a recording from another program while it is made"
    return f"sqlite {sqlite3.sqlite_version}{hint}", version >= (3, 31)


def _sockets() -> tuple[str, bool]:
    well = hasattr(socket, "AF_UNIX")
    return ("unix sockets" if well else "no unix sockets: live sessions can't be controlled"), well


def _temporary() -> tuple[str, bool]:
    try:
        with tempfile.TemporaryDirectory() as folder:
            return f"temporary folder {os.path.dirname(folder)}", True  # noqa: PTH120 - text only
    except OSError as error:
        return f"no temporary folder for live sessions: {error}", False


def _notes() -> list[str]:
    size = shutil.get_terminal_size()
    terminal = f"terminal {size.columns}x{size.lines}" if sys.stdout.isatty() else "no terminal"
    colour = ", NO_COLOR is set" if os.environ.get("NO_COLOR") else ""
    keys = keys_file()
    notes = [
        f"{terminal}, encoding {locale.getpreferredencoding(False)}{colour}",
        f"your own keys: {keys}" + ("" if keys.exists() else ", which is not there yet"),
    ]
    for name, use in _OPTIONAL.items():
        text, well = _package(name)
        notes.append(text if well else f"{name} is not installed; it is for {use}")
    return notes
