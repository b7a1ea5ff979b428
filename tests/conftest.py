"""What every test has at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

# One thread each, here and in child processes, so that they don't fight for the cores; numpy
# looks at this when it is imported, which is later.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs the large bars whole."""
    parser.addoption("--whole", action="store_true", help="run every large bar at its full size")


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether the large bars run at their full size."""
    return bool(request.config.getoption("--whole"))
