"""Writes a file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pertdbg.errors import PertdbgError


def write_file(output: Path, pieces: Iterable[bytes], *, recordings: Sequence[Path]) -> None:
    """Write beside the target and move it there, so that a failure leaves nothing half done.

    Args:
        output: The file to make or replace.
        pieces: What to write.
        recordings: Where it comes from, which must not be replaced.

    Raises:
        PertdbgError: The file is one of the recordings, or cannot be written.
    """
    if output.exists() and any(map(output.samefile, recordings)):
        raise PertdbgError(f"{output} is the recording itself: choose another name")
    draft = output.with_name(f".{output.name}.{os.getpid()}.new")
    try:
        with draft.open("wb") as stream:
            stream.writelines(pieces)
        draft.replace(output)
    except OSError as error:
        raise PertdbgError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
