"""`pertdbg verify`, `salvage` and `pack`: what becomes of the file itself."""

from __future__ import annotations

import sys
from pathlib import Path

from pertdbg.output.lines import write_lines
from pertdbg.output.safe import printable
from pertdbg.output.words import several
from pertdbg.recording.onefile import pack_recording
from pertdbg.recording.salvage import Salvaged
from pertdbg.recording.salvage import salvage as make_salvaged
from pertdbg.recording.verify import verify as look_through

LISTED = 10
"""Most gaps that are named."""


def verify(file: Path) -> int:
    """Check a whole recording and print what was found.

    Returns:
        The exit status: 0 sound, 1 damaged.

    Raises:
        PertdbgError: It is not a recording that can be read (exit status 2).
    """
    found = look_through(file)
    said = f"{several(found.calls, 'call')}, {several(found.tensors, 'stored tensor')}"
    if found.sound:
        end = "closed" if found.finished else "not closed: being written, or ended by a crash"
        write_lines([f"{file}: sound ({said}; {end})"], sys.stdout)
        return 0
    lines = [f"{file}: damaged ({said}); `pertdbg salvage` makes a new file of what is sound"]
    write_lines([*lines, *(f"  {printable(damage)}" for damage in found.damages)], sys.stdout)
    return 1


def salvage(file: Path, output: Path) -> int:
    """Make a new recording of what is sound in a damaged one, and print what is missing.

    Returns:
        The exit status: 0 nothing that is known of is missing, 1 something is.

    Raises:
        PertdbgError: There is nothing to save, or the new file cannot be made.
    """
    found = make_salvaged(file, output)
    lines = [f"{output}: {found.calls} of {several(found.last, 'call')} saved"]
    write_lines([*lines, *(f"  {line}" for line in _missing(found))], sys.stdout)
    return 0 if found.whole else 1


def pack(file: Path, output: Path, *, tensors: bool = True) -> None:
    """Make one compact file of a recording in any state, and print its size.

    Args:
        file: The recording.
        output: The file to make.
        tensors: Whether to keep stored tensors.

    Raises:
        PertdbgError: The recording is damaged or cannot be read, or the file cannot be made.
    """
    pack_recording(file, output, tensors=tensors)
    write_lines([f"{output}: {output.stat().st_size:,} bytes"], sys.stdout)


def _missing(found: Salvaged) -> list[str]:
    lines = [
        f"lost: record {first}" if first == last else f"lost: records {first} to {last}"
        for first, last in found.lost[:LISTED]
    ]
    if len(found.lost) > LISTED:
        lines.append(f"... and {len(found.lost) - LISTED} more gaps")
    if found.broken:
        lines.append(
            f"{several(found.broken, 'record')} cannot be shown: a part they share is lost"
        )
    if found.layers:
        lines.append(f"{several(found.layers, 'name')} and sources of layers are lost")
    if found.tensors:
        lines.append(f"{several(found.tensors, 'stored tensor')} not whole, left out")
    if found.settings:
        lines.append("some of what the recording says of itself is lost")
    return lines
