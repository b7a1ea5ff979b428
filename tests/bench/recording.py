"""What handing over one record costs the target's thread."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from _records import healthy
from bench.timing import report
from pertdbg.recording.writer import Recorder

RECORDS = 5000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.pertdbg"
        recorder = Recorder(path, {"target": "bench"})
        records, costs = [healthy(number) for number in range(1, RECORDS + 1)], []
        for record in records:
            began = time.perf_counter()
            recorder.write(record)
            costs.append((time.perf_counter() - began) * 1e6)
        recorder.close()
        size = path.stat().st_size
    report("handing one record over, median", statistics.median(costs), "us", 50)
    report("handing one record over, mean", statistics.mean(costs), "us")
    report("bytes of a call without tensors", size / RECORDS, "bytes", 800)
