"""Traces functions line by line with nothing of pertdbg: what the recorded events must equal.

Everything that a line leaves is held and compared afterwards, so that no identity is used twice.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Line = tuple[int, dict[str, Any], list[str], list[str], set[frozenset[str]]]
"""Line, facts by name, names made, names gone, pairs in one storage."""


@dataclass
class _Left:
    """What a line left."""

    tensor: Tensor
    values: Tensor
    facts: tuple[Any, ...]
    gradient: Any
    """The tensor in `.grad`, and its values."""


@dataclass
class _Running:
    line: int | None = None
    left: dict[str, _Left] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)


@dataclass
class Trace:
    """The lines of each call of the functions."""

    calls: list[list[Line]] = field(default_factory=list)


@contextmanager
def tracing(names: set[str]) -> Iterator[Trace]:
    """Trace the functions with these qualified names."""
    trace = Trace()

    def called(frame: types.FrameType, event: str, _: Any) -> Any:
        if _name_of(frame) not in names:
            return None
        running = _Running(left=_look(frame))
        trace.calls.append(running.lines)
        return _local(running)

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield trace
    finally:
        sys.settrace(before)


def _name_of(frame: types.FrameType) -> str:
    code = frame.f_code
    if sys.version_info >= (3, 11):
        return code.co_qualname
    for owner in type(frame.f_locals.get("self")).__mro__:
        if getattr(owner.__dict__.get(code.co_name), "__code__", None) is code:
            return f"{owner.__qualname__}.{code.co_name}"
    return code.co_name


def _local(running: _Running) -> Callable[..., Any]:
    def local(frame: types.FrameType, event: str, _: Any) -> Any:
        if event in ("line", "return"):
            if running.line is not None:
                left = _look(frame)
                running.lines.append(_compared(running.line, running.left, left))
                running.left = left
            running.line = frame.f_lineno if event == "line" else None
        return local

    return local


def _look(frame: types.FrameType) -> dict[str, _Left]:
    found = {name: value for name, value in frame.f_locals.items() if isinstance(value, Tensor)}
    owner = frame.f_locals.get("self")
    if owner is not None and hasattr(type(owner), frame.f_code.co_name):
        held = dict(vars(owner))
        for table in ("_parameters", "_buffers"):
            held.update(held.get(table) or {})
        tensors = {f"self.{k}": v for k, v in held.items() if isinstance(v, Tensor)}
        found.update(tensors)
    return {name: _left(tensor) for name, tensor in found.items()}


def _left(tensor: Tensor) -> _Left:
    with torch.no_grad():
        values = tensor.detach().clone()
        wide = values.double().flatten()
        numbers = float(wide.norm()), float(wide.abs().max()) if wide.numel() else None
    gradient = tensor.grad if tensor.is_leaf else None
    facts = (
        tuple(tensor.shape),
        str(tensor.dtype).removeprefix("torch."),
        tensor.is_leaf,
        tensor.requires_grad,
        None if tensor.grad_fn is None else tensor.grad_fn.name(),
        gradient is not None if tensor.is_leaf else None,
        tensor._version,
        numbers,
    )
    return _Left(tensor, values, facts, (gradient, None if gradient is None else gradient.clone()))


def _compared(line: int, before: dict[str, _Left], after: dict[str, _Left]) -> Line:
    made, facts = [], {}
    for name, left in after.items():
        then = before.get(name)
        if then is None or then.tensor is not left.tensor:
            made.append(name)
            facts[name] = left.facts
        elif not _same(then, left):
            facts[name] = left.facts
    pairs = {
        frozenset((a, b))
        for a in after
        for b in after
        if a < b and (a in facts or b in facts) and _share(after[a].tensor, after[b].tensor)
    }
    return line, facts, sorted(made), sorted(set(before) - set(after)), pairs


def _same(then: _Left, now: _Left) -> bool:
    flags = then.facts[:-1] == now.facts[:-1] and then.gradient[0] is now.gradient[0]
    return flags and _equal(then.values, now.values) and _equal(then.gradient[1], now.gradient[1])


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return torch.equal(a.nan_to_num(7.25), b.nan_to_num(7.25))


def _share(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != 0
