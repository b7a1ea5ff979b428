"""Other circumstances in which the same guards are taken out: when does a guard matter?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.scenario.change import changed
from pertdbg.scenario.model import Scenario

CALLS = 6
"""Update calls of a run under other circumstances."""


@dataclass(frozen=True)
class Circumstance:
    """What is changed in the scenario, and how to say it: ``with ...``."""

    name: str
    words: str
    values: dict[str, Any]


def circumstances(scenario: Scenario) -> list[Circumstance]:
    """List the circumstances that have a meaning in a scenario."""
    return [found for found in _all(scenario) if _allowed(scenario, found)]


def _all(scenario: Scenario) -> Iterator[Circumstance]:
    loop = scenario.loop
    yield Circumstance(
        "clean-gradients",
        f"the clean pass {'without' if loop.clean_gradients else 'with'} gradients",
        {"loop.clean_gradients": not loop.clean_gradients},
    )
    yield Circumstance(
        "parameters",
        f"the parameters {'live' if loop.freeze else 'frozen'}",
        {"loop.freeze": not loop.freeze},
    )
    short = scenario.model.dtype in ("float16", "bfloat16")
    dtype = "float32" if short else "bfloat16"
    yield Circumstance("dtype", f"a model in {dtype}", {"model.dtype": dtype})
    if not scenario.fault:
        fault = {"kind": "nan-gradient", "call": 3}
        yield Circumstance("nan", "one NaN in the gradient of call 3", {"fault": [fault]})


def _allowed(scenario: Scenario, circumstance: Circumstance) -> bool:
    try:
        changed(scenario, circumstance.values)
    except PertdbgError:
        return False
    return True
