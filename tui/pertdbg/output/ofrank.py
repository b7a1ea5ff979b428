"""Which recording of a folder of ranks a person means."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.output.lines import write_lines
from pertdbg.output.safe import printable
from pertdbg.ranks import run_in
from pertdbg.recording.reader import Recording

_LISTED = 16
"""Most ranks that are listed."""


def recording_of(
    path: Path, rank: int | None, *, call: int | None = None, layer: str | None = None
) -> Path:
    """Give the recording of a rank: the path itself where it is a file.

    Args:
        path: A recording or a folder of them.
        rank: The rank; needed where several ranks have what is asked for.
        call: Number of a call that it must have, if given.
        layer: Name of the layer of that call.

    Raises:
        PertdbgError: There is no such rank, or several may be meant.
    """
    if not path.is_dir():
        if rank is not None:
            _check_rank(path, rank)
        return path
    ranks = recordings_by_rank(path)
    if rank is not None:
        if rank not in ranks:
            raise PertdbgError(f"{path} has no sound recording of rank {rank}; {_there(ranks)}")
        return ranks[rank]
    if len(ranks) > 1 and call is not None:
        ranks = {k: file for k, file in ranks.items() if _has(file, call, layer)} or ranks
    if len(ranks) > 1:
        what = "ranks" if call is None else f"ranks with a call {call}"
        raise PertdbgError(f"{path} holds {len(ranks)} {what}: add --rank; {_there(ranks)}")
    return next(iter(ranks.values()))


def recordings_by_rank(folder: Path) -> Mapping[int, Path]:
    """Give the recordings of the newest run in a folder; what is wrong goes to stderr.

    Raises:
        PertdbgError: None can be read.
    """
    ranks, problems = run_in(folder)
    if not ranks:
        raise PertdbgError(problems[0] if problems else f"there is no recording in {folder}")
    write_lines((f"pertdbg: {printable(text)}" for text in problems), sys.stderr)
    return ranks


def _there(ranks: Mapping[int, Path]) -> str:
    listed = ", ".join(map(str, list(ranks)[:_LISTED]))
    more = f" and {len(ranks) - _LISTED} more" if len(ranks) > _LISTED else ""
    return f"there are {listed}{more}"


def _check_rank(path: Path, rank: int) -> None:
    with Recording.open(path) as recording:
        own = recording.meta.rank
    if rank != own:
        raise PertdbgError(f"{path} is of rank {own}, not of rank {rank}")


def _has(path: Path, call: int, layer: str | None) -> bool:
    with Recording.open(path) as recording:
        return bool(recording.find(call=call, layer=layer))
