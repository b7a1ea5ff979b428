"""A value in a few words, whatever its size: no tensor is ever printed whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from pertdbg.agent.numbers import Plan, Want, settle
from pertdbg.agent.quiet import Notes, Quiet, Ungraded
from pertdbg.agent.tensors import is_tensor, see
from pertdbg.agent.values import values_of
from pertdbg.record import plain

TEXT = 1000
"""Most characters of a value's text."""

ITEMS = 10
"""Most items of a list that are described."""

VALUES = 8
"""Most elements of a tensor that are shown."""

DEPTH = 2
"""Lists inside lists that are described."""

NUMBERS = ("norm", "min", "max", "mean", "std", "nan", "inf")
"""What is computed of a tensor, where it can be."""

_MOST_BITS = 2048
_LISTS = (list, tuple, set, frozenset)

Summary = dict[str, Any]


def summary(value: Any, depth: int = DEPTH) -> Summary:
    """Describe a value as JSON: `type`, `text`, and what its kind has besides.

    A tensor has `tensor` (its facts), `numbers` and `values`, the first elements of its first row.
    A list or mapping has `length` and `items`.
    """
    if is_tensor(value):
        return _of_tensor(value)
    kind = _type_name(value)
    if isinstance(value, bool) or value is None or isinstance(value, (float, complex)):
        return {"type": kind, "text": _cut(repr(value))}
    if isinstance(value, int):
        bits = value.bit_length()
        text = repr(value) if bits <= _MOST_BITS else f"a whole number of {bits} bits"
        return {"type": kind, "text": _cut(text)}
    if isinstance(value, (str, bytes, bytearray)):
        return {"type": kind, "text": _cut(repr(value[:TEXT])), "length": len(value)}
    if type(value) in _LISTS or isinstance(value, dict):
        return _of_list(kind, value, depth)
    return {"type": kind, "text": _cut(repr(value))}


def _of_list(kind: str, value: Any, depth: int) -> Summary:
    found: Summary = {"type": kind, "length": len(value)}
    if depth == 0:
        return {**found, "text": f"{kind} of {len(value)}"}
    items = []
    for place, item in enumerate(value):
        if place == ITEMS:
            break
        part = summary(value[item] if isinstance(value, Mapping) else item, depth - 1)
        if isinstance(value, Mapping):
            part["key"] = summary(item, 0)["text"]
        items.append(part)
    words = [f"{p['key']}: {p['text']}" if "key" in p else p["text"] for p in items]
    more = [f"... {len(value) - ITEMS} more"] if len(value) > ITEMS else []
    text = f"{kind} of {len(value)}: {', '.join([*words, *more])}"
    return {**found, "text": _cut(text), "items": items}


def _of_tensor(tensor: torch.Tensor) -> Summary:
    notes, kind, sight = Notes(), _type_name(tensor), None
    facts: Any = None
    numbers: dict[str, float] = {}
    values: list[Any] = []
    with Quiet(), Ungraded():
        with notes.attempting("facts"):
            sight = see(tensor, "tensor", notes)
            facts = None if sight is None else plain(sight.facts(None))
        with notes.attempting("numbers"):
            plan, held = Plan(), values_of(tensor, sight, use_numpy=True)
            if held.count:
                raw = plan.level(held, Want(moments=True))
                plan.run()
                (numbers,) = settle([raw])
        with notes.attempting("values"):
            values = _first(tensor)
    known = {name: numbers[name] for name in NUMBERS if name in numbers}
    return {
        "type": kind,
        "text": _cut(_words(kind, facts, known, values)),
        "tensor": facts,
        "numbers": plain(known),
        "values": plain(tuple(values)),
        "unknown": [f"{u.field}: {u.reason}" for u in notes.all()],
    }


def _first(tensor: torch.Tensor) -> list[Any]:
    row = tensor.detach()
    while row.dim() > 1 and row.shape[0]:
        row = row[0]
    if row.dim() == 1:
        row = row[:VALUES]
    found: Any = row.tolist() if row.dim() < 2 else []
    items = found if isinstance(found, list) else [found]
    return [str(item) if isinstance(item, complex) else item for item in items]


def _words(kind: str, facts: Any, numbers: dict[str, float], values: list[Any]) -> str:
    if facts is None:
        return f"{kind}, which can't be looked into"
    parts = [f"{facts['dtype']} {facts['shape']} on {facts['device']}"]
    if facts["requires_grad"]:
        by = facts["grad_fn"]
        parts.append(f"made by {by}" if by else "a leaf that requires a gradient")
    if values and not facts["shape"]:
        return f"{_shown(values)}  ({kind}: {'; '.join(parts)})"
    counts = ("nan", "inf")
    parts += [f"{n} {v:g}" for n, v in numbers.items() if n not in counts]
    parts += [f"{v:g} {n}" for n, v in numbers.items() if n in counts and v]
    count = 1
    for size in facts["shape"]:
        count *= size
    if values:
        more = ", ..." if count > len(values) else ""
        parts.append(f"values {_shown(values)}{more}")
    return f"{kind}: " + "; ".join(parts)


def _shown(values: list[Any]) -> str:
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)


def _type_name(value: Any) -> str:
    kind = type(value)
    home = "" if kind.__module__ in ("builtins", "torch") else f"{kind.__module__}."
    return f"{home}{kind.__qualname__}"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT - 3]}..."
