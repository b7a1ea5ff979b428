"""What is switched in modules: training mode, and which parameters require grad."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pertdbg.agent.base import requires_grad
from pertdbg.agent.between.events import Ref
from pertdbg.agent.names import _tensors, _within
from pertdbg.agent.tensors import is_tensor


@dataclass(frozen=True, slots=True)
class State:
    """How a module and all below it are switched."""

    training: int
    """Modules in training mode."""
    trainable: int
    """Parameters that require grad."""


class Switches:
    """The switches of one module and all below it, found once and read often."""

    def __init__(self, module: Any) -> None:
        self.module: Ref = weakref.ref(module)
        self.name = type(module).__name__
        self._find(module)

    def read(self) -> State | None:
        """Give the state; None where the module is gone, or is made of other parts by now."""
        module = self.module()
        if module is None:
            return None
        modules = [each for ref in self._modules if (each := ref()) is not None]
        tensors = [tensor for ref in self._tensors if (tensor := ref()) is not None]
        if len(modules) < len(self._modules) or len(tensors) < len(self._tensors):
            self._find(module)
            return None
        training = sum(each.__dict__.get("training") is True for each in modules)
        return State(training, sum(requires_grad(tensor) for tensor in tensors))

    def draws(self) -> bool:
        """Say whether a dropout below is at work."""
        return any(_drops(ref()) for ref in self._dropouts)

    @property
    def may_draw(self) -> bool:
        """Whether there is a dropout below."""
        return bool(self._dropouts)

    def _find(self, module: Any) -> None:
        below = [each for _, each in _within(module)]
        self._modules = [weakref.ref(each) for each in below]
        self._dropouts = [weakref.ref(each) for each in below if "Dropout" in type(each).__name__]
        self._tensors = [weakref.ref(t) for each in below for _, t in _tensors(each)]


def _drops(module: Any) -> bool:
    held = getattr(module, "__dict__", {})
    return held.get("training") is True and bool(held.get("p", 0))


class Modes:
    """Remembers how modules were switched before and while a perturbation was made."""

    def __init__(self) -> None:
        self._known: dict[int, Switches] = {}
        self._before: dict[int, State] = {}
        self._during: dict[int, State] = {}
        self._layers: dict[int, set[str]] = {}

    def switches(self, module: Any) -> Switches:
        """Give the switches of a module."""
        known = self._known.get(id(module))
        if known is None or known.module() is not module:
            self._known = {k: each for k, each in self._known.items() if each.module() is not None}
            known = self._known[id(module)] = Switches(module)
            for states in (self._before, self._during, self._layers):
                states.pop(id(module), None)
        return known

    def before(self, module: Any) -> None:
        """Note how a module is switched before the perturbation."""
        state = self.switches(module).read()
        self._forget(id(module))
        if state is not None:
            self._before[id(module)] = state

    def during(self, layer: str) -> None:
        """Note how all modules are switched while a layer's perturbation is made."""
        for ident in self._before:
            known = self._known.get(ident)
            state = None if known is None else known.read()
            if state is not None:
                self._during[ident] = state
                self._layers.setdefault(ident, set()).add(layer)

    def left(self) -> list[tuple[str, frozenset[str]]]:
        """Say what is switched off as it was for the perturbation, and was not before."""
        found: list[tuple[str, frozenset[str]]] = []
        for ident, during in list(self._during.items()):
            before, known = self._before.get(ident), self._known.get(ident)
            now = None if known is None else known.read()
            if known is None or before is None or now != during:
                continue
            layers = frozenset(self._layers.get(ident, ()))
            off = [n for n in _OFF if getattr(during, n) < getattr(before, n)]
            found += [(f"{known.name}: {_OFF[name]}", layers) for name in off]
        return found

    def _forget(self, ident: int) -> None:
        for states in (self._before, self._during, self._layers):
            states.pop(ident, None)


_OFF = {"training": "eval mode", "trainable": "frozen parameters"}


class Optimizers:
    """The optimizers of the target, and what they hold."""

    def __init__(self) -> None:
        self._known: list[Ref] = []

    def made(self, optimizer: Any) -> None:
        """Note a new one."""
        self._known = [ref for ref in self._known if ref() is not None]
        self._known.append(weakref.ref(optimizer))

    def hold(self, tensor: Any) -> bool:
        """Say whether one of them moves a tensor."""
        return any(each is tensor for each in self._held())

    def _held(self) -> Iterable[Any]:
        for ref in self._known:
            yield from held_by(ref())


def held_by(optimizer: Any) -> Iterator[Any]:
    """Give the tensors that an optimizer moves."""
    groups = getattr(optimizer, "__dict__", {}).get("param_groups", ())
    for group in groups if type(groups) is list else ():
        yield from (each for each in group.get("params", ()) if is_tensor(each))
