"""Draws the README's picture: the app on a recording of the default scenario.

``python tests/picture.py`` writes `tui/screen.svg`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from pertdbg.app.app import PertdbgApp
from pertdbg.session import Session

PICTURE = Path(__file__).resolve().parents[1] / "tui" / "screen.svg"


async def draw(recording: Path) -> str:
    app = PertdbgApp(Session.open(recording))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("n", "n", "6")
        await pilot.pause()
        return app.export_screenshot(title="pertdbg sift")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sift.pertdbg"
        command = [sys.executable, "-m", "pertdbg", "record", "sift", "-o", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        PICTURE.write_text(asyncio.run(draw(path)))
    print(PICTURE)


if __name__ == "__main__":
    main()
