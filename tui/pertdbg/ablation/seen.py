"""What a record lacks: losses, leaves that backwards filled, bytes that stay, every last bit."""

from __future__ import annotations

import functools
import gc
import hashlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from pertdbg.agent.adapter import Adapter, Missing, stored
from pertdbg.agent.graph import walk
from pertdbg.agent.names import names

_ROLES = ("delta", "input", "perturbed_input")
_NODES = 20_000
"""Most nodes of the graph whose saved tensors are counted."""


class Seen:
    """Collects facts of a run in plain values, at each backward and after each call."""

    def __init__(
        self,
        calls: Callable[[], int],
        layer: object = None,
        adapter: Adapter | None = None,
    ) -> None:
        """Prepare.

        Args:
            calls: Gives the number of update calls that have ended.
            layer: The layer whose update is ablated; None where delta is no attribute of anything.
            adapter: Where its tensors are.
        """
        self._layer, self._adapter, self._calls = layer, adapter, calls
        self.backwards: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.in_backward = False
        self._deltas: list[tuple[weakref.ref[torch.Tensor], str]] = []

    def install(self) -> None:
        """Look at each backward from now on, until the process ends."""
        from torch.autograd import Variable

        Variable._execution_engine = _Engine(Variable._execution_engine, self)  # type: ignore[assignment]

    @torch.no_grad()
    def after_call(self, digests: dict[str, str] | None = None) -> None:
        """Note the bits of the call's tensors and how many bytes of tensors are alive.

        Args:
            digests: The bits, where there is no layer to read them from.
        """
        delta = self._role("delta")
        if delta is not None and all(delta is not known() for known, _ in self._deltas):
            alive = [pair for pair in self._deltas if pair[0]() is not None]
            self._deltas = [*alive, (weakref.ref(delta), f"delta of call {self._calls()}")]
        read = {role: _digest(self._role(role)) for role in _ROLES} if digests is None else digests
        self.calls.append({"bytes": live_bytes(), **read})

    def backward(self, roots: Any, run: Callable[[], Any]) -> Any:
        """Run a backward and note its loss and the leaves, other than delta, that it filled."""
        leaves = self._leaves(roots)
        before = [_state(leaf) for leaf in leaves]
        entry: dict[str, Any] = {"call": self._calls() + 1, "loss": _loss(roots)}
        self.backwards.append(entry)
        self.in_backward = True
        try:
            result = run()
            self.in_backward = False
        finally:
            entry["filled"] = {
                self._name(leaf): _norm(leaf)
                for leaf, state in zip(leaves, before, strict=True)
                if _state(leaf) != state
            }
        return result

    def _leaves(self, roots: Any) -> list[torch.Tensor]:
        delta = self._role("delta")
        tensors = roots if isinstance(roots, (tuple, list)) else (roots,)
        found = {id(leaf): leaf for root in tensors for leaf in walk(root).leaves}
        if self._adapter is None:  # delta can't be told from others: parameters are what leaks
            return [leaf for leaf in found.values() if isinstance(leaf, torch.nn.Parameter)]
        return [leaf for leaf in found.values() if leaf is not delta]

    def _name(self, leaf: torch.Tensor) -> str:
        """Name a leaf; one that was delta before is told from a stranger."""
        earlier = (name for known, name in self._deltas if known() is leaf)
        return next(earlier, None) or names.parameter(leaf)

    def _role(self, role: str) -> torch.Tensor | None:
        if self._adapter is None:
            return None
        try:
            found = stored(self._layer, getattr(self._adapter, role))
        except Missing:
            return None
        return found if isinstance(found, torch.Tensor) else None


class _Engine:
    """Stands in for torch's engine object, around the agent's that counts."""

    def __init__(self, engine: Any, seen: Seen) -> None:
        self._engine, self._seen = engine, seen

    def run_backward(self, roots: Any, *args: Any, **kwargs: Any) -> Any:
        run = functools.partial(self._engine.run_backward, roots, *args, **kwargs)
        return self._seen.backward(roots, run)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def _state(leaf: torch.Tensor) -> tuple[int, int] | None:
    """Tell a gradient from what it is after something was added to it."""
    return None if leaf.grad is None else (id(leaf.grad), leaf.grad._version)


@torch.no_grad()
def _norm(leaf: torch.Tensor) -> float | None:
    return None if leaf.grad is None else float(leaf.grad.double().norm())


@torch.no_grad()
def _loss(roots: Any) -> list[str]:
    tensors = roots if isinstance(roots, (tuple, list)) else (roots,)
    return [float(t).hex() if t.numel() == 1 else (_digest(t) or "") for t in tensors]


def _digest(tensor: torch.Tensor | None) -> str | None:
    """Give a short text that differs where any bit of the elements does."""
    if tensor is None:
        return None
    try:
        plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        return digest_of(plain.numpy())
    except (RuntimeError, TypeError) as error:
        return f"unknown: {type(error).__name__}"


def digest_of(data: Any) -> str:
    """Give the short text for bytes, or anything that holds some."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def live_bytes() -> int:
    """Count the bytes of the tensors that are alive, those that graphs have saved included.

    Only objects made after `gc.freeze` are looked at.
    """
    gc.collect()
    tensors = [t for t in gc.get_objects() if issubclass(type(t), torch.Tensor)]
    sizes: dict[int, int] = {}
    for tensor in tensors:
        _count(tensor, sizes)
    for node in _nodes(tensors):
        for tensor in _saved(node):
            _count(tensor, sizes)
    return sum(sizes.values())


def _count(tensor: torch.Tensor, sizes: dict[int, int]) -> None:
    try:
        storage = tensor.untyped_storage()
        sizes[storage._cdata] = storage.nbytes()
    except (RuntimeError, NotImplementedError):  # sparse tensors and wrappers have none
        return


def _nodes(tensors: list[torch.Tensor]) -> Iterator[Any]:
    waiting = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen = set(waiting)
    while waiting and len(seen) < _NODES:
        node = waiting.pop()
        yield node
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)


_SAVED: dict[type, tuple[str, ...]] = {}


def _saved_names(kind: type) -> tuple[str, ...]:
    if kind not in _SAVED:
        _SAVED[kind] = tuple(name for name in dir(kind) if name.startswith("_saved_"))
    return _SAVED[kind]


def _saved(node: Any) -> Iterator[torch.Tensor]:
    for name in _saved_names(type(node)):
        try:
            saved = getattr(node, name)
        except RuntimeError:  # freed by a backward, or written to in place since
            continue
        if isinstance(saved, torch.Tensor):
            yield saved
        elif isinstance(saved, tuple):
            yield from (part for part in saved if isinstance(part, torch.Tensor))
