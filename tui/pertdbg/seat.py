"""Where a target can be reached: a file beside its control socket, in a folder of mode 0700.

Nothing but the standard library: the agent takes its seat away when nobody listens any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar

from pertdbg.process import lives

POINT = "point.json"
"""Says whose control point a folder is."""

LOCK = "app.lock"
"""Held by the app that is attached, for as long as it lives."""

_SEAT = "seat.json"
_PREFIX = "rank"
_LARGEST = 1 << 20
"""Bytes of the largest file that is read."""

_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "str | None": (str, type(None)),
}

T = TypeVar("T")


@dataclass(frozen=True)
class Seat:
    """One process that can be commanded."""

    pid: int
    began: str
    """What tells the process from a later one of the same number."""
    recording: str
    control: str
    """Folder of the socket."""
    key: str
    target: str = ""
    title: str = ""
    stdout: str | None = None
    """File with what it prints, where it prints to one of ours."""
    stderr: str | None = None
    rank: int = 0
    world_size: int = 1

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return lives(self.pid, self.began)

    def save(self, folder: Path) -> None:
        """Write it, readable by its owner only, so that a reader finds it whole or not at all."""
        save(folder / _SEAT, asdict(self))


@dataclass(frozen=True)
class Holder:
    """Who made a control point."""

    pid: int
    began: str
    run: str
    """The run's uuid: its ranks sit down at one point."""
    target: str = ""
    command: str = ""
    created: float = 0.0
    size: int = 1
    """Ranks that are to sit there."""

    def save(self, point: Path) -> None:
        """Write it into the folder of the control point."""
        save(point / POINT, asdict(self))


def folder_of(point: Path, rank: int) -> Path:
    """Give the place of a rank at a control point."""
    return point / f"{_PREFIX}{rank}"


def seats(point: Path) -> list[Seat]:
    """Give the seats of a control point, by rank; what cannot be read is none."""
    folders = [path for path in listed(point) if path.name.startswith(_PREFIX)]
    read = (_read(path / _SEAT) for path in folders)
    found = [seat for values in read if (seat := _made(Seat, values)) is not None]
    return sorted(found, key=lambda seat: seat.rank)


def holder(point: Path) -> Holder | None:
    """Give who made a control point; None where that cannot be read."""
    return _made(Holder, _read(point / POINT))


def give_up(folder: Path) -> None:
    """Take a seat away, and its control point where the process made that too."""
    point = folder.parent
    made = holder(point)
    shutil.rmtree(folder, ignore_errors=True)
    if made is not None and made.pid == os.getpid():
        remove(point)


def remove(point: Path) -> None:
    """Take a control point away."""
    shutil.rmtree(point, ignore_errors=True)


def listed(folder: Path) -> list[Path]:
    """Give what is in a folder, by name; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def save(path: Path, values: object) -> None:
    """Write a JSON file of mode 0600 under a name that it gets when it is whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        draft.unlink()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open already
        json.dump(values, file)
    draft.replace(path)


def _read(path: Path) -> object:
    try:
        if path.stat().st_size > _LARGEST:
            return None
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _made(kind: type[T], values: object) -> T | None:
    """Make one of a dataclass, where every value is of the type that the field has."""
    if not isinstance(values, dict):
        return None
    types = {field.name: _TYPES[str(field.type)] for field in fields(kind)}  # type: ignore[arg-type]
    if values.keys() != types.keys():
        return None
    sound = all(isinstance(values[name], type_) for name, type_ in types.items())
    return kind(**values) if sound else None
