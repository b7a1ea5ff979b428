"""A first scenario for one's own layer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pertdbg.errors import PertdbgError
from pertdbg.scenario import library
from pertdbg.scenario.load import load
from pertdbg.scenario.new import scenario_for
from pertdbg.scenario.run import run


def test_a_scenario_is_begun_from_a_class_and_runs(tmp_path: Path) -> None:
    shutil.copy(library.folder() / "attacks.py", tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(scenario_for("attacks.py:FreeLbLayer", tmp_path))
    scenario = load(path)
    assert scenario.layer.observed.method == "update_delta"
    assert scenario.layer.observed.perturbed_input == "perturbed"
    path.write_text(scenario_for("attacks.py:SmartLayer", tmp_path))
    assert run(path, 3).layer.delta is not None


def test_arguments_that_a_class_needs_are_put_in(tmp_path: Path) -> None:
    shutil.copy(library.folder() / "attacks.py", tmp_path)
    assert "arguments = { width = 16 }" in scenario_for("attacks.py:AwpLayer", tmp_path)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere.py:Layer", "can't be read"),
        ("layer.py:Other", "has no class 'Other'; there are: Layer"),
        ("layer.py:Layer", "has no method with `update` in its name"),
        ("layer", "write file.py:Class"),
    ],
)
def test_what_is_not_there_is_named(place: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "layer.py").write_text("class Layer:\n    pass\n")
    with pytest.raises(PertdbgError, match=message):
        scenario_for(place, tmp_path)
