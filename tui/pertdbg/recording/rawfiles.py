"""The pages of a recording's file and of the journal beside it, whatever state they are in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pertdbg.recording.create import PAGE_SIZE

_LOG_HEADER = 32
_FRAME_HEADER = 24
_FRAME = _FRAME_HEADER + PAGE_SIZE
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_RECORD = 4 + PAGE_SIZE + 4
_SHM_MAX_FRAME = slice(16, 20)


class RawFiles:
    """Pages by number, from the file and from its journal, older ones first.

    Args:
        path: The recording.

    Raises:
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():  # opening a pipe would wait for ever
            raise OSError("there is no such file")
        self._stack = contextlib.ExitStack()
        self._main = self._stack.enter_context(path.open("rb"))
        self._size = os.fstat(self._main.fileno()).st_size
        self._journals = [
            (file, at)
            for suffix, places in (("-wal", _frames), ("-journal", _originals))
            if (file := self._beside(path, suffix)) is not None
            for at in [places(file)]
        ]
        self._newest = {
            number: (file, at)
            for file, places in self._journals
            if file.name.endswith("-wal")
            for number, at in places
        }

    def close(self) -> None:
        """Close the files."""
        self._stack.close()

    def page(self, number: int) -> bytes | None:
        """Give the newest page of a number, None where there is none."""
        if number in self._newest:
            file, at = self._newest[number]
            return _read(file, at)
        return _read(self._main, (number - 1) * PAGE_SIZE) if number > 0 else None

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Give every page with its number, also those that a newer one has replaced."""
        for at in range(0, self._size, PAGE_SIZE):
            page = _read(self._main, at)
            if page:
                yield at // PAGE_SIZE + 1, page
        for file, places in self._journals:
            for number, at in places:
                page = _read(file, at)
                if page:
                    yield number, page

    def _beside(self, path: Path, suffix: str) -> BinaryIO | None:
        beside = path.with_name(path.name + suffix)
        return self._stack.enter_context(beside.open("rb")) if beside.is_file() else None


def lost_commits(path: Path) -> int:
    """Count the commits in the log that SQLite leaves out, since something in them is damaged.

    A commit that was being written when the process ended counts only where its last page was.
    """
    log, memory = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    try:
        with log.open("rb") as file:
            read = int.from_bytes(memory.read_bytes()[_SHM_MAX_FRAME], "little")
            file.seek(0)
            salts = file.read(_LOG_HEADER)[16:24]
            return sum(_is_commit(file, at, salts) for at in _places(file, read))
    except OSError:
        return 0


def _is_commit(file: BinaryIO, at: int, salts: bytes) -> bool:
    file.seek(at)
    header = file.read(_FRAME_HEADER)
    return header[8:16] == salts and header[4:8] != bytes(4)


def _places(file: BinaryIO, skip: int = 0) -> range:
    """Give where the frames of a log begin; the last may be cut."""
    size = os.fstat(file.fileno()).st_size
    return range(_LOG_HEADER + skip * _FRAME, size - _FRAME_HEADER, _FRAME)


def _frames(file: BinaryIO) -> list[tuple[int, int]]:
    """Give the number and place of each page in a write-ahead log, damaged ones included.

    The log is written round after round, each with salts of its own. What stands behind the
    frames of the last round is older, so it comes first here.
    """
    header = file.read(_LOG_HEADER)
    found = []
    for at in _places(file):
        file.seek(at)
        frame = file.read(_FRAME_HEADER)
        found.append((frame[8:16], int.from_bytes(frame[:4], "big"), at + _FRAME_HEADER))
    salts = header[16:24]
    if found and all(frame[0] != salts for frame in found):  # the header itself is damaged
        salts = found[0][0]
    found.sort(key=lambda frame: frame[0] == salts)
    return [(number, at) for _, number, at in found]


def _originals(file: BinaryIO) -> list[tuple[int, int]]:
    """Give the number and place of each page in a rollback journal."""
    found = []
    header = file.read(28)
    sector = int.from_bytes(header[20:24], "big")
    if not header.startswith(_JOURNAL_MAGIC) or not 512 <= sector <= 65536:
        sector = 512
    size = os.fstat(file.fileno()).st_size
    for at in range(sector, size - _RECORD + 1, _RECORD):
        file.seek(at)
        found.append((int.from_bytes(file.read(4), "big"), at + 4))
    return found


def _read(file: BinaryIO, at: int) -> bytes | None:
    """Read a page; one that is cut is filled up, since the rows in what is left are sound."""
    file.seek(at)
    page = file.read(PAGE_SIZE)
    return page.ljust(PAGE_SIZE, b"\0") if page else None
