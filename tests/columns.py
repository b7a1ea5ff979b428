"""Writes down what the columns of a recording mean: ``python tests/columns.py``."""

from __future__ import annotations

from pathlib import Path

from pertdbg.recording.documented import markdown

COLUMNS = Path(__file__).resolve().parents[1] / "tui" / "columns.md"
HEAD = """# What each column of a recording means

For people who read one with `sqlite3`, DuckDB or pandas; each row's `crc` covers the whole row.

"""


def text() -> str:
    """What the file is to hold."""
    return HEAD + markdown()


if __name__ == "__main__":
    COLUMNS.write_text(text(), encoding="utf-8")
