"""Running targets with a control point: scripts, a folder for the points, and waiting."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

from _scripts import LAYER, PERTDBG
from _wait import SECONDS
from pertdbg.recording.reader import Recording
from pertdbg.session import Ended, Event, Session, Stopped, TargetEnded

LOOP = f"""{LAYER}
import hashlib, sys, time
layer, weight = Layer(), torch.ones(4)
hidden = torch.ones(2, 4)
for step in range(int(sys.argv[1])):
    (layer(hidden) * weight).square().sum().backward()
    weight = weight - 1e-3 * layer.delta.grad.sum(0)
    layer.update_delta(True)
    time.sleep(float(sys.argv[2]))
print("hash", hashlib.sha256(weight.numpy().tobytes()).hexdigest())
"""
"""A training whose result depends on each gradient; it takes the time that it is told to."""


@contextlib.contextmanager
def runtime() -> Iterator[Path]:
    """Give a folder for control points, short enough for a socket, which goes afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="rt-"))
    try:
        with mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(folder)}):
            yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def started(
    folder: Path, *words: str, env: Mapping[str, str] = {}
) -> Iterator[subprocess.Popen[str]]:
    """Run ``pertdbg WORDS``; it is ended where a test leaves it running."""
    process = subprocess.Popen(
        [str(PERTDBG), *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def plain(source: str, *words: str) -> str:
    """Run a script's source in this process, where nothing watches it; gives what it prints."""
    said = io.StringIO()
    with mock.patch.object(sys, "argv", ["train.py", *words]), contextlib.redirect_stdout(said):
        exec(compile(source, "train.py", "exec"), {"__name__": "__main__"})
    return said.getvalue()


def pertdbg(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``pertdbg WORDS`` to its end, without a terminal."""
    return subprocess.run(
        [str(PERTDBG), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def head(path: Path) -> int:
    """Count the calls that a recording holds; none where there is none yet."""
    if not path.exists():
        return 0
    with Recording.open(path) as recording:
        return recording.head


async def stop(session: Session) -> int:
    """Wait for the next stop; gives the call's id."""
    event = await asyncio.wait_for(_next(session, (Stopped, TargetEnded)), SECONDS)
    assert isinstance(event, Stopped), event
    return event.id


async def end(session: Session) -> Ended:
    """Wait for the target's end."""
    event = await asyncio.wait_for(_next(session, (TargetEnded,)), SECONDS)
    assert isinstance(event, TargetEnded)
    return event.ended


async def _next(session: Session, kinds: tuple[type, ...]) -> Event:
    async for event in session.events():
        if isinstance(event, kinds):
            return event
    raise AssertionError("the session closed")
