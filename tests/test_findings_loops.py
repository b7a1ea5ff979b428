"""Loops written for the rules: three that have a fault of each kind, three near misses, or more.

Each function or class of the scripts in `loops` is a layer of its own, all of one recording.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LOOPS = Path(__file__).parent / "loops"
SCRIPTS = sorted(LOOPS.glob("*.py"))

Found = tuple[str, int, str | None]


def expected(script: Path) -> dict[str, list[Found]]:
    names: dict[str, Any] = runpy.run_path(str(script), run_name=script.stem)
    return {**names["FAULTS"], **names["HEALTHY"]}


@pytest.fixture(scope="module")
def found() -> dict[Path, dict[str, list[Found]]]:
    return {script: of_script(script) for script in SCRIPTS}


def of_script(script: Path) -> dict[str, list[Found]]:
    words = [sys.executable, "-m", "pertdbg", "check", str(script), "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    layers: dict[str, list[Found]] = {}
    for one in json.loads(done.stdout)["findings"]:
        layers.setdefault(one["layer"], []).append((one["kind"], one["call"], one["reason"]))
    return layers


CASES = [(script, name) for script in SCRIPTS for name in expected(script)]


@pytest.mark.parametrize(("script", "name"), CASES, ids=[name for _, name in CASES])
def test_a_loop_has_the_faults_that_it_was_written_with_and_no_other(
    script: Path, name: str, found: dict[Path, dict[str, list[Found]]]
) -> None:
    assert sorted(found[script].get(name, []), key=str) == sorted(expected(script)[name], key=str)


def test_no_other_layer_has_any(found: dict[Path, dict[str, list[Found]]]) -> None:
    assert [set(found[script]) - set(expected(script)) for script in SCRIPTS] == [set()] * len(
        SCRIPTS
    )
