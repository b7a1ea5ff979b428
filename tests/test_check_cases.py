"""The cases: small scripts in which a perturbation goes wrong, or does not, by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
PERTDBG = Path(sysconfig.get_path("scripts")) / "pertdbg"

Found = tuple[str, int, str | None]


def checked(script: Path) -> tuple[int, dict[str, Any]]:
    words = [str(PERTDBG), "check", str(script), "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def key(found: dict[str, Any]) -> Found:
    reason = found.get("reason") if found["kind"] == "grad-missing" else None
    return found["kind"], found["call"], reason


@pytest.mark.parametrize("name", NAMES)
def test_a_case_has_its_findings_at_their_calls_and_none_that_is_not_allowed(name: str) -> None:
    case = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    status, report = checked(FOLDER / f"{name}.py")
    found = {key(one) for one in report["findings"]}
    expected = {key(one) for one in case["expect"]}
    assert expected - found == set()
    allowed = set(case["also_allowed"])
    assert {one for one in found - expected if one[0] not in allowed} == set()
    assert status == 1 if expected else status in (0, 1)
    ended = case["facts"]["exception"] == "none"
    assert (report["exit_status"] == 0) is ended


def test_there_are_cases_with_and_without_a_fault() -> None:
    cases = [tomllib.loads((FOLDER / f"{name}.toml").read_text()) for name in NAMES]
    assert sum(bool(case["expect"]) for case in cases) == 32
    assert sum(not case["expect"] for case in cases) == 6
