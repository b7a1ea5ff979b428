"""A recording of a million calls: opening it, going about in it, and the memory that takes."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from _records import healthy
from bench.timing import report
from pertdbg.record import CallRecord, GradientFacts
from pertdbg.recording.columns import PLOTTABLE
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import series
from pertdbg.recording.timeline import timeline
from pertdbg.recording.writer import Recorder

CALLS = int(os.environ.get("PERTDBG_BENCH_CALLS", 1_000_000))
NAN_EVERY = 100_003
"""Far apart, so that the next one is far to seek."""

CELLS = 200
ROUNDS = 9

MEMORY = """
import sys
from pathlib import Path
from random import Random
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import series
from pertdbg.recording.timeline import timeline
def memory():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

recording = Recording.open(Path(sys.argv[1]))
random = Random(1)
before = memory()
for k in range(int(sys.argv[2])):
    recording.record(random.randint(1, recording.head))
    if k % 20 == 0:
        lo = random.randint(1, recording.head)
        hi = min(lo + 10 ** random.randint(1, 6), recording.head)
        series(recording, "gradient.norm", lo, hi, 200)
        timeline(recording, lo, hi, 200)
        recording.next_mark(lo, ["nan"])
        if k == 1000:
            before = memory()
after = memory()
print(after / 1024, (after - before) / 1024)
"""


def main() -> None:
    """Make the recording and print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.pertdbg"
        _make(path)
        report("opening it", _median(lambda: Recording.open(path).close()) * 1e3, "ms", 300)
        with Recording.open(path) as recording:
            _walk(recording)
            _plot(recording)
        _remember(path)


def _make(path: Path) -> None:
    pattern = [healthy(k) for k in range(2, 258)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown, began = 0, time.perf_counter()
    recorder = Recorder(path, {"target": "bench"})
    for ident in range(1, CALLS + 1):
        recorder.write(_record(pattern[ident % 256], ident))
        if ident == min(50_000, CALLS // 2):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    recorder.close()
    seconds = time.perf_counter() - began
    print(f"{CALLS:,} calls in {seconds:.0f} s, {path.stat().st_size / 1e6:.0f} MB")
    report("memory that recording the last 95 % takes", grown / 1024, "MB", 10)
    report("bytes of a call without tensors", path.stat().st_size / CALLS, "bytes", 800)


def _record(like: CallRecord, ident: int) -> CallRecord:
    if ident % NAN_EVERY == 0:
        gradient = GradientFacts(present=True, norm=float("nan"), nan=7)
        return replace(like, id=ident, call=ident, step=ident - 1, gradient=gradient)
    return replace(like, id=ident, call=ident, step=ident - 1, time=ident * 1e-3)


def _walk(recording: Recording) -> None:
    random = Random(1)

    def anywhere() -> int:
        return random.randint(1, CALLS)

    report("any call", _median(lambda: recording.record(anywhere()), 2001) * 1e3, "ms", 1)
    wanted = ["nan"]
    report(
        "the next NaN",
        _median(lambda: recording.next_mark(anywhere(), wanted), 301) * 1e3,
        "ms",
        5,
    )
    report(
        "the NaN before",
        _median(lambda: recording.next_mark(anywhere(), wanted, forward=False), 301) * 1e3,
        "ms",
        5,
    )
    report(
        "a call by its number", _median(lambda: recording.find(call=anywhere()), 101) * 1e3, "ms"
    )
    report("all marks", _median(lambda: recording.marks(1, CALLS)) * 1e3, "ms")


def _plot(recording: Recording) -> None:
    names = [column.path for column in PLOTTABLE]
    costs, path = [], recording.path
    for name in names:
        with Recording.open(path) as fresh:  # so that nothing of the plot is in its cache
            costs.append(_plotting(fresh, name, 1, CALLS))
    report("a plot of a fact over all calls, median", statistics.median(costs) * 1e3, "ms", 100)
    report("a plot of a fact over all calls, slowest", max(costs) * 1e3, "ms", 100)
    with Recording.open(path) as fresh:
        cost = _seconds(lambda: timeline(fresh, 1, CALLS, CELLS))
    report("the marks over all calls", cost * 1e3, "ms", 100)
    random, windows = Random(3), []
    for _ in range(101):
        lo = random.randint(1, CALLS)
        hi = min(CALLS, lo + int(10 ** random.uniform(1, 6)))
        windows.append(_plotting(recording, "delta.norm", lo, hi))
    report("a plot of any window, median", statistics.median(windows) * 1e3, "ms", 100)
    report("a plot of any window, slowest", max(windows) * 1e3, "ms", 100)


def _plotting(recording: Recording, name: str, lo: int, hi: int) -> float:
    return _seconds(lambda: series(recording, name, lo, hi, CELLS))


def _remember(path: Path) -> None:
    path_of = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH")]))
    told = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path), "10000"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path_of},
    ).stdout.split()
    report("memory of a reader after 10,000 calls and 500 plots", float(told[0]), "MB", 200)
    report("of that, grown after the first tenth", float(told[1]), "MB", 10)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _median(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    return statistics.median(_seconds(work) for _ in range(rounds))
