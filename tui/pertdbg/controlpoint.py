"""Named control points: folders in which running targets listen for an app that may come.

They lie in a folder of the user's own, of mode 0700, that goes at the latest with the machine's
next start. A session over ssh may see another `XDG_RUNTIME_DIR` or `TMPDIR` than the job that was
started before it, so all the places are looked at.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import stat
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pertdbg.agent.config import Config
from pertdbg.agent.control import SOCKET
from pertdbg.errors import PertdbgError
from pertdbg.process import began, lives
from pertdbg.recording.reader import Recording
from pertdbg.seat import (
    LOCK,
    Holder,
    Seat,
    folder_of,
    holder,
    listed,
    remove,
    seats,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")

_LONGEST = 100
"""Bytes of the longest path that a socket can have everywhere, and some to spare."""


@dataclass(frozen=True)
class Point:
    """A control point as it is now."""

    folder: Path
    holder: Holder
    seats: tuple[Seat, ...]

    @property
    def name(self) -> str:
        """What it was named."""
        return self.folder.name

    @property
    def alive(self) -> bool:
        """Whether a process of it still runs."""
        made = self.holder
        return lives(made.pid, made.began) or any(seat.alive for seat in self.seats)

    def refreshed(self) -> Point:
        """Look again who is there."""
        return replace(self, seats=tuple(seats(self.folder)))

    def attached(self) -> int | None:
        """Give the process of the app that is attached; None for none."""
        try:
            descriptor = os.open(self.folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        with open(descriptor, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = file.read(20)
                return int(text) if text.isdecimal() else 0
        return None

    def lock(self) -> int:
        """Take the place of the one app; gives the file descriptor that holds it.

        The kernel gives it back with the process, however that ends.

        Raises:
            PertdbgError: Another app is there.
        """
        other = self.attached()
        with contextlib.suppress(OSError):
            descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
            else:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                return descriptor
        who = f"process {other} is attached" if other else "another app is attached"
        raise PertdbgError(f"{self.name}: {who} already; leave it there first (key q)")


def points() -> list[Point]:
    """Give the control points of running targets, by name, and clean up after those that ended."""
    found = []
    for base in _bases():
        for folder in listed(base) if _is_safe(base) else []:
            made = holder(folder)
            if made is None or not _NAME.fullmatch(folder.name):
                continue
            point = Point(folder, made, tuple(seats(folder)))
            if point.alive:
                found.append(point)
            else:
                remove(folder)
    return sorted(found, key=lambda point: point.name)


def find(name: str) -> Point:
    """Give the control point of a name.

    Raises:
        PertdbgError: There is none.
    """
    there = points()
    for point in there:
        if point.name == name:
            return point
    names = ", ".join(point.name for point in there)
    raise PertdbgError(
        f"{name}: no running target has a control point of this name"
        + (f"; there are: {names}" if names else f"; `pertdbg record --control {name} …` makes one")
    )


def claim(name: str, made: Holder) -> Path:
    """Make a control point, or join that of one's own run; gives its folder.

    Args:
        name: What to call it.
        made: Whose it is to be.

    Raises:
        PertdbgError: The name cannot be used, or another running target has it.
    """
    if not _NAME.fullmatch(name):
        raise PertdbgError(
            f"--control {name}: a name has letters, digits, dots, dashes and underscores, "
            "begins with a letter or digit, and is 40 long at most"
        )
    others = [point for point in points() if point.name == name]
    folder = others[0].folder if others else _base(name) / name
    with contextlib.suppress(OSError):
        _publish(folder, made)
    owner = holder(folder)
    if owner is None:
        raise PertdbgError(f"--control {name}: {folder} cannot be written")
    if owner.run != made.run:
        raise PertdbgError(
            f"--control {name}: process {owner.pid} ({owner.target}) has this name; "
            "choose another, or open it with `pertdbg attach`"
        )
    return folder


def holds(config: Config, pid: int) -> Holder:
    """Say who holds the control point of a run: the process that lives as long as the run."""
    meta = config.meta
    return Holder(
        pid=pid,
        began=began(pid),
        run=str(meta.get("uuid") or uuid.uuid4()),
        target=str(meta.get("target", "")),
        command=str(meta.get("command", "")),
        created=time.time(),
        size=int(meta.get("world_size", 1)),
    )


def sit_down(point: Path, config: Config, *, wait: bool = False) -> Config:
    """Take a seat at a control point for the process that runs what a config says.

    That is ours: it may become another program, but no other process.

    Args:
        point: The folder of the control point.
        config: Where to record, and as which rank.
        wait: Stop at the first call and wait for an app.

    Raises:
        PertdbgError: A running process sits there, or the place cannot be written.
    """
    rank = int(config.meta.get("rank", 0))
    folder = folder_of(point, rank)
    before = next((seat for seat in seats(point) if seat.rank == rank), None)
    if before is not None and before.alive and before.pid != os.getpid():
        raise PertdbgError(f"rank {rank} at control point {point.name} is process {before.pid}")
    key = secrets.token_hex(16)
    config = replace(config, control=str(folder), key=key, wait=wait, seat=True)
    _place(folder, config, os.getpid())
    return config


def leave_at(config: Config, name: str, pid: int) -> str:
    """Make a control point for a target that has none, so that it can be left.

    Args:
        config: What its agent was told.
        name: What the target is called; the point's name begins with it.
        pid: Its process.

    Returns:
        What a person is to know.

    Raises:
        PertdbgError: There is no place for it.
    """
    free = free_name(name)
    point = claim(free, holds(config, pid))
    _place(folder_of(point, 0), config, pid)
    return runs_on(name, free, [config.recording])


def free_name(wanted: str) -> str:
    """Give a name for a control point that no running target has."""
    stem = re.sub(r"[^A-Za-z0-9._-]+|^[^A-Za-z0-9]+", "", Path(wanted).stem)[:30] or "target"
    taken = {point.name for point in points()}
    numbered = (f"{stem}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([stem], numbered) if name not in taken)


def runs_on(target: str, name: str, recordings: Sequence[str]) -> str:
    """Say that a target runs on, how to come back, and where its records are."""
    places = f"; recorded in {', '.join(recordings)}" if recordings else ""
    return f"{target} runs on; `pertdbg attach {name}` opens it again{places}"


def _place(folder: Path, config: Config, pid: int) -> None:
    meta = config.meta
    seat = Seat(
        pid=pid,
        began=began(pid),
        recording=config.recording,
        control=config.control or "",
        key=config.key,
        target=str(meta.get("target", "")),
        title=str(meta.get("title", "")),
        stdout=config.stdout,
        stderr=config.stderr,
        rank=int(meta.get("rank", 0)),
        world_size=int(meta.get("world_size", 1)),
    )
    try:
        remove(folder)
        folder.mkdir(mode=0o700)
        seat.save(folder)
    except OSError as error:
        raise PertdbgError(f"cannot write {folder}: {error.strerror}") from error


def state_of(point: Point) -> str:
    """Say in words what the target of a control point does."""
    parts = [_seat_state(seat) for seat in point.seats] or ["starting"]
    if len(parts) > 1:
        parts = [f"rank {seat.rank} {part}" for seat, part in zip(point.seats, parts, strict=True)]
    other = point.attached()
    return ", ".join([*parts, *([] if other is None else [f"process {other} is attached"])])


def _seat_state(seat: Seat) -> str:
    if not seat.alive:
        return "has ended"
    try:
        with Recording.open(Path(seat.recording)) as recording:
            calls, meta = recording.head, recording.meta
    except PertdbgError:
        return "starting"
    return f"{meta.state}, {calls} calls" if calls else meta.loading or "starting"


def _publish(folder: Path, made: Holder) -> None:
    """Give a new control point its name, unless that is taken."""
    draft = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        made.save(draft)
        draft.rename(folder)
    finally:
        remove(draft)


def _base(name: str) -> Path:
    """Give the folder for a new control point, made if it is not there.

    Raises:
        PertdbgError: None can be used.
    """
    for base in _bases():
        longest = folder_of(base / name, 999_999) / SOCKET
        if len(os.fsencode(longest)) > _LONGEST:
            continue
        with contextlib.suppress(OSError):
            base.mkdir(mode=0o700, exist_ok=True)
            if _is_safe(base):
                return base
    tried = ", ".join(map(str, _bases()))
    raise PertdbgError(
        f"no folder for control points: tried {tried}; set XDG_RUNTIME_DIR to a short path of "
        "a folder that is yours alone"
    )


def _bases() -> list[Path]:
    """Give the places where control points may be, the one that is preferred first.

    Those that no variable of the environment names come before the temporary folder: whoever
    attaches may have another environment than the job.
    """
    user, given = os.getuid(), os.environ.get("XDG_RUNTIME_DIR", "")
    own = [Path(given)] if given.startswith("/") else []
    shared = [Path("/tmp"), Path(tempfile.gettempdir())]  # noqa: S108 - who owns it is looked at
    places = [base / "pertdbg" for base in [*own, Path(f"/run/user/{user}")]]
    return list(dict.fromkeys([*places, *(base / f"pertdbg-{user}" for base in shared)]))


def _is_safe(base: Path) -> bool:
    """Say whether nobody else can write in a folder, or put another one in its place."""
    try:
        own, above = base.lstat(), base.parent.stat()
    except OSError:
        return False
    private = stat.S_ISDIR(own.st_mode) and own.st_uid == os.getuid() and not own.st_mode & 0o077
    others_write = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
    return private and above.st_uid in (0, os.getuid()) and not others_write
