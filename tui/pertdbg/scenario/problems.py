"""What the validation of a scenario file found, in words."""

from __future__ import annotations

import typing
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from pertdbg.scenario.model import Scenario
from pertdbg.scenario.problem import KeyPath, Problem, nearest, show

_NEEDED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "tuple_type": "an array",
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def explain(details: ErrorDetails, root: type[BaseModel] = Scenario) -> Problem:
    """Turn one error of the validation into words, with what is allowed in its place.

    Args:
        details: The error.
        root: What the whole file is to be.
    """
    path: KeyPath = tuple(details["loc"])
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return Problem(path, _unknown(path, root))
    if kind == "missing":
        return Problem(path, f"is missing; it is {_doc(path, root)}")
    if kind == "literal_error":
        allowed = [part for part in str(context["expected"]).split("'") if part.strip(" ,or")]
        return Problem(path, f"{show(value)} is not allowed{nearest(value, allowed)}")
    if kind in _NEEDED:
        return Problem(path, f"needs {_NEEDED[kind]}, not {show(value)}")
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        return Problem(path, f"{show(value)} is not allowed; it must be {words} {context[name]}")
    if kind in ("string_too_short", "too_short"):
        return Problem(path, "is empty")
    if kind == "value_error":
        return Problem(path, str(context["error"]))
    return Problem(path, f"{details['msg']}, not {show(value)}")


def _unknown(path: KeyPath, root: type[BaseModel]) -> str:
    key = str(path[-1])
    return f"unknown key{nearest(key, keys_of(_table_at(path[:-1], root)))}"


def keys_of(table: type[BaseModel] | None) -> list[str]:
    """List the keys that a table may hold."""
    if table is None:
        return []
    return [field.alias or name for name, field in table.model_fields.items()]


def _table_at(path: KeyPath, root: type[BaseModel]) -> type[BaseModel] | None:
    table: type[BaseModel] | None = root
    for part in path:
        if isinstance(part, str) and table is not None:
            table = _nested(table, part)
    return table


def _nested(table: type[BaseModel], key: str) -> type[BaseModel] | None:
    for name, field in table.model_fields.items():
        if key == (field.alias or name):
            return next(_models(field.annotation), None)
    return None


def _models(annotation: Any) -> typing.Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _doc(path: KeyPath, root: type[BaseModel]) -> str:
    table = _table_at(path[:-1], root)
    for name, field in table.model_fields.items() if table is not None else ():
        if path[-1] == (field.alias or name) and field.description:
            text = " ".join(field.description.rstrip(".").split())
            return text[0].lower() + text[1:]
    return "required"
