"""`pertdbg adapters TARGET`: which adapters matched, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.recording.adapters import Match
from pertdbg.recording.reader import Recording

_BEFORE = "Read from the text of {file}, without running it or what it imports:"
_AFTER = "As it ran:"


def of_target(target: Path, own: Sequence[Path] = ()) -> Iterator[str]:
    """Say which adapters match a script or matched in a recording.

    Args:
        target: A script, which is only read, or a recording.
        own: A person's own adapter files, for a script.

    Raises:
        PertdbgError: It is neither, or says nothing of adapters.
    """
    if target.suffix == ".pertdbg":
        with Recording.open(target) as recording:
            found = recording.adapters
        if not found:
            raise PertdbgError(
                f"{target}: does not say which adapters matched: it is of a scenario, or its "
                "target was killed, or still runs"
            )
        return _lines(_AFTER, found)
    from pertdbg.adapters import adapters
    from pertdbg.adapters.matches import matches

    read = matches(target, adapters(own))
    told = [Match(e["adapter"], tuple(e["matched"]), e["why_not"] or "") for e in read]
    return _lines(_BEFORE.format(file=target), told)


def _lines(title: str, found: Sequence[Match]) -> Iterator[str]:
    yield printable(title)
    width = max(len(printable(match.adapter)) for match in found)
    for match in sorted(found, key=lambda match: not match.matched):
        what = f"matched {', '.join(match.matched)}" if match.matched else match.why_not
        yield printable(f"  {match.adapter:{width}}  {what}")
