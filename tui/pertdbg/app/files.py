"""Names of the files that the app writes into the working folder."""

from __future__ import annotations

from pathlib import Path

from pertdbg.session import Session


def stem(session: Session) -> str:
    """Give the name that files of a session begin with."""
    return Path(session.target_name).stem or "session"


def free_name(stem: str, suffix: str) -> Path:
    """Give a path in the working folder that does not exist yet."""
    path, number = Path(f"{stem}{suffix}"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}{suffix}")
    return path
