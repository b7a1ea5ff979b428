"""What must be said of a recording before anything in it is shown."""

from __future__ import annotations

import time

from pertdbg.recording.budget import words
from pertdbg.recording.meta import Meta
from pertdbg.recording.rawfiles import lost_commits
from pertdbg.recording.safeopen import DamagedRecording, Source

_MOMENT = 0.05
"""Seconds after which a commit that a writer was making is made."""


def notices(source: Source, meta: Meta, last: int) -> list[str]:
    """Say what is known to be wrong with a recording as a whole.

    Args:
        source: The recording.
        meta: What it says of itself.
        last: Id of the last record that is there.
    """
    said = log_damage(source) or _unfinished(source)
    if meta.calls > last:
        said.append(f"the last {meta.calls - last} of {meta.calls} records are missing")
    if meta.salvaged:
        said.append(f"made of a damaged recording: {meta.salvaged}")
    if meta.damaged:
        said.append(f"what it says of itself is damaged: {', '.join(meta.damaged[:10])}")
    if meta.tensors_dropped:
        budget = f" of {words(meta.tensor_budget)}" if meta.tensor_budget > 0 else ""
        calls = f"{meta.tensors_dropped:,} call{'' if meta.tensors_dropped == 1 else 's'}"
        said.append(f"the tensors of {calls} were dropped to stay within the budget{budget}")
    if meta.tensors_left_out:
        said.append(f"{meta.tensors_left_out} tensors were left out: the budget was used up")
    return said


def log_damage(source: Source) -> list[str]:
    """Say whether damage in the journal hides what stands behind it."""
    try:
        source.query("SELECT count(*) FROM layer")  # so that SQLite has looked through the log
    except DamagedRecording as error:
        return [str(error)]
    lost = _left_out(source)
    if lost < 2:
        return []
    name = source.path.name
    return [
        f"{name}-wal is damaged: {lost} commits behind the damage are not read, but can be saved"
    ]


def _unfinished(source: Source) -> list[str]:
    """Say whether the journal ends with a commit that is not whole.

    SQLite writes the head of a page before the page: what a kill leaves in between looks like
    damage of the last page.
    """
    if _left_out(source) != 1:
        return []
    return [
        f"{source.path.name}-wal ends with a commit that is not whole: it was being written when "
        "the program ended, or is damaged"
    ]


def _left_out(source: Source) -> int:
    """Count the commits in the journal that SQLite leaves out."""
    lost = lost_commits(source.file)
    if lost:
        time.sleep(_MOMENT)  # else it may be one that is being written at this moment
        lost = min(lost, lost_commits(source.file))
    return lost
