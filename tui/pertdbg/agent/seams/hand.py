"""The modules that a function has at hand; torch need not be there."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

from pertdbg.agent.seams.locals import read_locals

MODULES = 8
"""Most modules of one function."""


def modules_at_hand(frame: types.FrameType) -> list[Any]:
    """Give the modules among a function's arguments, the globals that it uses, and their fields."""
    module_class = getattr(sys.modules.get("torch.nn"), "Module", None)
    if module_class is None:
        return []
    code = frame.f_code
    names = frozenset((*code.co_varnames, *code.co_freevars, *code.co_names))
    values = list(read_locals(frame, names, traced=True).values())
    found: dict[int, Any] = {}
    for value in _with_fields(values, module_class):
        if issubclass(type(value), module_class):
            found[id(value)] = value
    return list(found.values())[:MODULES]


def _with_fields(values: list[Any], module_class: type) -> Iterator[Any]:
    for value in values:
        yield value
        plain = not issubclass(type(value), (module_class, type, types.ModuleType))
        fields = getattr(type(value), "__dict__", {}) if plain else {}
        if "__dict__" in fields:
            yield from object.__getattribute__(value, "__dict__").values()
