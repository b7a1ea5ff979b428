"""What a backward is going to do, read from the graph before it begins."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from pertdbg.agent.base import C, is_cpu, numel, shape_of
from pertdbg.agent.between.events import Ref
from pertdbg.agent.graph import LIMIT
from pertdbg.agent.tensors import is_tensor

_KEY = "pertdbg"
_LOSS_NODES = 24
"""Nodes next to the root in which a comparison with a clean pass is looked for."""
_FACTORS = 4
"""Nodes at the root that may each multiply the loss."""
_SCALES = 16.0, 100.0


class _Kept:
    """Lies in a node's metadata and dies with the node."""

    __slots__ = ("__weakref__",)


@dataclass(slots=True)
class Reached:
    """The nodes and leaves behind some tensors."""

    nodes: dict[Any, None] = field(default_factory=dict)
    """Nearest first."""
    leaves: list[torch.Tensor] = field(default_factory=list)
    complete: bool = True


def reach(roots: Iterable[Any], limit: int = LIMIT) -> Reached:
    """Walk from nodes to the leaves behind them, to at most so many nodes."""
    nodes = dict.fromkeys(roots)
    found, waiting = Reached(nodes), list(nodes)
    for node in waiting:  # grows as it is gone through
        children = node.next_functions
        if not children and type(node).__name__ == "AccumulateGrad":
            found.leaves.append(node.variable)
        for child, _ in children:
            if child is not None and child not in nodes:
                nodes[child] = None
                waiting.append(child)
        if len(nodes) > limit:
            found.complete = False
            break
    return found


def mark_kept(node: Any) -> Ref:
    """Give something that lives as long as a node, without keeping the node alive.

    A node's Python object dies when nobody looks at it, so that only what the node itself holds
    can tell.
    """
    kept = node.metadata.setdefault(_KEY, _Kept())
    return weakref.ref(kept)


def marked_in(nodes: Iterable[Any], names: set[str]) -> Iterator[Any]:
    """Give the marks of those nodes that have one; only nodes of these names are asked."""
    for node in nodes:
        if node.name() in names:
            kept = node.metadata.get(_KEY)
            if kept is not None:
                yield kept


def factor_of(root: Any, gradient: Any) -> Any:
    """Give the constant that a loss was multiplied by last: a number, or a copy on its device.

    Args:
        root: Node of the loss.
        gradient: The gradient that the pass was started with, if any was given.
    """
    factor: Any = 1.0
    if is_tensor(gradient) and numel(gradient) == 1:
        factor = _number(gradient)
    node = root
    for _ in range(_FACTORS):
        name = node.name()
        if name not in ("MulBackward0", "DivBackward0") or _unpacks():
            break
        other = node._saved_other
        children = [child for child, _ in node.next_functions if child is not None]
        if not is_tensor(other) or numel(other) != 1 or len(children) != 1:
            break
        number = _number(other)
        factor = factor * number if name == "MulBackward0" else factor / number
        node = children[0]
    return factor


def is_scale(factor: float) -> bool:
    """Say whether a factor has the size of a loss scale: a high power of two, or a large number."""
    size = abs(factor)
    mantissa = size.hex().split("p")[0] if size else ""
    return size >= _SCALES[1] or (size >= _SCALES[0] and mantissa == "0x1.0000000000000")


def compares(nodes: Iterable[Any], clean: torch.Tensor, output: torch.Tensor) -> bool:
    """Say whether a loss compares with a clean pass: it has saved what that pass gave.

    That is the output as it is, as probabilities or their logarithms, or minus the other output.

    Args:
        nodes: Of the loss, nearest first.
        clean: What the clean pass gave, copied.
        output: What the perturbed pass gave, copied; of the same shape.
    """
    if _unpacks():
        return False
    wanted = list(_forms(clean))
    pairs = list(zip(_forms(output), wanted, strict=True))
    wanted += [a - b for a, b in pairs] + [b - a for a, b in pairs]
    return any(
        torch.allclose(value, each, 1e-4, 1e-7) for value in _saved(nodes, clean) for each in wanted
    )


def _forms(output: torch.Tensor) -> Iterator[torch.Tensor]:
    yield output
    yield output.sigmoid()
    for dim in {output.dim() - 1, min(1, output.dim() - 1)} if output.dim() else ():
        yield output.softmax(dim)
        yield output.log_softmax(dim)


def _saved(nodes: Iterable[Any], like: torch.Tensor) -> Iterator[torch.Tensor]:
    for node, _ in zip(nodes, range(_LOSS_NODES), strict=False):
        for name in _names(type(node)):
            value = getattr(node, name, None)
            if not is_tensor(value) or not is_cpu(value) or value.dtype != like.dtype:
                continue
            if shape_of(value) == shape_of(like):
                yield value.detach()


_saved_names: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    known = _saved_names.get(kind)
    if known is None:
        known = tuple(name for name in dir(kind) if name.startswith("_saved_"))
        _saved_names[kind] = known
    return known


def _number(value: torch.Tensor) -> Any:
    """Give a tensor's one value; on a device a copy, so that nothing waits for it here."""
    return float(value) if is_cpu(value) else value.detach().reshape(()).double()


def _unpacks() -> bool:
    """Say whether reading what a node has saved might run code of the target's."""
    return C._autograd._top_saved_tensors_default_hooks(True) is not None
