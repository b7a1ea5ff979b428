"""Several recordings as one session: the ranks of a run, of which one is looked at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
"""Most ranks, or files, that are named one by one."""

MOST_RANKS = 1 << 16
"""A number in a file may be anything; no run has more ranks than this."""


@dataclass(frozen=True)
class RankState:
    """What a rank does, or how it ended."""

    rank: int
    state: State
    calls: int
    said: str
    """What it loads, or how it ended."""
    waits_for: tuple[int, ...] = ()
    """Ranks that are stopped, or gone, while this one runs and makes no call."""
    left: float | None = None
    """Seconds, at least, before its collective gives up; None where that is not known."""


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
        if self.recording is None:
            return ""
        meta = self.recording.meta
        size = max(meta.world_size, len(self.members))
        return f"rank {meta.rank} of {size}" if size > 1 else ""

    @property
    def at(self) -> int:
        """Which of the members is looked at."""
        return self._at

    @property
    def lacking(self) -> list[int]:
        """The ranks of the run, as far as its size is known, that have no sound recording here."""
        return _lacking(self.members)

    @property
    def state_here(self) -> RankState:
        """What the rank that is looked at does."""
        return self.states()[self._at] if self.members else rank_state(0, self)

    def states(self) -> list[RankState]:
        """Say what each rank does, or how it ended."""
        return [rank_state(_rank(member), member) for member in self.members]

    def switch(self, to: int | None = None) -> None:
        """Look at a member, or at the next rank: the first after the last."""
        if self.members:
            self._at = (self._at + 1 if to is None else to) % len(self.members)
            self._mirror()

    def take(self, members: Sequence[Session], problems: Iterable[str]) -> None:
        """Take other recordings in, and stay with the rank that is looked at where it is there."""
        here = self.members[self._at] if self.members else None
        self.members = sorted(members, key=_rank)
        self.problems = [*problems, *_of_many_runs(self.members), *_missing(self.members)]
        self._at = self.members.index(here) if here in self.members else 0
        self._mirror()

    async def start(self) -> None:
        """Begin to watch the files, where they are followed."""
        if self.state is not State.REPLAY:
            self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Let go of all recordings."""
        await self._end_tasks(*([] if self._watching is None else [self._watching]))
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
        metas = self._seen.metas(recordings_in(folder))
        paths = newest_run(metas)
        known = {m.recording.path: m for m in self.members if m.recording is not None}
        if not paths or set(paths) <= set(known):
            return
        kept = [known[path] for path in paths if path in known]
        members, problems = _opened([p for p in paths if p not in known], FollowSession)
        for path, member in known.items():
            if path not in paths and member.recording is not None:
                member.recording.close()
        self.take([*kept, *members], [*problems, *_left_out(metas, paths)])

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


def rank_state(rank: int, member: Session) -> RankState:
    """Say what a rank does, by its session alone."""
    recording, said = member.recording, member.loading
    if member.ended is not None:
        said = member.ended.text
    elif member.state is State.REPLAY and recording is not None:
        said = recording.meta.exit_text or ""
    return RankState(rank, member.state, 0 if recording is None else recording.head, said)


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
        problems += others
    session = RankSession(paths[0].name or str(paths[0]))
    session.take(members, problems)
    return session


def run_in(folder: Path) -> tuple[dict[int, Path], list[str]]:
    """Give the recordings of the newest run in a folder by their ranks, and what is wrong."""
    members, problems = _opened(recordings_in(folder), Session.open)
    members, others = _of_newest_run(members)
    found = {}
    for member in members:
        if member.recording is not None:
            found[member.recording.meta.rank] = member.recording.path
            member.recording.close()
    return found, [*problems, *others, *_missing(members)]


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


def _of_newest_run(members: list[Session]) -> tuple[list[Session], list[str]]:
    by_path = {m.recording.path: m for m in members if m.recording is not None}
    metas = {path: m.recording.meta for path, m in by_path.items() if m.recording is not None}
    chosen = newest_run(metas)
    for path, member in by_path.items():
        if path not in chosen and member.recording is not None:
            member.recording.close()
    return [by_path[path] for path in chosen], _left_out(metas, chosen)


def _left_out(metas: dict[Path, Meta], chosen: list[Path]) -> list[str]:
    """Say which recordings of a folder are not shown, in a line for each reason."""
    others = [path for path in metas if path not in chosen]
    run = metas[chosen[0]] if chosen else None
    older = [path for path in others if run is not None and _same_run(run, metas[path])]
    rest = [path for path in others if path not in older]
    found = []
    if rest:
        found.append(f"of other runs, so left out: {_names(path.name for path in rest)}")
    if older:
        found.append(f"older ones of the same ranks, left out: {_names(p.name for p in older)}")
    return found


def _of_many_runs(members: Sequence[Session]) -> list[str]:
    """Say where recordings that a person named are not of one run."""
    metas = [member.recording.meta for member in members if member.recording is not None]
    runs: list[Meta] = []
    for meta in metas:
        if not any(_same_run(run, meta) for run in runs):
            runs.append(meta)
    if len(runs) < 2:
        return []
    return [
        f"these recordings are of {len(runs)} different runs: their ranks do not belong together"
    ]


def _names(names: Iterable[str]) -> str:
    """Name some, and count the others."""
    listed = list(names)
    more = f" and {len(listed) - _NAMED:,} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more


def _opened(
    paths: Iterable[Path], opened: Callable[[Path], Session]
) -> tuple[list[Session], list[str]]:
    members: list[Session] = []
    problems: list[str] = []
    for path in paths:
        try:
            members.append(opened(path))
        except PertdbgError as error:
            problems.append(str(error))
    more = len(problems) - _NAMED
    if more > 0:
        problems[_NAMED:] = [f"and {more:,} more recordings cannot be read"]
    return members, problems


def _rank(member: Session) -> int:
    return 0 if member.recording is None else member.recording.meta.rank


def _lacking(members: Sequence[Session]) -> list[int]:
    metas = [member.recording.meta for member in members if member.recording is not None]
    size = min(max((meta.world_size for meta in metas), default=0), MOST_RANKS)
    there = {meta.rank for meta in metas}
    return [rank for rank in range(size) if rank not in there]


def _missing(members: Sequence[Session]) -> list[str]:
    lacking = _lacking(members)
    if not lacking:
        return []
    size = len(lacking) + len({_rank(member) for member in members})
    return [f"of {size:,} ranks there is no sound recording of rank {_names(map(str, lacking))}"]


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
