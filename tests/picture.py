"""Draws the README's picture: the app on a recording of the default scenario.

``python tests/picture.py`` writes `tui/screen.svg`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from pertdbg.app.app import PertdbgApp
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder
from pertdbg.session import Session

SHOWN = "/home/you/site-packages/pertdbg/layer.py"
"""What the picture says of where the layer stands, whoever draws it."""
PICTURE = Path(__file__).resolve().parents[1] / "tui" / "screen.svg"


def moved(source: Path, target: Path) -> None:
    """Copy a recording, with its layer in another place."""
    recorder = Recorder(target, {"target": "sift.toml", "exit_status": 0, "state": "ended"})
    with Recording.open(source) as recording:
        for layer in recording.layers:
            recorder.add_layer(replace(layer, file=SHOWN))
        for record in recording:
            recorder.write(record, recording.picture(record.id))
    recorder.close()


async def draw(recording: Path) -> str:
    app = PertdbgApp(Session.open(recording))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("n", "n", "6")
        await pilot.pause()
        return app.export_screenshot(title="pertdbg sift")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made, path = Path(folder) / "made.pertdbg", Path(folder) / "sift.pertdbg"
        command = [sys.executable, "-m", "pertdbg", "record", "sift", "-o", str(made)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        moved(made, path)
        PICTURE.write_text(asyncio.run(draw(path)))
    print(PICTURE)


if __name__ == "__main__":
    main()
