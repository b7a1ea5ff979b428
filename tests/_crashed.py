"""Recordings whose writer was killed, and what can be seen of them after they were damaged."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import _records
from pertdbg.errors import PertdbgError
from pertdbg.output.text import describe
from pertdbg.record import CallRecord
from pertdbg.recording import HeatMap, LayerSource
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.salvage import salvage
from pertdbg.recording.series import series
from pertdbg.recording.timeline import timeline
from pertdbg.recording.verify import verify

HERE = Path(__file__).parent
LAYER = LayerSource("encoder.pert", "L", "/x.py", 3, "def update(self): ...\n")

WRITE = """
import os, sys
from pathlib import Path
import _crashed
from pertdbg.recording import create
create.CHECKPOINT_PAGES = 300
if sys.argv[2] == "rollback":
    create.on_network_disk = lambda path: True
_crashed.write(Path(sys.argv[1]), int(sys.argv[3]))
os.kill(os.getpid(), 9)
"""


def tensor_bytes(ident: int) -> bytes:
    """The values of the tensor of a record: float32, 20 x 500, all of them its id and a bit."""
    return struct.pack("<2f", ident, ident + 0.5) * 5000


def write(path: Path, count: int) -> None:
    """Record some calls and leave the file as it is."""
    from pertdbg.recording.writer import Recorder

    recorder = Recorder(path, {"title": "a title", "rank": 2}, tensors="every:50")
    recorder.add_layer(LAYER)
    recorder.state(state="running")
    for ident in range(1, count + 1):
        picture = HeatMap(4, 4, struct.pack("<16f", *[ident] * 16), 4, 4)
        recorder.write(_records.healthy(ident), picture if ident % 10 == 0 else None)
        recorder.output("stdout", ident, b"line %d\n" % ident)
        if recorder.wants_tensors("encoder.pert", ident):
            recorder.tensor(ident, "delta", "float32", (20, 500), tensor_bytes(ident))
    if path.with_name(path.name + "-journal").exists():  # so that the journal is hot
        connection: Any = recorder._connection
        connection.execute("PRAGMA cache_size=2")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE call SET gradient_norm = 1e9")
    recorder.forget()


def crashed(folder: Path, journal: str, count: int) -> dict[str, bytes]:
    """Make a recording, kill its writer and give the files that are left."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-c", WRITE, str(folder / "a.pertdbg"), journal, str(count)],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@dataclass
class Seen:
    """What a reader gets of a recording."""

    records: set[int]
    wrong: list[str]
    seconds: float


def look(path: Path, count: int) -> Seen:
    """Open a recording, look at everything in it, and hold it against what was written."""
    began = time.monotonic()
    seen = Seen(set(), [], 0.0)
    with suppress(PertdbgError), Recording.open(path) as recording:
        _look_at_all(recording, count, seen)
    seen.seconds = time.monotonic() - began
    return seen


def _look_at_all(recording: Recording, count: int, seen: Seen) -> None:
    if recording.head > count:
        seen.wrong.append(f"head {recording.head}")
    for found in recording.scan():
        if not isinstance(found, DamagedRecord):
            seen.records.add(found.id)
            if named(found) != _records.healthy(found.id):
                seen.wrong.append(f"record {found.id}")
    if seen.records:
        with suppress(PertdbgError):
            describe(recording.record(max(seen.records)))
    with suppress(PertdbgError):
        seen.wrong += [f"layer {k}" for k in recording.layers if _is_other(k)]
    for ident in range(1, recording.head + 1, 7):
        with suppress(PertdbgError):
            picture = recording.picture(ident)
            if picture is not None and set(picture.values()) != {float(ident)}:
                seen.wrong.append(f"picture {ident}")
    _look_at_sums(recording, seen)
    _look_at_tensors(recording, seen)
    with suppress(PertdbgError):
        lines = set(recording.output("stdout").split(b"\n")[1:]) - {b"[damaged]", b""}
        seen.wrong += [str(line) for line in lines - {b"line %d" % k for k in range(1, count + 1)}]
    meta = recording.meta
    if meta.title not in ("", "a title") or meta.rank not in (0, 2):
        seen.wrong.append("meta")


def named(record: CallRecord) -> CallRecord:
    """Put the layer's name back where the record says itself that it is lost."""
    lost = record.layer == "layer 1 (name lost)"
    return replace(record, layer=LAYER.name) if lost else record


def _is_other(layer: LayerSource) -> bool:
    return layer not in (LAYER, LayerSource("layer 1 (name lost)"))


def _look_at_sums(recording: Recording, seen: Seen) -> None:
    with suppress(PertdbgError):
        found = series(recording, "delta.max_abs", 1, recording.head, 20)
        edges = [*found.first, found.last + 1]
        for lo, hi, a, b in zip(edges, edges[1:], found.low, found.high, strict=False):
            # delta.max_abs grows from call to call in these records
            least, most = (_records.healthy(k).delta.max_abs or 0 for k in (lo, hi - 1))
            if a < least or b > most:
                seen.wrong.append(f"sum {lo} to {hi - 1}")
    with suppress(PertdbgError):
        for k, marks in enumerate(timeline(recording, 1, recording.head, 20)):
            if marks - ({"created", "beyond"} if k == 0 else set()):
                seen.wrong.append(f"marks of cell {k}: {marks}")
    with suppress(PertdbgError):
        if recording.next_mark(2, ["created", "nan"]) is not None:
            seen.wrong.append("next mark")


def _look_at_tensors(recording: Recording, seen: Seen) -> None:
    for ident in range(1, recording.head + 1, 50):
        with suppress(PertdbgError):
            tensor = recording.tensor(ident, "delta")
            if tensor is not None and b"".join(tensor.data()) != tensor_bytes(ident):
                seen.wrong.append(f"tensor {ident}")


@dataclass
class Trial:
    """What was seen of a damaged recording, opened and salvaged."""

    opened: Seen
    salvaged: Seen
    report: str
    """What `verify` says in a word."""

    @property
    def wrong(self) -> list[str]:
        return self.opened.wrong + self.salvaged.wrong


def trial(folder: Path, files: dict[str, bytes], count: int) -> Trial:
    """Lay damaged files into an empty folder and look at what can be had of them."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    path, saved = folder / "a.pertdbg", folder / "saved.pertdbg"
    opened = look(path, count)
    try:
        report = "sound" if verify(path).sound else "damaged"
    except PertdbgError:
        report = "not readable"
    with suppress(PertdbgError):
        salvage(path, saved)
    salvaged = look(saved, count)
    for file in folder.iterdir():
        file.unlink()
    return Trial(opened, salvaged, report)


def there(files: dict[str, bytes], count: int) -> set[int]:
    """The records of which the bytes are still in the files, found by their addresses."""
    everything = b"".join(files.values())
    found = set()
    for ident in range(1, count + 1):
        storages = _records.healthy(ident).storages.values()
        if struct.pack(f"<{len(storages)}Q", *(s.address or 0 for s in storages)) in everything:
            found.add(ident)
    return found
