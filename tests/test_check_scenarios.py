"""Scenarios that ship and show no fault: nothing is found in them."""

from __future__ import annotations

import importlib.util
import json

import pytest

from _scripts import pertdbg

HEALTHY = (
    *("sift", "sift-learner", "awp", "fgm", "freelb", "pgd", "smart", "vat"),
    "digits-pgd",
)


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_scenario(name: str) -> None:
    if name == "digits-pgd" and importlib.util.find_spec("sklearn") is None:
        pytest.skip("scikit-learn is not installed")
    done = pertdbg("check", name, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert report["expect"]
    assert all(one["met"] for one in report["expect"])
