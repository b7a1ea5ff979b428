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

SCENARIOS = [
    name
    for name, _ in listing()
    if name != "digits-pgd" or importlib.util.find_spec("sklearn") is not None
]
LONGER = {"sift": 30, "nan-gradient": 10}
"""Calls by default, where it is not 4; with ``--whole`` all make 200."""

Runs = tuple[dict[str, list[Any]], dict[str, list[Any]]]


def run(mode: str, calls: dict[str, int]) -> dict[str, list[Any]]:
    script = Path(__file__).with_name("_fidelity.py")
    wanted = [f"{name}:{number}" for name, number in calls.items()]
    done = subprocess.run(
        [sys.executable, str(script), mode, *wanted], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    runs: dict[str, list[Any]] = json.loads(done.stdout)
    return runs


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Runs:
    whole = request.config.getoption("--whole")
    calls = {name: 200 if whole else LONGER.get(name, 4) for name in SCENARIOS}
    return run("plain", calls), run("observed", calls)


@pytest.mark.parametrize("name", SCENARIOS)
def test_values_versions_random_state_exceptions_and_lifetimes_are_those_without_the_agent(
    name: str, runs: Runs
) -> None:
    plain, observed = (mode[name] for mode in runs)
    for number, (without, with_) in enumerate(zip(plain, observed, strict=True), 1):
        assert with_ == without, f"{name} differs at call {number} of {len(plain)}"


@pytest.fixture(scope="module")
def by_line(request: pytest.FixtureRequest) -> dict[str, list[Any]]:
    calls = 200 if request.config.getoption("--whole") else 4
    return run("lines", dict.fromkeys(SCENARIOS, calls))


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_that_is_the_same_line_by_line(
    name: str, runs: Runs, by_line: dict[str, list[Any]]
) -> None:
    # The last entry is how the run ended, which is all that there is of one that ends at once.
    calls = by_line[name][:-1] or by_line[name]
    for number, (without, with_) in enumerate(zip(runs[0][name], calls, strict=False), 1):
        assert with_ == without, f"{name} differs at call {number} of {len(calls)}"


def test_the_comparison_covers_as_many_calls_as_it_says(runs: Runs, whole: bool) -> None:
    assert len(runs[0]["sift"]) == (200 if whole else LONGER["sift"]) + 1
