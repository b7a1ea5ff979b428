"""Makes the golden files of a version: ``python tests/golden/make.py NAME``, once, at its release.

NAME.pertdbg is what this version writes, NAME.jsonl the records that were given to it. Both stay
in the repository for ever, and every later version must read the one as the other.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from random import Random

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import _records  # noqa: E402 - the tests' folder must be on the path first
from pertdbg.record import GradientFacts, to_json  # noqa: E402
from pertdbg.recording import HeatMap, LayerSource  # noqa: E402
from pertdbg.recording.writer import Recorder  # noqa: E402


def main(name: str) -> None:
    """Write both files."""
    random = Random(1)
    records = [_records.healthy(k) for k in range(1, 21)]
    records += [_records.record(random, k) for k in range(21, 39)]
    broken = GradientFacts(present=True, norm=float("nan"), max_abs=float("inf"), nan=2, inf=1)
    records.append(_records.healthy(41, gradient=broken))  # 39 and 40 are not written: a gap
    recorder = Recorder(HERE / f"{name}.pertdbg", {"title": "golden", "rank": 1}, tensors="all")
    recorder.add_layer(LayerSource("encoder.pert", "m.L", "/x.py", 3, "def update(self): ...\n"))
    for record in records:
        recorder.write(record, HeatMap(1, 2, struct.pack("<2f", record.id, 0.5), 1, 2))
        recorder.output("stdout", record.id, b"line %d\n" % record.id)
        if record.id in (1, 41):
            recorder.tensor(record.id, "delta", "bfloat16", (2, 2), struct.pack("<4H", *_HALVES))
    recorder.mark(7, "stopped", "here")
    recorder.state(state="ended", exit_status=0)
    recorder.close()
    lines = [json.dumps(to_json(record), sort_keys=True) + "\n" for record in records]
    (HERE / f"{name}.jsonl").write_text("".join(lines))


_HALVES = (0x3F80, 0xC000, 0x7F80, 0x7FC0)
"""1, -2, infinity and NaN."""

if __name__ == "__main__":
    main(sys.argv[1])
