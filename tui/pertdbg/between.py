"""What ran between two calls of a layer: backward passes, the pass of the perturbed input, modes.

All of it is words, flags and names, never a measured number: what repeats from call to call then
repeats in the recording as well, and is stored once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Input = Literal["same", "rewritten", "renewed", "other"]
"""`same`: the very tensor with the values that it had when the layer's call before ended;
`rewritten`: its memory, with other values; `renewed`: another tensor with equal values, as a clean
pass that was repeated gives it; `other`: other values."""

Way = Literal["graph", "values"]
"""How a module took the perturbation: in a tensor whose graph leads to delta, or in one that holds
the perturbed values and no more."""


@dataclass(frozen=True, slots=True)
class BackwardFacts:
    """One pass through the autograd engine: `backward` or `autograd.grad`."""

    root: str | None
    """Node that it starts from; None where the tensor has no graph."""
    fills: bool
    """Whether gradients go into `.grad`, rather than to the caller."""
    retains: bool
    """Whether it was asked to keep the graph."""
    creates: bool
    """Whether it was asked to make a graph of its own."""
    reaches_delta: bool | None
    """Whether the graph leads to delta; None where the walk stopped before it could tell."""
    factor: float | None
    """Constant that the loss was multiplied by last, where it has the size of a loss scale."""
    raised: str | None
    """The exception that it ended with, and the first line of its message."""
    finite: bool | None = None
    """Whether the loss was a finite number; None where it is several, or lies on a device."""
    output_finite: bool | None = None
    """Whether the module that took the perturbation gave finite numbers alone; None where none was
    seen, or what it gave is large or lies on a device."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The module that the perturbation went into."""

    module: str
    """Its class."""
    way: Way
    dtype: str
    """Of the tensor that it was given."""
    module_dtype: str | None
    """Of its floating point parameters, or of the first module inside that has any."""
    grad_mode: bool
    """Whether autograd recorded what it did."""
    autocast: bool
    raised: str | None
    """The exception that left it, and the first line of its message."""


@dataclass(frozen=True, slots=True)
class Between:
    """What happened from the end of a layer's call to the next, and what that call left.

    A field that could not be known is None, False or empty: a rule speaks of what was seen.
    """

    input: Input | None = None
    """What became of the stored input since the layer's call before."""
    backwards: tuple[BackwardFacts, ...] = ()
    """The last `BACKWARDS` passes, equal ones in a row once."""
    taken: Taken | None = None
    """The last module outside all others that took the perturbation; None if none was seen."""
    forwards: bool = False
    """Whether any module ran."""
    leaks: tuple[str, ...] = ()
    """Leaves behind the perturbed tensor, beside delta, whose `.grad` a backward filled and that
    no optimizer holds."""
    kept_gradient: bool = False
    """A backward added to a gradient of delta that the call before had already found."""
    retained: bool = False
    """The graph of an earlier step, kept by `retain_graph`, was alive beside a newer one."""
    written: tuple[str, ...] = ()
    """Roles whose values changed between the forward and its backward, unseen by autograd."""
    stale: bool = False
    """The layer answered a pass with the perturbed input of another pass's batch."""
    left_on: tuple[str, ...] = ()
    """What was switched for the perturbation and was so still when training went on."""
    stochastic: bool = False
    """The loss compared a pass that draws random numbers with a clean pass of the same module."""
    padding: bool | None = None
    """Whether delta, as this call left it, is non-zero at a padding position of an embedding."""
    snapshots: tuple[str, ...] = ()
    """Names under which copies of delta were kept that are none: this call moved them too."""
    plain_step: bool = False
    """The step of this call was the gradient times a constant, clamped perhaps. Looked at only
    where the loss was scaled."""
    unmoved: str | None = None
    """Type of the tensor that a module took the perturbation in, where at least half of its values
    are to the bit what they were at the pass before the last update."""


BACKWARDS = 4
"""Most passes that are kept of one interval."""
