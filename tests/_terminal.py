"""A real terminal: the program on a pseudo-terminal, its screen read through an emulator."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import pyte

KEYS = {
    "home": "\x1b[H",
    "end": "\x1b[F",
    "ctrl+u": "\x15",
    "escape": "\x1b",
    "enter": "\r",
    "ctrl+c": "\x03",
    "ctrl+p": "\x10",
    "tab": "\t",
}


def _without_size() -> dict[str, str]:
    """The environment without the variables that would rule over the terminal's own size."""
    return {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}


class Terminal:
    """``pertdbg ARGUMENTS`` on a terminal of the given size."""

    def __init__(
        self, *arguments: str, size: tuple[int, int] = (120, 40), env: Mapping[str, str] = {}
    ) -> None:
        columns, lines = size
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._temporary = tempfile.mkdtemp(prefix="t-")  # what a killed app leaves goes with it
        settings = {
            "TERM": "xterm-256color",
            "TEXTUAL_ANIMATIONS": "none",
            "TMPDIR": self._temporary,
            **env,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pertdbg", *arguments],
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**_without_size(), **settings},
        )
        os.close(child)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._parent)
        shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self._parent, KEYS.get(key, key).encode())

    def wait_for(self, wanted: str | Callable[[str], bool], seconds: float = 120) -> str:
        """Read until the screen shows a text, or a condition on it holds."""
        holds = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        deadline = time.monotonic() + seconds
        while not holds(self.text):
            assert time.monotonic() < deadline, f"never saw {wanted!r}:\n{self.text}"
            if not self._read(0.1) and self.process.poll() is not None and not self._read(0.2):
                assert holds(self.text), f"ended without {wanted!r}:\n{self.text}"
        return self.text

    def settle(self, quiet: float = 0.3) -> str:
        """Read until nothing more comes, or only a cursor blinks."""
        deadline = time.monotonic() + 3
        while self._read(quiet) and time.monotonic() < deadline:
            pass
        return self.text

    def end(self, seconds: float = 120) -> int:
        """Read on until the program has ended; gives its exit status."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still runs:\n{self.text}"
            self._read(0.05)
        self._read(0.05)
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        if not select.select([self._parent], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._parent, 65536)
        except OSError:  # Linux says so when the last one on the other side has gone
            return False
        self._stream.feed(data)
        return bool(data)
