"""`pertdbg diff`: two recordings, two runs rank by rank, or two ranks of one run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.output.diff import FORMAT, compared, to_json, words
from pertdbg.output.lines import write_lines
from pertdbg.output.ofrank import recording_of, recordings_by_rank


def diff(
    a: Path,
    b: Path | None,
    ranks: Sequence[int] = (),
    *,
    tolerance: float | None = None,
    as_json: bool = False,
) -> int:
    """Compare two recordings, or folders of ranks, and print where they part.

    Args:
        a: A recording, or a folder of ranks.
        b: The other; None to compare two ranks in `a`.
        ranks: Which ranks: of two folders at most one, of one folder the two.
        tolerance: Relative difference up to which real numbers count as the same.
        as_json: Print JSON.

    Returns:
        The exit status: 0 same, 1 they differ.

    Raises:
        PertdbgError: One of them cannot be read, or it is not plain which are meant.
    """
    if b is not None and a.is_dir() and b.is_dir() and not ranks:
        return _rank_by_rank(a, b, tolerance, as_json)
    if b is None:
        if not a.is_dir() or len(ranks) != 2:
            raise PertdbgError(
                "diff takes two recordings, two folders of ranks, or a folder and --rank twice"
            )
        one, other = (recording_of(a, rank) for rank in ranks)
    else:
        if len(ranks) > 1:
            raise PertdbgError("--rank is given twice only with one folder, to compare its ranks")
        rank = ranks[0] if ranks else None
        one, other = (recording_of(path, rank if path.is_dir() else None) for path in (a, b))
    found, same = compared(one, other, tolerance)
    _write([json.dumps(to_json(found, same), indent=2)] if as_json else words(found))
    return 0 if same else 1


def _rank_by_rank(a: Path, b: Path, tolerance: float | None, as_json: bool) -> int:
    one, other = recordings_by_rank(a), recordings_by_rank(b)
    both = [rank for rank in one if rank in other]
    only = [[rank for rank in side if rank not in both] for side in (one, other)]
    results = {rank: compared(one[rank], other[rank], tolerance) for rank in both}
    same = not any(only) and all(is_same for _, is_same in results.values())
    if as_json:
        ranks = [{"rank": rank, **to_json(*found)} for rank, found in results.items()]
        whole: dict[str, Any] = {"format": FORMAT, "same": same, "ranks": ranks}
        whole |= {"only_first_ranks": only[0], "only_second_ranks": only[1]}
        _write([json.dumps(whole, indent=2)])
        return 0 if same else 1

    def lines() -> Iterator[str]:
        for rank, (found, _) in results.items():
            said = list(words(found))
            yield f"rank {rank}: {said[0]}"
            yield from (f"  {line}" for line in said[1:])
        for name, ranks in zip(("first", "second"), only, strict=True):
            if ranks:
                yield f"only in the {name}: rank {', '.join(map(str, ranks))}"

    _write(lines())
    return 0 if same else 1


def _write(lines: Iterable[str]) -> None:
    write_lines(lines, sys.stdout)
