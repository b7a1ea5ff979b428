"""The autograd graph behind a tensor, node by node: what a backward fills, and what is kept for it.

Nothing is unpacked: hooks that the target has on saved tensors do not run, and a graph whose
tensors have been freed is not asked for them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from pertdbg.agent.base import element_size, grad_fn_of, numel, requires_grad, shape_of
from pertdbg.agent.graph import edges_of
from pertdbg.agent.tensors import is_tensor
from pertdbg.event import GraphNode, GraphTree

NODES_LIMIT = 300
"""Nodes after which a walk stops."""

SAVED_LIMIT = 32
"""Tensors that are named of one node."""

_PREFIX = "_raw_saved_"

NameLeaf = Callable[[torch.Tensor], str]


def tree_of(tensor: object, name: NameLeaf) -> GraphTree:
    """Walk the graph behind a tensor; wants `Quiet` around it.

    Args:
        tensor: What stands in a role.
        name: Names a leaf.
    """
    if not is_tensor(tensor):
        return GraphTree((), complete=True, reason="no-tensor")
    root = grad_fn_of(tensor)
    if root is None:
        reason = "leaf" if requires_grad(tensor) else "no-graph"
        return GraphTree((), complete=True, reason=reason)
    edges, complete = edges_of(root, NODES_LIMIT)
    places = {node: place for place, node in enumerate(edges)}
    nodes = [_node(node, [places[child] for child in to], name) for node, to in edges.items()]
    return GraphTree(tuple(nodes), complete)


def _node(node: Any, inputs: list[int], name: NameLeaf) -> GraphNode:
    kind = node.name()
    if type(node).__name__ == "AccumulateGrad":
        return GraphNode(kind, leaf=name(node.variable), inputs=tuple(inputs))
    saved, freed = _saved(node)
    return GraphNode(kind, None, tuple(saved), freed, tuple(inputs))


@functools.lru_cache(maxsize=512)
def _attributes(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith(_PREFIX))


def _saved(node: Any) -> tuple[list[tuple[str, tuple[int, ...], int]], bool]:
    """Give what a node keeps, and whether a backward has freed it."""
    found: list[tuple[str, tuple[int, ...], int]] = []
    freed = False
    kind: Any = type(node)
    for attribute in _attributes(kind):
        name = attribute.removeprefix(_PREFIX)
        try:
            kept = getattr(node, attribute)
        except RuntimeError:  # a function of the target's own says so when it was freed
            freed = True
            continue
        each = kept if isinstance(kept, (tuple, list)) else [kept]
        for place, one in enumerate(each[:SAVED_LIMIT]):
            shown = f"{name}[{place}]" if isinstance(kept, (tuple, list)) else name
            data = getattr(one, "data", None)
            if is_tensor(data):
                shape = tuple(int(size) for size in shape_of(data))
                found.append((shown, shape, numel(data) * element_size(data)))
            elif getattr(one, "unpack_hook", True) is None and _is_freed(node, name):
                freed = True
    return found[:SAVED_LIMIT], freed


def _is_freed(node: Any, name: str) -> bool:
    """Say whether a backward has let go of what was saved; where nothing was, that gives None."""
    try:
        getattr(node, f"_saved_{name}")
    except RuntimeError:
        return True
    return False
