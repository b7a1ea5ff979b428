"""The autograd graph behind a tensor: its size, and the leaves that a backward would fill."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from pertdbg.agent.base import grad_fn_of, requires_grad
from pertdbg.agent.quiet import Notes
from pertdbg.agent.tensors import is_tensor
from pertdbg.record import GraphFacts, Graphs, Reach

LIMIT = 1000
"""Nodes after which a walk stops."""


@dataclass(slots=True)
class Walk:
    """What a walk over a graph found."""

    facts: GraphFacts
    leaves: list[torch.Tensor] = field(default_factory=list)
    """Tensors whose `.grad` a backward would fill, nearest first."""


def walk(tensor: torch.Tensor) -> Walk:
    """Walk from a tensor to the leaves behind it, without recursion, to at most `LIMIT` nodes."""
    root = grad_fn_of(tensor)
    if root is None:
        itself = [tensor] if requires_grad(tensor) else []
        return Walk(GraphFacts(nodes=0, depth=0, complete=True), itself)
    edges, complete = edges_of(root, LIMIT)
    leaves = [node.variable for node in edges if type(node).__name__ == "AccumulateGrad"]
    return Walk(GraphFacts(len(edges), _depth(edges), complete), leaves)


def edges_of(root: Any, limit: int) -> tuple[dict[Any, list[Any]], bool]:
    """Collect nodes breadth first, each with the collected nodes that it leads to.

    Args:
        root: Where to begin.
        limit: Nodes after which the walk stops.

    Returns:
        The nodes, and whether they are all that there are.
    """
    edges: dict[Any, list[Any]] = {root: []}
    waiting, complete = deque([root]), True
    while waiting:
        node = waiting.popleft()
        for child, _ in node.next_functions:
            if child is None:
                continue
            if child not in edges:
                if len(edges) >= limit:
                    complete = False
                    continue
                edges[child] = []
                waiting.append(child)
            edges[node].append(child)
    return edges, complete


def _depth(edges: dict[Any, list[Any]]) -> int:
    """Count the nodes on the longest path: a node is settled when all that lead to it are."""
    pending = dict.fromkeys(edges, 0)
    for children in edges.values():
        for child in children:
            pending[child] += 1
    depth = dict.fromkeys(edges, 1)
    ready = [node for node, count in pending.items() if not count]
    while ready:
        node = ready.pop()
        for child in edges[node]:
            depth[child] = max(depth[child], depth[node] + 1)
            pending[child] -= 1
            if not pending[child]:
                ready.append(child)
    return max(depth.values())


def reached(
    leaves: list[torch.Tensor],
    roles: dict[str, object],
    parameter_name: Callable[[torch.Tensor], str],
) -> tuple[str, ...]:
    """Name leaves: by role, else by `parameter_name`; delta first, the rest in alphabetic order."""
    names = []
    for leaf in leaves:
        role = next((name for name, tensor in roles.items() if tensor is leaf), None)
        names.append(role or parameter_name(leaf))
    return tuple(sorted(names, key=lambda name: (name != "delta", name)))


def graphs_of(
    roles: dict[str, object], parameter_name: Callable[[torch.Tensor], str], notes: Notes
) -> tuple[Graphs, Reach]:
    """Walk the graphs behind delta and the perturbed input, and name what the latter reaches."""
    walks: dict[str, Walk | None] = {}
    for role in ("delta", "perturbed_input"):
        tensor = roles[role]
        if is_tensor(tensor):
            walks[role] = notes.attempt(f"graph.{role}", functools.partial(walk, tensor))
    graphs = Graphs(**{role: found.facts for role, found in walks.items() if found is not None})
    perturbed = walks.get("perturbed_input")
    if perturbed is None:
        if "perturbed_input" in walks:
            notes.add("backward_reaches", "no-graph")
        return graphs, Reach()
    leaves = perturbed.leaves
    names = notes.attempt("backward_reaches", lambda: reached(leaves, roles, parameter_name))
    return graphs, Reach(names or (), perturbed.facts.complete)
