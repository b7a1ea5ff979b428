"""What may import what, proved in fresh interpreters."""

from __future__ import annotations

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
    "pertdbg.findings": STACK | SCREEN,
    "pertdbg.pytest_plugin": STACK | SCREEN,
    "pertdbg.ablation.ablate": STACK | {"textual", "rich", "click"},
    "pertdbg.target": STACK | SCREEN,
    "pertdbg.launch": STACK | SCREEN,
    "pertdbg.commands": STACK | {"textual", "rich", "pydantic"},
    "pertdbg.agent": SCREEN,
    "pertdbg.agent.script": STACK | SCREEN,
    "pertdbg.agent.stops": STACK | SCREEN,
    "pertdbg.agent.paused": STACK | SCREEN,
    "pertdbg.conditions": STACK | SCREEN,
    "pertdbg.answer": STACK | SCREEN,
}
"""For each module and those below it: what must not come along."""


def modules_under(name: str) -> list[str]:
    everything = [m.name for m in pkgutil.walk_packages(pertdbg.__path__, "pertdbg.")]
    if name == "pertdbg":
        return [name]
    return [m for m in everything if m == name or m.startswith(name + ".")]


LOOK = """
import importlib, sys
names, unwanted = sys.argv[1].split(), set(sys.argv[2].split())
for name in names:
    importlib.import_module(name)
    found = unwanted & {loaded.partition(".")[0] for loaded in sys.modules}
    if found:
        sys.exit(f"{name} brings {', '.join(sorted(found))}")
"""


@pytest.mark.parametrize("rule", RULES)
def test_importing_a_module_brings_nothing_that_its_side_must_not_have(rule: str) -> None:
    words = [" ".join(modules_under(rule)), " ".join(RULES[rule])]
    done = subprocess.run([sys.executable, "-c", LOOK, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_rules_name_modules_that_exist() -> None:
    assert all(modules_under(rule) for rule in RULES)
