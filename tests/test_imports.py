"""What may import what, proved in fresh interpreters."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

import pertdbg

SCREEN = {"textual", "rich", "click", "pydantic"}
STACK = {"torch", "numpy"}

RULES = {
    "pertdbg": STACK | SCREEN,
    "pertdbg.record": STACK | SCREEN,
    "pertdbg.wire": STACK | SCREEN,
    "pertdbg.session": STACK | SCREEN,
    "pertdbg.recording": STACK | SCREEN,
    "pertdbg.output": STACK | {"textual", "pydantic"},
    "pertdbg.app": STACK | {"pydantic"},
    "pertdbg.cli": STACK | {"textual", "rich", "pydantic"},
    "pertdbg.scenario.load": STACK | {"textual"},
    "pertdbg.scenario.library": STACK | SCREEN,
    "pertdbg.adapters": STACK | {"textual"},
    "pertdbg.compare": STACK | SCREEN,
    "pertdbg.guards": STACK | SCREEN,
    "pertdbg.ablation.ablate": STACK | {"textual", "rich", "click"},
    "pertdbg.target": STACK | SCREEN,
    "pertdbg.launch": STACK | SCREEN,
    "pertdbg.commands": STACK | {"textual", "rich", "pydantic"},
    "pertdbg.agent": SCREEN,
    "pertdbg.agent.script": STACK | SCREEN,
}
"""For each module and those below it: what must not come along."""


def modules_under(name: str) -> list[str]:
    everything = [m.name for m in pkgutil.walk_packages(pertdbg.__path__, "pertdbg.")]
    if name == "pertdbg":
        return [name]
    return [m for m in everything if m == name or m.startswith(name + ".")]


CASES = [(module, rule) for rule in RULES for module in modules_under(rule)]


def top_level_after_import(module: str) -> set[str]:
    script = (
        f"import importlib, json, sys; importlib.import_module({module!r});"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(("module", "rule"), CASES, ids=[module for module, _ in CASES])
def test_importing_a_module_brings_nothing_that_its_side_must_not_have(
    module: str, rule: str
) -> None:
    assert top_level_after_import(module) & RULES[rule] == set()


def test_the_rules_name_modules_that_exist() -> None:
    assert all(modules_under(rule) for rule in RULES)
