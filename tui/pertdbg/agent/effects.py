"""What a question has changed: tensors in reach, attributes, modes and random states."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from pertdbg.agent.base import grad_of, is_inference, requires_grad, version_of
from pertdbg.agent.quiet import Quiet
from pertdbg.agent.tensors import is_tensor, reads_grad

MOST = 5000
"""Most tensors that are looked at."""

NAMED = 20
"""Most changes that are named one by one."""


@dataclass
class Snapshot:
    """How things stood before a question."""

    tensors: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """By path: the tensor, and what can be told of it."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Of `self`."""
    random: dict[str, Any] = field(default_factory=dict)
    modes: tuple[bool, ...] = ()

    @classmethod
    def take(cls, names: Mapping[str, Any]) -> Snapshot:
        """Take note of how things stand."""
        with Quiet():
            tensors = {path: (tensor, _state(tensor)) for path, tensor in _reach(names)}
            return cls(tensors, _attributes(names.get("self")), _random(), _modes())

    def changes(self, names: Mapping[str, Any]) -> list[str]:
        """Say in words what is another way now."""
        found: list[str] = []
        with Quiet():
            for path, (tensor, before) in self.tensors.items():
                found += [f"{path}: {words}" for words in _different(before, _state(tensor))]
            now = _attributes(names.get("self"))
            for name in {**self.attributes, **now}:
                if name not in now:
                    found.append(f"self.{name} is gone")
                elif name not in self.attributes:
                    found.append(f"self.{name} is new")
                elif now[name] is not self.attributes[name]:
                    found.append(f"self.{name} is another object")
            moved = [k for k, v in _random().items() if k in self.random and self.random[k] != v]
            found += [f"the random state of {name} has moved on" for name in moved]
            if _modes() != self.modes:
                found.append("a mode of torch (gradients, inference, autocast) was switched")
        more = [f"and {len(found) - NAMED} more"] if len(found) > NAMED else []
        return found[:NAMED] + more


def _reach(names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give the tensors that a question can reach by names and by what `self` and modules store."""
    seen: set[int] = set()
    waiting = [(name, value) for name, value in names.items() if _is_worth(value, name)]
    while waiting and len(seen) < MOST:
        path, value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if is_tensor(value):
            yield path, value
            continue
        for name, inner in _stored(value).items():
            if is_tensor(inner) or isinstance(inner, torch.nn.Module):
                waiting.append((f"{path}.{name}", inner))


def _is_worth(value: Any, name: str) -> bool:
    return is_tensor(value) or isinstance(value, torch.nn.Module) or name == "self"


def _stored(owner: Any) -> dict[str, Any]:
    fields = getattr(owner, "__dict__", {})
    found = dict(fields)
    for table in ("_parameters", "_buffers", "_modules"):
        entries = found.pop(table, None)
        if isinstance(entries, dict):
            found.update(entries)
    return found


def _attributes(owner: Any) -> dict[str, Any]:
    return {} if owner is None else _stored(owner)


def _state(tensor: Any) -> tuple[Any, ...]:
    version = None if is_inference(tensor) else version_of(tensor)
    gradient = grad_of(tensor) if reads_grad(tensor) else None
    seen = None
    if is_tensor(gradient):
        seen = (id(gradient), None if is_inference(gradient) else version_of(gradient))
    return version, bool(requires_grad(tensor)), seen


def _different(before: tuple[Any, ...], after: tuple[Any, ...]) -> Iterator[str]:
    if before[0] != after[0]:
        yield f"written in place, version {before[0]} is {after[0]} now"
    if before[1] != after[1]:
        yield f"requires_grad is {after[1]} now"
    if before[2] != after[2]:
        yield "its .grad is another, or was written"


def _random() -> dict[str, Any]:
    states: dict[str, Any] = {"torch": bytes(torch.get_rng_state().tolist())}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for device in range(torch.cuda.device_count()):
            states[f"cuda:{device}"] = bytes(torch.cuda.get_rng_state(device).tolist())
    states["random"] = random.getstate()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states["numpy"] = str(numpy.get_state())
    return states


def _modes() -> tuple[bool, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled(),
    )
