"""Checks that look at several keys, or beside the file. They work on the values as they were read.

Each check takes what it finds as it is: a value of the wrong type is an error of its own, and
is passed over here, so that one error does not hide another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pertdbg.agent.adapter import Absent, Missing, number
from pertdbg.scenario.expect import fields
from pertdbg.scenario.model import CONDITIONS
from pertdbg.scenario.problem import Problem, nearest

Values = dict[str, Any]
FILES = (".txt", ".npy", ".csv", ".safetensors")
"""Kinds of files that an input is read from."""

_BUILT_IN = ("kind", "width", "layers", "heads", "vocabulary", "outputs", "head")
_STEPS_ONLY = ("updates", "against", "reduction", "clean_gradients", "freeze", "accumulate")
_OF_DISTRIBUTION = {
    "mean": ("normal",),
    "std": ("normal",),
    "low": ("uniform", "integers"),
    "high": ("uniform", "integers"),
}


def check(values: Values, folder: Path) -> Iterator[Problem]:
    """Give what is wrong with a scenario's values beyond the single key.

    Args:
        values: What the TOML parser gave.
        folder: Where the file lies.
    """
    for one in (_source, _numbers, _labels, _model, _adapter, _loop, _faults, _edits, check_expect):
        yield from one(values)
    yield from _files(values, folder)


def _table(values: Values, key: str) -> Values:
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def _tables(values: Values, key: str) -> list[tuple[int, Values]]:
    found = values.get(key)
    rows = found if isinstance(found, list) else []
    return [(number, row) for number, row in enumerate(rows) if isinstance(row, dict)]


def _whole(values: Values, key: str, default: int) -> int:
    found = values.get(key, default)
    return found if type(found) is int and found > 0 else default


def _source(values: Values) -> Iterator[Problem]:
    source = values.get("input")
    if not isinstance(source, dict):
        return
    given = [key for key in ("file", "build", "distribution") if key in source]
    if len(given) != 1:
        found = f"there are {' and '.join(given)}" if given else "there is none"
        yield Problem(("input",), f"needs one of file, build and distribution; {found}")
    if "shape" not in source and (given == ["distribution"] or _suffix(source) == ".txt"):
        yield Problem(("input", "shape"), "is missing; text and random numbers need it")
    if _suffix(source) == ".txt" and len(_list(source.get("shape"))) not in (0, 2):
        yield Problem(("input", "shape"), "of text is two numbers: rows, and bytes in a row")


def _numbers(values: Values) -> Iterator[Problem]:
    source = _table(values, "input")
    for key, kinds in _OF_DISTRIBUTION.items():
        if key in source and source.get("distribution") not in kinds:
            yield Problem(
                ("input", key), f"only has a meaning for distribution {' or '.join(kinds)}"
            )
    if "key" in source and _suffix(source) != ".safetensors":
        yield Problem(("input", "key"), "only has a meaning for a .safetensors file")
    if "arguments" in source and "build" not in source:
        yield Problem(("input", "arguments"), "only has a meaning with build")
    low, high = source.get("low", 0.0), source.get("high", 1.0)
    both = isinstance(low, (int, float)) and isinstance(high, (int, float))
    if source.get("distribution") in _OF_DISTRIBUTION["high"] and both and not low < high:
        yield Problem(("input", "high"), f"must be greater than low, {low}")


def _labels(values: Values) -> Iterator[Problem]:
    source, loop = _table(values, "input"), _table(values, "loop")
    if source.get("labels") == "next" and _suffix(source) != ".txt":
        yield Problem(("input", "labels"), "next only has a meaning for a .txt file")
    if loop.get("against") == "labels" and not ("build" in source or "labels" in source):
        yield Problem(
            ("loop", "against"), "labels needs an input with labels: input.labels or input.build"
        )
    if loop.get("against") == "labels" and loop.get("loss", "symmetric-kl") != "ce":
        yield Problem(("loop", "loss"), "must be ce where the logits are compared with labels")


def _model(values: Values) -> Iterator[Problem]:
    model = _table(values, "model")
    if "build" in model:
        for key in _BUILT_IN:
            if key in model:
                yield Problem(("model", key), "has no meaning for a model that Python builds")
        return
    if "arguments" in model:
        yield Problem(("model", "arguments"), "only has a meaning with build")
    width, heads = _whole(model, "width", 64), _whole(model, "heads", 2)
    if width % heads:
        yield Problem(("model", "heads"), f"{heads} does not divide the width, {width}")
    if model.get("kind") == "perceptron" and _suffix(_table(values, "input")) == ".txt":
        yield Problem(("model", "kind"), "perceptron takes numbers; text needs an encoder")


def _adapter(values: Values) -> Iterator[Problem]:
    adapter = _table(_table(values, "layer"), "adapter")
    path = ("layer", "adapter")
    if ("bound" in adapter) != ("bound_kind" in adapter):
        yield Problem(path, "bound and bound_kind go together")
    for key in ("bound", "learning_rate"):
        wrong = _malformed(adapter.get(key))
        if wrong:
            yield Problem(
                (*path, key), f"{wrong}; write numbers and attributes of self under + - * /"
            )


def _malformed(expression: Any) -> str:
    try:
        number(expression if isinstance(expression, str) else None, object())
    except Absent:
        return ""  # the form is right; only the layer has the attribute
    except Missing as error:
        return str(error)
    return ""


def _loop(values: Values) -> Iterator[Problem]:
    loop = _table(values, "loop")
    if loop.get("rhythm") != "learner":
        return
    for key in _STEPS_ONLY:
        if key in loop:
            yield Problem(("loop", key), "has no meaning with the rhythm learner")
    for at, _ in _tables(values, "fault"):
        yield Problem(("fault", at), "faults need the rhythm steps")


def _faults(values: Values) -> Iterator[Problem]:
    loop = _table(values, "loop")
    calls = _whole(loop, "calls", 20)
    batch = 1 + _whole(loop, "updates", max(calls, 2))
    for at, fault in _tables(values, "fault"):
        call = fault.get("call")
        if type(call) is not int or call < 2:
            continue
        if call > calls:
            yield Problem(
                ("fault", at, "call"), f"{call} never comes; the loop makes {calls} calls"
            )
        elif (call - 1) % batch == 0:
            yield Problem(
                ("fault", at, "call"), f"{call} makes a new delta; a fault needs an update"
            )


def _edits(values: Values) -> Iterator[Problem]:
    if values.get("lines") and values.get("guards_removed"):
        yield Problem(("lines",), "can't stand beside guards_removed: change the line alone")


def check_expect(values: Values) -> Iterator[Problem]:
    """Give what is wrong with what a scenario expects."""
    calls = _whole(_table(values, "loop"), "calls", 20)
    for at, expect in _tables(values, "expect"):
        path = ("expect", at)
        if ("call" in expect) == ("calls" in expect):
            yield Problem(path, "needs one of call and calls")
        if not any(key in expect for key in CONDITIONS):
            yield Problem(path, f"says nothing of the field; add one of {', '.join(CONDITIONS)}")
        field, call = expect.get("field"), expect.get("call")
        if isinstance(field, str) and field not in fields():
            yield Problem((*path, "field"), f'"{field}" is no field{_near_field(field)}')
        if type(call) is int and call > calls:
            yield Problem((*path, "call"), f"{call} never comes; the loop makes {calls} calls")


def _near_field(field: str) -> str:
    """Name what stands in the last table of a path that is known."""
    table = field
    while table and table + "." not in {name[: len(table) + 1] for name in fields()}:
        table = table.rpartition(".")[0]
    prefix = table + "." if table else ""
    return nearest(
        field,
        (n for n in fields() if n.startswith(prefix) and "." not in n[len(prefix) :]),
    )


def _files(values: Values, folder: Path) -> Iterator[Problem]:
    layer, model, source = (_table(values, key) for key in ("layer", "model", "input"))
    named: list[tuple[tuple[str, ...], Any, Callable[[str], str]]] = [
        (("input", "file"), source.get("file"), str),
        (("input", "build"), source.get("build"), _home),
        (("layer", "class"), layer.get("class"), _home),
        (("model", "build"), model.get("build"), _home),
        (("model",), values.get("model"), _home),
    ]
    for path, value, home in named:
        name = home(value) if isinstance(value, str) else ""
        if name and not (folder / name).is_file():
            yield Problem(path, f"there is no file {folder / name}")
    if "file" in source and _suffix(source) not in ("", *FILES):
        allowed = ", ".join(FILES)
        yield Problem(
            ("input", "file"), f"{source['file']} is of no known kind; allowed: {allowed}"
        )


def _home(place: str) -> str:
    """Give the file of a place in Python, or nothing where it is a module."""
    home = place.rpartition(":")[0]
    return home if home.endswith(".py") else ""


def _suffix(source: Values) -> str:
    file = source.get("file")
    return Path(file).suffix if isinstance(file, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
