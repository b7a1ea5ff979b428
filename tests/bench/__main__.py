"""The benchmark: ``python tests/bench [steps|loops|lines|check|screen|large|recording|scale ...]``.

Everything is a ratio against a baseline of the same run, alternating with it, and the median of
several rounds; absolute times move with the machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import check, large, lines, loops, recording, scale, screen, steps

PARTS: dict[str, Callable[[], None]] = {
    "steps": steps.main,
    "loops": loops.main,
    "lines": lines.main,
    "check": check.main,
    "screen": screen.main,
    "large": large.main,
    "recording": recording.main,
    "scale": scale.main,
}


def main() -> int:
    asked = sys.argv[1:] or list(PARTS)
    unknown = [name for name in asked if name not in PARTS]
    if unknown:
        print(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for name in asked:
        PARTS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
