"""The target process: ``python -m pertdbg.agent CONFIG.json``, started by the host."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

from pertdbg.agent.config import Config
from pertdbg.agent.start import run


def main() -> int:
    """Run what the config says; an interrupted target ends by SIGINT, as a script would."""
    status = run(Config.load(Path(sys.argv[1])))
    gc.freeze()  # the interpreter's end need not look through all of torch for cycles
    if status == 128 + signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return status


if __name__ == "__main__":
    sys.exit(main())
