"""Layers and classes that a person names to be watched, and the adapters for them."""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pertdbg.agent.adapter import Adapter
from pertdbg.errors import PertdbgError

Given = str | Path | Mapping[str, Any] | Adapter | None
"""What a person can give as an adapter."""


@dataclass(frozen=True, eq=False)
class Named:
    """A class that is to be watched, or one object of it."""

    cls: type
    adapter: Adapter
    title: str
    """Name of the adapter."""
    only: Callable[[], Any] | None = None
    """The one object, as long as it lives; None for all of the class."""

    def is_same(self, other: Named) -> bool:
        """Say whether another one takes the place of this."""
        mine, its = self.only and self.only(), other.only and other.only()
        return self.cls is other.cls and (mine is its or other.only is None)

    def means(self, layer: object) -> bool:
        """Say whether an object of the class is meant."""
        return self.only is None or self.only() is layer


def named(layer_or_class: object, given: Given) -> Named:
    """Find the adapter for a layer or a class.

    Raises:
        PertdbgError: None fits, or what was given is none.
    """
    cls = layer_or_class if isinstance(layer_or_class, type) else type(layer_or_class)
    only = None if isinstance(layer_or_class, type) else _weakly(layer_or_class)
    adapter, title = _adapter(cls, given)
    if not isinstance(getattr(cls, adapter.method, None), types.FunctionType):
        raise PertdbgError(f"watch: {cls.__qualname__} has no method {adapter.method!r}")
    return Named(cls, adapter, title, only)


def _weakly(layer: object) -> Callable[[], Any]:
    try:
        return weakref.ref(layer)
    except TypeError:
        kind = type(layer).__qualname__
        raise PertdbgError(
            f"watch: an object of {kind} can't be referred to weakly; name its class"
        ) from None


def _adapter(cls: type, given: Given) -> tuple[Adapter, str]:
    if isinstance(given, Adapter):
        return given, "given"
    if isinstance(given, Mapping):
        return _of_mapping(given), "given"
    from pertdbg.adapters import load, shipped

    if given is None:
        return _fitting(cls, [data for data in shipped() if data["seam"] == "method"])
    if Path(given).suffix == ".toml":
        return _fitting(cls, [load(Path(given))])
    known = {str(data["name"]): data for data in shipped()}
    if given not in known:
        raise PertdbgError(
            f"watch: no shipped adapter is called {str(given)!r}; `pertdbg adapters` lists them"
        )
    return _fitting(cls, [known[str(given)]])


def _of_mapping(given: Mapping[str, Any]) -> Adapter:
    fields = {field.name for field in dataclasses.fields(Adapter)}
    for key, value in given.items():
        if key not in fields:
            raise PertdbgError(
                f"watch: an adapter has no {key!r}; it has {', '.join(sorted(fields))}"
            )
        if not isinstance(value, str) and value is not None:
            raise PertdbgError(f"watch: {key} of an adapter is a text, not {value!r}")
    wanted = {
        key: value.removeprefix("self.") if key in _ATTRIBUTES and value else value
        for key, value in given.items()
    }
    if wanted.get("bound_kind") not in (None, "creation", "always"):
        raise PertdbgError("watch: bound_kind of an adapter is 'creation' or 'always'")
    return Adapter(**wanted)


_ATTRIBUTES = ("delta", "input", "perturbed_input")


def _fitting(cls: type, data: list[dict[str, Any]]) -> tuple[Adapter, str]:
    from pertdbg.agent.seams.shapes import adapter_for
    from pertdbg.agent.seams.spec import Spec

    reasons = []
    for spec in map(Spec.of, data):
        if spec.seam != "method":
            reasons.append(f"{spec.name} is not for a class but for a {spec.seam}")
            continue
        adapter, lacking = adapter_for(cls, spec)
        if adapter is not None:
            return adapter, spec.name
        reasons.append(lacking or f"{cls.__qualname__} has no method {spec.methods[0]!r}")
    raise PertdbgError(
        f"watch: no adapter fits: {'; '.join(reasons)}; give one: "
        "adapter={'method': ..., 'delta': ..., 'input': ..., 'perturbed_input': ...}"
    )
