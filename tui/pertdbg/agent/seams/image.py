"""Where delta is no tensor of the code's own: an image minus the original, a weight minus a copy.

Delta's numbers are then those of a difference that we compute; its facts as a tensor, and its
gradient, are those of the perturbed tensor, which plays its part.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from pertdbg.agent.base import dtype_of, is_cpu
from pertdbg.agent.gradient import find_gradient, read_gradient
from pertdbg.agent.probe import Entry, Observation, Probe
from pertdbg.agent.quiet import Quiet, Ungraded
from pertdbg.agent.tensors import is_tensor, see
from pertdbg.record import Graphs, Reach, StorageFacts, Tensors

_OURS = ("delta", "before.delta")
_LEAF = ("perturbed_input", "before.perturbed_input")
_PATHS = ("tensors.before.delta", "tensors.after.delta")


def quietly(compute: Callable[[], Any]) -> Any:
    """Compute with tensors without a graph, and unseen by modes."""
    with Quiet(), Ungraded():
        return compute()


def difference(
    perturbed: torch.Tensor, clean: torch.Tensor, bound: float | None = None
) -> torch.Tensor:
    """Compute delta as perturbed minus clean.

    An element that was clamped to the bound comes out of the sum with the input rounded, and may
    lie half a unit in the last place beyond it. Such an element counts as on the bound.
    """
    found: torch.Tensor = quietly(lambda: _difference(perturbed, clean, bound))
    return found


def _difference(perturbed: torch.Tensor, clean: torch.Tensor, bound: float | None) -> torch.Tensor:
    delta = torch.sub(perturbed, clean)
    if bound is None or not dtype_of(delta).is_floating_point:
        return delta
    size = torch.abs(delta)
    if is_cpu(delta) and not bool((size > bound).any()):
        return delta  # asking a device would wait for it
    half = torch.finfo(dtype_of(delta)).eps / 2
    slack = torch.abs(perturbed).mul_(half).add_(2 * half * abs(bound))
    rounded = (size > bound) & (size <= slack.add_(bound))
    return torch.where(rounded, torch.clamp(delta, -bound, bound), delta)


def attend(entry: Entry, of: object, gradient: Any, backwards: int | None, probe: Probe) -> None:
    """Make a given gradient, else the one in a tensor's `.grad`, the gradient of an entry."""
    notes, reason = entry.notes, None
    entry.sights.pop("gradient", None)
    with Quiet(), notes.attempting("gradient"):
        if gradient is None:
            gradient, reason = find_gradient(of, backwards, notes)
        sight = None
        if is_tensor(gradient):
            sight = see(gradient, "tensors.before.gradient", notes)
            if sight is not None:
                entry.sights["gradient"] = sight
        with Ungraded():
            entry.gradient = read_gradient(
                gradient, sight, reason, backwards, probe._settings, notes
            )


def without_difference(seen: Observation) -> Observation:
    """Take the difference that we computed out of what was seen of tensors and storages."""
    before, after = seen.tensors.before, seen.tensors.after
    tensors = Tensors(
        dataclasses.replace(before, delta=before.perturbed_input),
        dataclasses.replace(after, delta=after.perturbed_input),
    )
    reach = seen.backward_reaches
    leaves = tuple("delta" if name in _LEAF else name for name in reach.perturbed_input)
    return dataclasses.replace(
        seen,
        tensors=tensors,
        storages=_storages(seen.storages),
        shared=tuple(pair for pair in seen.shared if "delta" not in pair),
        graph=Graphs(delta=seen.graph.perturbed_input, perturbed_input=seen.graph.perturbed_input),
        backward_reaches=Reach(leaves, reach.complete),
        unknown=tuple(known for known in seen.unknown if not known.field.startswith(_PATHS)),
    )


def _storages(storages: dict[str, StorageFacts]) -> dict[str, StorageFacts]:
    found = {}
    for label, facts in storages.items():
        holds = tuple(name for name in facts.holds if name not in _OURS)
        if holds:
            found[label] = dataclasses.replace(facts, holds=holds)
    return found
