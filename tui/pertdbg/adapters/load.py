"""Reading one adapter file: every error of it at once, each with its place."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.scenario.problem import KeyPath, Problem, nearest, show

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SEAMS = ("method", "weights", "loop", "function")
"""What an adapter hooks: a class's method, a method that moves weights, a function's loop, a
module's function."""

_TEXT = "text"
_TEXTS = "one text or an array of texts"
_GROUPS = "an array of arrays of texts"
_NUMBER = "a whole number"

_TABLES: dict[str, dict[str, str]] = {
    "match": {
        "modules": _TEXTS,
        "functions": _TEXTS,
        "methods": _TEXTS,
        "uses": _GROUPS,
        "subject": _TEXTS,
        "gradient_calls": _TEXTS,
    },
    "roles": {
        "form": _TEXT,
        "delta": _TEXTS,
        "leaf": _TEXTS,
        "input": _TEXTS,
        "perturbed_input": _TEXTS,
        "model": _TEXTS,
        "step": _TEXTS,
    },
    "numbers": {
        "bound": _TEXTS,
        "bound_kind": _TEXT,
        "learning_rate": _TEXTS,
        "norm": _TEXT,
        "norm_name": _TEXTS,
        "norm_of": _TEXT,
        "relative_bound": _TEXTS,
    },
}
_TOP = {"name": _TEXT, "title": _TEXT, "seam": _TEXT, "order": _NUMBER}
_CHOICES: dict[KeyPath, tuple[str, ...]] = {
    ("seam",): SEAMS,
    ("roles", "form"): ("delta", "image"),
    ("numbers", "bound_kind"): ("creation", "always"),
    ("numbers", "norm"): ("inf", "l2", "l1"),
    ("numbers", "norm_of"): ("sample", "row", "whole"),
}
_NEEDED: dict[str, tuple[KeyPath, ...]] = {
    "method": (
        ("match", "methods"),
        ("roles", "delta"),
        ("roles", "input"),
        ("roles", "perturbed_input"),
    ),
    "weights": (("match", "functions"), ("match", "methods"), ("roles", "model")),
    "loop": (),
    "function": (("match", "modules"), ("match", "functions"), ("roles", "input")),
}
_PLAIN = ("form", "bound_kind", "norm", "norm_of")


def load(path: Path) -> dict[str, Any]:
    """Read and check an adapter file.

    Returns:
        The file's values as JSON, with `order` filled in: lower ones are tried first.

    Raises:
        PertdbgError: The file can't be read, or has errors; the text has a line for each.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise PertdbgError(f"{path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PertdbgError(f"{path}: is not UTF-8: {error.reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise PertdbgError(f"{path}: not TOML: {error}") from error
    problems = list(check(values))
    if problems:
        raise PertdbgError(_listing(path, problems, text))
    return {"order": 0, **values}


def check(values: dict[str, Any]) -> Iterator[Problem]:
    """Give what is wrong with an adapter's values."""
    for key in ("name", "title", "seam"):
        if key not in values:
            yield Problem((key,), "is missing")
    for key, value in values.items():
        if key in _TABLES:
            yield from _table(key, value)
        elif key in _TOP:
            yield from _value((key,), value, _TOP[key])
        else:
            yield Problem((key,), f"unknown key{nearest(key, [*_TOP, *_TABLES])}")
    yield from _needed(values)


def _table(name: str, values: Any) -> Iterator[Problem]:
    if not isinstance(values, dict):
        yield Problem((name,), f"needs a table, not {show(values)}")
        return
    allowed = _TABLES[name]
    for key, value in values.items():
        if key not in allowed:
            yield Problem((name, key), f"unknown key{nearest(key, allowed)}")
            continue
        yield from _value((name, key), value, allowed[key])
        if name != "match" and key not in _PLAIN and _is(value, _TEXTS):
            yield from _expressions((name, key), value)


def _value(path: KeyPath, value: Any, kind: str) -> Iterator[Problem]:
    if not _is(value, kind):
        yield Problem(path, f"needs {kind}, not {show(value)}")
    elif path in _CHOICES and value not in _CHOICES[path]:
        yield Problem(path, f"{show(value)} is not allowed{nearest(value, _CHOICES[path])}")


def _is(value: Any, kind: str) -> bool:
    if kind == _NUMBER:
        return type(value) is int
    if kind == _TEXT:
        return isinstance(value, str) and bool(value)
    if kind == _GROUPS:
        return isinstance(value, list) and all(_is(group, _TEXTS) for group in value)
    texts = [value] if isinstance(value, str) else value
    return isinstance(texts, list) and bool(texts) and all(_is(text, _TEXT) for text in texts)


def _expressions(path: KeyPath, value: str | list[str]) -> Iterator[Problem]:
    for expression in [value] if isinstance(value, str) else value:
        try:
            ast.parse(expression, mode="eval")
        except SyntaxError as error:
            yield Problem(path, f"{show(expression)} is not an expression: {error.msg}")


def _needed(values: dict[str, Any]) -> Iterator[Problem]:
    seam = values.get("seam")
    for table, key in _NEEDED.get(seam, ()) if isinstance(seam, str) else ():
        inside = values.get(str(table))
        if not isinstance(inside, dict) or key not in inside:
            yield Problem((table, key), f'is missing; an adapter of seam "{seam}" needs it')


def _listing(path: Path, problems: list[Problem], text: str) -> str:
    from pertdbg.scenario.positions import Positions  # most files have no errors

    positions = Positions(text)
    placed = sorted(
        (positions.of(problem.path), problem.key, problem.message) for problem in problems
    )
    return "\n".join(
        f"{path}:{line}:{column}: {key}: {message}" for (line, column), key, message in placed
    )
