"""The entries of the journal. Each refers to the target's tensors and modules weakly."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from pertdbg.agent.between.samples import Sample

Ref = weakref.ref[Any]


@dataclass(slots=True)
class Watched:
    """A tensor whose values must be the same when the backward begins."""

    tensor: Ref
    version: int | None
    sample: Sample


@dataclass(slots=True)
class Fed:
    """A tensor that a module was given."""

    tensor: Ref
    dtype: str
    leaves: list[Ref] = field(default_factory=list)
    """What its graph leads to, parameters included."""
    sample: Sample | None = None
    module: str = ""
    grad_mode: bool = True
    autocast: bool = False
    module_dtype: str | None = None
    owners: set[str] = field(default_factory=set)
    """Layers and loops to whose delta its graph leads."""
    carries: bool = False
    """It leads to a leaf that is no parameter, or lies in the memory of a layer's answer."""


@dataclass(slots=True)
class Pass:
    """One run of a module that no other module called."""

    module: Ref
    name: str
    opened: int
    closed: int | None = None
    """Place in the journal where it ended; None while it runs."""
    key: Sample | None = None
    """The first tensor that it was given."""
    fed: Fed | None = None
    looking: bool = False
    """Whether its inner modules are asked what they were given."""
    walks: int = 0
    answers: list[Ref] = field(default_factory=list)
    """Layers that answered with their perturbed input."""
    stale: list[Ref] = field(default_factory=list)
    """Layers that answered with the perturbed input of another batch."""
    watched: list[Watched] = field(default_factory=list)
    raised: str | None = None
    finite: bool | None = None
    """What it gave is finite; None where that is not known."""
    random: bool = False
    """It drew random numbers of its own."""
    random_state: Any = None
    held_call: bool = False
    """An observed call ran inside."""
    output: Any = None
    """A copy of what it gave, where that may be compared with a clean pass; until the next
    backward."""


@dataclass(slots=True)
class Backward:
    """One pass through the engine."""

    at: int
    root: str | None = None
    finite: bool | None = None
    output_finite: bool | None = None
    leaves: list[Ref] = field(default_factory=list)
    complete: bool = True
    fills: bool = True
    retains: bool = False
    creates: bool = False
    factor: Any = None
    """A number, or a copy of a scale that lies on a device."""
    behind: list[Ref] = field(default_factory=list)
    """Leaves behind the tensors that modules took, which this one reaches."""
    dirty: list[Ref] = field(default_factory=list)
    """Leaves that had a gradient already."""
    written: list[Ref] = field(default_factory=list)
    """Tensors whose values changed unseen since the forward."""
    compared: bool = False
    raised: str | None = None
    graph: Ref | None = None
    """Lives as long as the root's node, where the graph is kept."""
    freed: bool = False
    """A later pass has freed the graph."""
    owners: set[str] = field(default_factory=set)
    """Layers and loops to whose delta it leads."""


@dataclass(slots=True)
class Left:
    """Something that was switched, and was so still when training went on."""

    at: int
    names: tuple[str, ...]
    layers: frozenset[str]
    """Layers and loops for which it was switched."""


Entry = Pass | Backward | Left
