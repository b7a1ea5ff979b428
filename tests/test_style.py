"""The checks over source and tests: ruff's rules and format, mypy --strict."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conftest import REPOSITORY


@pytest.mark.parametrize(
    "check",
    [
        ["ruff", "check"],
        ["ruff", "format", "--check"],
        ["mypy", "--strict"],
    ],
    ids=["ruff check", "ruff format", "mypy strict"],
)
def test_source_and_tests_pass(check: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *check], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
