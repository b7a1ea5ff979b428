"""Classes that are recognised by their shape: a method, and the names that their code uses."""

from __future__ import annotations

import types
from collections.abc import Iterator

import torch

from pertdbg.agent.adapter import Adapter
from pertdbg.agent.seams.plans import used_by
from pertdbg.agent.seams.spec import Spec, roots
from pertdbg.agent.written import written

_NOT_OURS = (torch.nn.Module, object)


def adapter_for(cls: type, spec: Spec) -> tuple[Adapter | None, str]:
    """Give the adapter of a class, else what the class lacks; no text where it is far off."""
    method = spec.methods[0]
    if not isinstance(getattr(cls, method, None), types.FunctionType):
        return None, ""
    used = _names_used(cls)
    missing = spec.missing_names(used)
    if missing is not None:
        return None, f"{cls.__qualname__} has {method} but uses none of {', '.join(missing)}"
    return _adapter(spec, used), ""


def subclasses(cls: type) -> Iterator[type]:
    """Give every class below one, each once."""
    seen: set[type] = set()
    waiting = [cls]
    while waiting:
        below: type
        for below in type.__subclasses__(waiting.pop()):
            if below not in seen:
                seen.add(below)
                waiting.append(below)
                yield below


def _names_used(cls: type) -> frozenset[str]:
    """Give the names that the class's own functions use, and those of its bases."""
    functions = [
        value
        for base in cls.__mro__
        if base not in _NOT_OURS
        for value in vars(base).values()
        if isinstance(value, types.FunctionType)
    ]
    return frozenset().union(*(used_by(written(function)) for function in functions))


def _adapter(spec: Spec, used: frozenset[str]) -> Adapter:
    bound = _usable(spec.bound, used)
    return Adapter(
        method=spec.methods[0],
        delta=_named(spec.delta, used),
        input=_named(spec.input, used),
        perturbed_input=_named(spec.perturbed_input, used),
        bound=bound,
        bound_kind=None if bound is None else spec.bound_kind,
        learning_rate=_usable(spec.learning_rate, used),
    )


def _named(expressions: tuple[str, ...], used: frozenset[str]) -> str:
    """Give the attribute of ``self.attribute``: the first that the class uses."""
    names = [expression.removeprefix("self.") for expression in expressions]
    return next((name for name in names if name in used), names[0])


def _usable(expressions: tuple[str, ...], used: frozenset[str]) -> str | None:
    """Give the first expression whose attributes the class uses."""
    for expression in expressions:
        named = roots([expression.replace("self.", "")])
        if named <= used:
            return expression
    return None
