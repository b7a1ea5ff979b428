"""Names of layers and parameters, from the modules that are alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from pertdbg.agent.base import dtype_of, shape_of
from pertdbg.agent.tensors import is_tensor, name_of

Named = dict[int, tuple["weakref.ref[Any]", str]]

_mro = type.__dict__["__mro__"].__get__

_SPARE = 4
"""Searches that may find nothing before they become rare."""


class Names:
    """Finds names by searching the live modules, and keeps them by weak reference.

    A search looks at every object that the garbage collector tracks (tens of milliseconds in a
    large program), so that it runs only when a tensor is met that is not known yet.
    """

    def __init__(self) -> None:
        self._modules: Named = {}
        self._tensors: Named = {}
        self._strangers: dict[int, weakref.ref[Any]] = {}
        self._missed = 0
        self._fruitless = 0

    def parameter(self, tensor: torch.Tensor) -> str:
        """Give the path of a parameter from its outermost module, else describe the tensor."""
        known = _lookup(self._tensors, tensor)
        if known is None and not self._is_stranger(tensor) and self._may_search():
            self._search()
            known = _lookup(self._tensors, tensor)
            self._fruitless = self._fruitless + 1 if known is None else 0
            if known is None:
                self._strangers[id(tensor)] = weakref.ref(tensor)
        return known or describe(tensor)

    def layer(self, layer: object) -> str:
        """Give the path of a module inside its outermost module, else the name of its class."""
        name = _lookup(self._modules, layer)
        if name is None and isinstance(layer, torch.nn.Module):
            self._search()
            name = _lookup(self._modules, layer)
        return name or type(layer).__name__

    def _is_stranger(self, tensor: torch.Tensor) -> bool:
        stranger = self._strangers.get(id(tensor))
        return stranger is not None and stranger() is tensor

    def _may_search(self) -> bool:
        """Search ever less often while searches find nothing: a loop may make leaves anew."""
        self._missed += 1
        if self._fruitless >= _SPARE and self._missed < 2**self._fruitless:
            return False
        self._missed = 0
        self._strangers = {k: ref for k, ref in self._strangers.items() if ref() is not None}
        return True

    def _search(self) -> None:
        modules = _live_modules()
        children = {id(child) for module in modules for _, child in _children(module)}
        roots = [module for module in modules if id(module) not in children]
        self._modules, self._tensors = {}, {}
        for root in roots or modules:
            for path, module in _within(root):
                _keep_longer(self._modules, module, path)
                for name, tensor in _tensors(module):
                    _keep_longer(self._tensors, tensor, f"{path}.{name}" if path else name)


def describe(tensor: torch.Tensor) -> str:
    """Describe a leaf that has no name: ``leaf float32[4, 16]``."""
    shape = ", ".join(str(size) for size in shape_of(tensor))
    return f"leaf {name_of(dtype_of(tensor))}[{shape}]"


def _live_modules() -> list[torch.nn.Module]:
    """List the live modules by type alone: asking foreign proxies for anything runs their code."""
    is_module: dict[type, bool] = {}
    found = []
    for value in gc.get_objects():
        kind = type(value)
        known = is_module.get(kind)
        if known is None:
            known = is_module[kind] = torch.nn.Module in _mro(kind)
        if known:
            found.append(value)
    return found


def _entries(module: torch.nn.Module, table: str) -> list[tuple[str, Any]]:
    entries = object.__getattribute__(module, "__dict__").get(table)
    return list(entries.items()) if isinstance(entries, dict) else []


def _children(module: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    for name, child in _entries(module, "_modules"):
        if isinstance(child, torch.nn.Module):
            yield name, child


def _tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for table in ("_parameters", "_buffers"):
        for name, tensor in _entries(module, table):
            if is_tensor(tensor):
                yield name, tensor


def _within(root: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Walk a module and all below it, each once, with paths as `named_modules` gives them."""
    seen, waiting = {id(root)}, [("", root)]
    while waiting:
        path, module = waiting.pop()
        yield path, module
        for name, child in reversed(list(_children(module))):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append((f"{path}.{name}" if path else name, child))


def _keep_longer(named: Named, thing: Any, path: str) -> None:
    known = _lookup(named, thing)
    if known is None or path.count(".") > known.count("."):
        named[id(thing)] = (weakref.ref(thing), path)


def _lookup(named: Named, thing: object) -> str | None:
    reference, name = named.get(id(thing), (None, None))
    return name if reference is not None and reference() is thing else None


names = Names()
"""The names of this process."""


def layer_name(layer: object) -> str:
    """Give the path of a layer inside its outermost module, or its class's name if it is alone."""
    return names.layer(layer)
