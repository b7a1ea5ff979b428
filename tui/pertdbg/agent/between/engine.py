"""Each pass through the autograd engine, told of where torch's own function calls it."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from pertdbg.agent.base import grad_fn_of, grad_of, is_leaf, numel
from pertdbg.agent.between.events import Backward, Pass, Watched
from pertdbg.agent.between.graphs import (
    Reached,
    compares,
    factor_of,
    mark_kept,
    marked_in,
    reach,
)
from pertdbg.agent.between.samples import is_parameter, sample, version
from pertdbg.agent.between.telling import Told, told, weak
from pertdbg.agent.tensors import is_tensor

if TYPE_CHECKING:
    from pertdbg.agent.between.flow import Flow

_NAMES = frozenset({"t_outputs", "args", "kwargs"})
_GRADIENTS, _RETAINS, _CREATES, _INPUTS = range(4)
"""Places among the engine's arguments behind the outputs (torch 2.4 to 2.14)."""


class BackwardCalls:
    """Follows the function of torch that runs the engine."""

    by_line = False

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def begin(self, frame: types.FrameType) -> Told | None:
        """The engine is about to run."""
        return told(self._flow, frame, _NAMES, self._begin)

    def _begin(self, scope: dict[str, Any]) -> Told:
        flow, arguments, options = self._flow, scope["args"], scope["kwargs"]
        roots = [root for root in map(_node, scope["t_outputs"]) if root is not None]
        inputs = _at(arguments, _INPUTS) or ()
        backward = Backward(
            at=flow.tick(),
            root=roots[0].name()[:100] if roots else None,
            finite=_is_finite(scope["t_outputs"]),
            fills=bool(options.get("accumulate_grad", True)),
            retains=bool(_at(arguments, _RETAINS)),
            creates=bool(_at(arguments, _CREATES)),
        )
        found = reach(roots)
        backward.complete = found.complete
        self._read_leaves(backward, found, [each for each in inputs if is_tensor(each)])
        gradients = _at(arguments, _GRADIENTS) or (None,)
        if len(roots) == 1:
            backward.factor = factor_of(roots[0], gradients[0])
        self._read_passes(backward, found)
        self._read_kept(backward, found, roots)
        flow.add_backward(backward)
        return Told(lambda _, error: flow.close_backward(backward, error))

    def _read_leaves(self, backward: Backward, found: Reached, inputs: list[Any]) -> None:
        """Note which leaves the pass leads to, and which of them have a gradient already."""
        leaves = found.leaves
        if inputs:
            asked = [each for each in inputs if is_leaf(each) or grad_fn_of(each) in found.nodes]
            leaves = [each for each in asked if not is_leaf(each) or _among(each, found.leaves)]
        backward.leaves = [weak(leaf) for leaf in leaves]
        if backward.fills:
            backward.dirty = [weak(leaf) for leaf in leaves if _has_gradient(leaf)]

    def _read_passes(self, backward: Backward, found: Reached) -> None:
        """Note what became of the tensors that went into modules since the pass before."""
        passes = self._flow.passes_since_backward
        reached = {id(leaf) for leaf in found.leaves}
        # The first one that took it: a loss that is a module is given all parameters.
        first = next((each for each in passes if each.fed and each.fed.carries), None)
        backward.output_finite = None if first is None else first.finite
        behind = [] if first is None or first.fed is None else [ref() for ref in first.fed.leaves]
        backward.behind = [weak(t) for t in behind if t is not None and id(t) in reached]
        for each in passes:
            backward.written += [watched.tensor for watched in each.watched if _is_written(watched)]
            backward.compared = backward.compared or self._compares(each, found)

    def _compares(self, passed: Pass, found: Reached) -> bool:
        clean = self._flow.clean_output(passed)
        if clean is None:
            return False
        return compares(found.nodes, clean, passed.output)

    def _read_kept(self, backward: Backward, found: Reached, roots: list[Any]) -> None:
        """Follow how long the graph lives, where it is to be kept; note which ones are freed."""
        flow = self._flow
        if backward.retains and not backward.creates and roots:
            backward.graph = mark_kept(roots[0])
        elif not backward.retains and flow.kept:
            names = {each.root for each in flow.kept if each.root is not None}
            marks = list(marked_in(found.nodes, names))
            for each in flow.kept:
                graph = None if each.graph is None else each.graph()
                each.freed = each.freed or any(graph is mark for mark in marks)


def _is_finite(losses: Any) -> bool | None:
    """Say whether a loss is a finite number; None where it is several, or lies on a device."""
    seen = sample(losses[0]) if len(losses) == 1 else None
    if seen is None or seen.values.numel() != 1:
        return None
    return bool(torch.isfinite(seen.values))


def _at(arguments: tuple[Any, ...], place: int) -> Any:
    return arguments[place] if len(arguments) > place else None


def _node(root: Any) -> Any:
    """Give the node that a pass starts from: of a tensor, or of an edge of the graph."""
    if not is_tensor(root):
        return getattr(root, "node", None)
    return grad_fn_of(root)


def _among(tensor: Any, tensors: list[Any]) -> bool:
    return any(tensor is each for each in tensors)


def _has_gradient(leaf: Any) -> bool:
    """Say whether a leaf that is no parameter has a gradient that is not zero."""
    if is_parameter(leaf):
        return False
    seen = sample(grad_of(leaf))
    return seen is not None and bool((seen.values != 0).any())


def _is_written(watched: Watched) -> bool:
    tensor = watched.tensor()
    if tensor is None or not numel(tensor) or version(tensor) != watched.version:
        return False
    now = sample(tensor)
    return now is not None and not now.same(watched.sample)
