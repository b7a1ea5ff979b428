"""Several recordings as one session: the ranks of a run, of which one is looked at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.follow import POLL, FollowSession, recordings_in
from pertdbg.recording.meta import Meta
from pertdbg.recording.reader import Recording
from pertdbg.session import Loading, Running, Session, State, TargetEnded

_TOGETHER = 600e9
"""Nanoseconds within which the ranks of one run begin, where they have no name in common."""

_LOOK = 0.5
"""Seconds between two looks at a folder for recordings that came."""

_NAMED = 8
"""Most ranks that are named one by one."""


class RankSession(Session):
    """The recordings of a run. What the session shows is that of one of them: `switch`."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        """Prepare a session without ranks.

        Args:
            name: What the session is called.
            folder: Where recordings come that are to be followed.
        """
        super().__init__(name)
        self.members: list[Session] = []
        self.problems: list[str] = []
        """What is missing or cannot be read."""
        self._at = 0
        self._folder = folder
        self._seen = _Seen()
        self._look_after = 0.0
        self._watching: asyncio.Task[None] | None = None
        if folder is not None:
            self.loading = f"waiting for a recording in {folder}"
            self.poll()

    @property
    def live(self) -> bool:
        """No: each rank belongs to somebody else."""
        return False

    @property
    def elapsed(self) -> float:
        """Seconds that the rank's target has run."""
        return self.members[self._at].elapsed if self.members else super().elapsed

    @property
    def label(self) -> str:
        """Name of the rank that is looked at; empty where there is but one recording."""
        if self.recording is None or len(self.members) + len(self.problems) < 2:
            return ""
        meta = self.recording.meta
        return f"rank {meta.rank} of {max(meta.world_size, len(self.members))}"

    def switch(self, by: int = 1) -> None:
        """Look at the next rank (or one further on), the first after the last."""
        if self.members:
            self._at = (self._at + by) % len(self.members)
            self._mirror()

    def take(self, members: Sequence[Session], problems: Iterable[str]) -> None:
        """Take other recordings in, and stay with the rank that is looked at where it is there."""
        here = self.members[self._at] if self.members else None
        self.members = sorted(members, key=_rank)
        self.problems = [*problems, *_missing(self.members)]
        self._at = self.members.index(here) if here in self.members else 0
        self._mirror()

    async def start(self) -> None:
        """Begin to watch the files, where they are followed."""
        if self.state is not State.REPLAY:
            self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Let go of all recordings."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._events.put_nowait(None)
        for member in self.members:
            await member.close()
        self.recording = None

    def poll(self) -> None:
        """Look at the folder and the files once."""
        now = time.monotonic()
        if self._folder is not None and now >= self._look_after:
            self._look_after = now + _LOOK
            self._look(self._folder)
        for member in self.members:
            if isinstance(member, FollowSession):
                member.poll()
        self._mirror()

    async def _watch(self) -> None:
        while True:
            self.poll()
            await asyncio.sleep(POLL)

    def _look(self, folder: Path) -> None:
        """Follow the newest run in the folder, with all its ranks."""
        paths = newest_run(self._seen.metas(recordings_in(folder)))
        known = {m.recording.path: m for m in self.members if m.recording is not None}
        if not paths or set(paths) <= set(known):
            return
        kept = [known[path] for path in paths if path in known]
        members, problems = _opened([p for p in paths if p not in known], FollowSession)
        for path, member in known.items():
            if path not in paths and member.recording is not None:
                member.recording.close()
        self.take([*kept, *members], problems)

    def _mirror(self) -> None:
        """Show what the chosen rank does."""
        if not self.members:
            return
        member = self.members[self._at]
        before = (self.recording, self.state, self.loading, self.ended)
        self.recording, self.state, self.loading = member.recording, member.state, member.loading
        self.ended, self.title, self.about = member.ended, member.title, member.about
        self.target_name = member.target_name
        if before == (self.recording, self.state, self.loading, self.ended):
            return
        if self.ended is not None:
            self._events.put_nowait(TargetEnded(self.ended))
        elif self.state is not State.REPLAY:
            running = self.state is State.RUNNING
            self._events.put_nowait(Running() if running else Loading(self.loading))


def open_ranks(paths: Sequence[Path]) -> Session:
    """Open several recordings, or a folder of them, as one session.

    Of a folder, the newest run is opened. What is missing or cannot be read is named in
    `RankSession.problems`; the rest opens.

    Raises:
        PertdbgError: None can be read.
    """
    files = [file for path in paths for file in (recordings_in(path) if path.is_dir() else [path])]
    if not files:
        raise PertdbgError(f"there is no recording in {paths[0]}" if paths else "no recording")
    members, problems = _opened(files, Session.open)
    if not members:
        raise PertdbgError(problems[0])
    if any(path.is_dir() for path in paths):
        members, others = _of_newest_run(members)
        problems += [f"{other} belongs to another run: left out" for other in others]
    session = RankSession(paths[0].name or str(paths[0]))
    session.take(members, problems)
    return session


def follow(path: Path) -> Session:
    """Follow a recording that another process writes, or the newest run in a folder.

    Raises:
        PertdbgError: The file can't be read, or is no recording.
    """
    return RankSession(path.name or str(path), path) if path.is_dir() else FollowSession(path)


def counterpart(recording: Recording, layer: str, call: int) -> int:
    """Give the record of the same call in another rank, or the one nearest to it; 0 for none."""
    found = recording.find(call=call, layer=layer) or recording.find(call=call)
    return found[0] if found else min(call, recording.head)


def newest_run(metas: dict[Path, Meta]) -> list[Path]:
    """Give the recordings of the run that was begun last, by rank."""
    newest_first = sorted(metas, key=lambda path: metas[path].created_ns, reverse=True)
    ranks: dict[int, Path] = {}
    for path in newest_first:
        if _same_run(metas[newest_first[0]], metas[path]):
            ranks.setdefault(metas[path].rank, path)
    return [ranks[rank] for rank in sorted(ranks)]


def _same_run(one: Meta, other: Meta) -> bool:
    if one.uuid == other.uuid:
        return True
    together = abs(one.created_ns - other.created_ns) < _TOGETHER
    size = one.world_size
    return size > 1 and size == other.world_size and one.target == other.target and together


def _of_newest_run(members: list[Session]) -> tuple[list[Session], list[Path]]:
    by_path = {m.recording.path: m for m in members if m.recording is not None}
    chosen = newest_run({p: m.recording.meta for p, m in by_path.items() if m.recording})
    for path, member in by_path.items():
        if path not in chosen and member.recording is not None:
            member.recording.close()
    return [by_path[path] for path in chosen], [path for path in by_path if path not in chosen]


def _opened(
    paths: Iterable[Path], opened: Callable[[Path], Session]
) -> tuple[list[Session], list[str]]:
    members, problems = [], []
    for path in paths:
        try:
            members.append(opened(path))
        except PertdbgError as error:
            problems.append(str(error))
    return members, problems


def _rank(member: Session) -> int:
    return 0 if member.recording is None else member.recording.meta.rank


def _missing(members: list[Session]) -> list[str]:
    metas = [member.recording.meta for member in members if member.recording is not None]
    # A number in a file may be anything; no run has more ranks than this.
    size = min(max((meta.world_size for meta in metas), default=0), 1 << 20)
    lacking = size - len({meta.rank for meta in metas} & set(range(size)))
    if lacking <= 0:
        return []
    there = {meta.rank for meta in metas}
    some = [str(rank) for rank in range(size) if rank not in there][:_NAMED]
    more = f" and {lacking - len(some)} more" if lacking > len(some) else ""
    return [f"of {size} ranks there is no sound recording of rank {', '.join(some)}{more}"]


class _Seen:
    """What recordings in a folder say of themselves, read once of each file."""

    def __init__(self) -> None:
        self._metas: dict[tuple[Path, int], Meta] = {}

    def metas(self, paths: Iterable[Path]) -> dict[Path, Meta]:
        """Give that of the ones that can be read."""
        found = {}
        for path in paths:
            try:
                key = (path, path.stat().st_ino)
                if key not in self._metas:
                    with Recording.open(path) as recording:
                        self._metas[key] = recording.meta
                found[path] = self._metas[key]
            except (PertdbgError, OSError):  # gone again, half made, or none
                continue
        return found
