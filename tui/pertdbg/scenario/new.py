"""A first scenario for somebody's own layer, from its source alone: nothing of it is run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from pertdbg.errors import PertdbgError

_TEMPLATE = """\
title = "{name} on random numbers"
about = \"\"\"
What is to be seen here, for the person at the screen.
\"\"\"

[layer]
class = "{place}"
{arguments}
[layer.adapter]
method = "{method}"
delta = "delta"
input = "input"
perturbed_input = "{perturbed}"
# bound = "self.epsilon"     # the limit of |delta| that the layer keeps to
# bound_kind = "always"      # or "creation", where only the first delta is clamped

[model]
kind = "perceptron"          # linear, the layer, tanh, linear; or build = "my_model.py:build"
width = 16
outputs = 3

[input]
distribution = "normal"      # or file = "rows.npy", or build = "my_data.py:rows"
shape = [8, 16]

[loop]
calls = 10
loss = "symmetric-kl"

[[expect]]
calls = "all"
field = "tensors.after.delta.is_leaf"
equals = true
"""


@dataclass(frozen=True)
class _Layer:
    name: str
    required: list[str]
    methods: list[str]
    attributes: list[str]


def scenario_for(place: str, folder: Path) -> str:
    """Write the text of a scenario for a layer; what can't be read off its class is a comment.

    Args:
        place: ``file.py:Class``, relative to the folder.
        folder: Where the scenario is going to lie.

    Raises:
        PertdbgError: There is no such file or class, or the class has no update method.
    """
    file, _, name = place.rpartition(":")
    if not (file.endswith(".py") and name.isidentifier()):
        raise PertdbgError(f"{place!r} is no place of a class; write file.py:Class")
    layer = _read(folder / file, name)
    return _TEMPLATE.format(
        name=name,
        place=place,
        arguments=_arguments(layer),
        method=_method(layer, place),
        perturbed=_named(layer.attributes, "perturb", "perturbed"),
    )


def _read(path: Path, name: str) -> _Layer:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PertdbgError(f"{path}: can't be read: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        raise PertdbgError(f"{path}: is no Python: {error}") from error
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in classes:
        if node.name == name:
            return _described(node)
    there = ", ".join(node.name for node in classes) or "none"
    raise PertdbgError(f"{path}: has no class {name!r}; there are: {there}")


def _described(node: ast.ClassDef) -> _Layer:
    methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    required: list[str] = []
    if "__init__" in methods:
        arguments = methods["__init__"].args
        positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)][1:]
        required = positional[: len(positional) - len(arguments.defaults)]
    attributes = [
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
    ]
    return _Layer(node.name, required, list(methods), attributes)


def _arguments(layer: _Layer) -> str:
    if not layer.required:
        return ""
    needed = ", ".join(f"{name} = 16" for name in layer.required)
    return f"arguments = {{ {needed} }}\n"


def _method(layer: _Layer, place: str) -> str:
    found = _named(layer.methods, "update", "")
    if not found:
        raise PertdbgError(
            f"{place}: has no method with `update` in its name; the loop of a scenario calls "
            "`adversarial_(flag)` and an update method with requires_grad=True"
        )
    return found


def _named(names: list[str], part: str, default: str) -> str:
    return next((name for name in names if part in name), default)
