"""What every test has at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs the large bars whole."""
    parser.addoption("--whole", action="store_true", help="run every large bar at its full size")


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether the large bars run at their full size."""
    return bool(request.config.getoption("--whole"))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Keep child processes from fighting for the cores."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
