"""The observer changes nothing: each scenario, with and without the agent."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pertdbg.scenario.library import listing

CALLS = 200
SCENARIOS = [
    name
    for name, _ in listing()
    if name != "digits-pgd" or importlib.util.find_spec("sklearn") is not None
]


def run(mode: str) -> dict[str, list[Any]]:
    script = Path(__file__).with_name("_fidelity.py")
    done = subprocess.run(
        [sys.executable, str(script), mode, str(CALLS), *SCENARIOS], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    runs: dict[str, list[Any]] = json.loads(done.stdout)
    return runs


@pytest.fixture(scope="module")
def runs() -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    return run("plain"), run("observed")


@pytest.mark.parametrize("name", SCENARIOS)
def test_values_versions_random_state_exceptions_and_lifetimes_are_those_without_the_agent(
    name: str, runs: tuple[dict[str, list[Any]], dict[str, list[Any]]]
) -> None:
    plain, observed = (mode[name] for mode in runs)
    for number, (without, with_) in enumerate(zip(plain, observed, strict=True), 1):
        assert with_ == without, f"{name} differs at call {number} of {len(plain)}"


def test_the_comparison_covers_as_many_calls_as_it_says(
    runs: tuple[dict[str, list[Any]], dict[str, list[Any]]],
) -> None:
    assert len(runs[0]["sift"]) == CALLS + 1
