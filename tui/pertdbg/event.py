"""What one executed line of an update did: frozen facts, never a live tensor, with JSON in and out.

The names here are the names of the JSON of `pertdbg show --json`. A value that could not be known
is ``None`` and stands in `LineEvent.unknown` with the reason. The words (`says`) are made from the
facts alone; see `pertdbg.says`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from pertdbg import says
from pertdbg.record import Unknown, plain

GradMode = Literal["on", "off", "inference"]
"""Whether torch records operations for a backward: `off` is `no_grad`."""


@dataclass(frozen=True, slots=True)
class LineTensor:
    """A tensor as it was at one moment inside a call."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    leaf: bool | None
    requires_grad: bool | None
    grad_fn: str | None
    """Name of the autograd node that made the tensor; None for a leaf."""
    has_grad: bool | None
    """Whether `.grad` holds a tensor; None where reading it would warn (a non-leaf)."""
    version: int | None
    """Autograd's version counter: in-place writes that autograd knows of."""
    storage: str | None
    """Label of the storage: one label, one storage, through the whole call."""
    norm: float | None = None
    """L2 norm, accumulated in float64."""
    max_abs: float | None = None
    shares: tuple[str, ...] = ()
    """Names that stand for other tensors in the same storage, all alive at that moment."""
    same: tuple[str, ...] = ()
    """Other names of this very tensor."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One torch operation inside a line."""

    op: str
    """Its name, as `detach` or `add`."""
    input: LineTensor | None
    """The first tensor that it was given, before it ran."""
    output: LineTensor | None
    """The tensor that it gave, or the first of several; after it ran. Where it gave none and wrote
    to its input, as setting an attribute does, that."""
    same_tensor: bool | None
    """The output is the input itself; None where there is no input or no output."""
    same_storage: bool | None
    """Both lie in one storage."""
    in_place: bool = False
    """It wrote into its input, or changed a flag of it; or it wrote into another (`out=`)."""
    elements: int | None = None
    """Elements of the output that were compared, where they were."""
    changed: int | None = None
    """So many of these differ in value from the input's at the same place."""
    equal: int | None = None
    """So many equal those of the second tensor that the operation was given."""
    value: bool | int | float | str | None = None
    """What it gave where that is no tensor."""
    raised: str | None = None
    """Type of the exception that it raised."""

    @property
    def says(self) -> str:
        """What it did, in words."""
        return says.of_operation(self)


@dataclass(frozen=True, slots=True)
class LineEvent:
    """One executed line. In a call they stand in the order in which the lines were run."""

    line: int
    source: str
    """The line's text without indentation; empty where it can't be read."""
    function: str
    """Qualified name of the function."""
    depth: int = 0
    """0 for the update itself, 1 for a function that it called, and so on."""
    tensors: dict[str, LineTensor] = dataclasses.field(default_factory=dict)
    """Locals (``delta``) and attributes (``self.delta``) that the line made or changed."""
    made: tuple[str, ...] = ()
    """Those of `tensors` that stand for another tensor than before; the others were changed."""
    gone: tuple[str, ...] = ()
    """Names that stood for a tensor before the line and do not after it."""
    shared: tuple[tuple[str, str], ...] = ()
    """Pairs of names in one storage, at least one of them in `tensors`."""
    operations: tuple[Operation, ...] = ()
    """In order; those of functions that were stepped over are not here."""
    over: tuple[str, ...] = ()
    """Functions, and classes of modules, that were called and stepped over."""
    gradients: GradMode = "on"
    """After the line."""
    gradients_before: GradMode = "on"
    raised: str | None = None
    """Type of the exception that left the line."""
    unknown: tuple[Unknown, ...] = ()
    """Fields such as ``tensors.delta.norm`` or ``operations``, with the reason."""

    @property
    def says(self) -> str:
        """What the line did, in words."""
        return says.of_line(self)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of an autograd graph."""

    name: str
    leaf: str | None = None
    """What a backward fills here: `delta`, or a parameter by its module path."""
    saved: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    """What is kept for the backward: name, shape and bytes of each tensor."""
    freed: bool = False
    """A backward has let go of what was kept."""
    inputs: tuple[int, ...] = ()
    """Places in `GraphTree.nodes` of the nodes that the backward goes on to."""


@dataclass(frozen=True, slots=True)
class GraphTree:
    """The autograd graph behind a tensor; the first node is the one that made it."""

    nodes: tuple[GraphNode, ...]
    complete: bool
    """False where the walk stopped at its limit."""
    reason: str | None = None
    """Why there are no nodes: `leaf`, `no-graph` or `no-tensor`."""


def to_json(event: LineEvent) -> dict[str, Any]:
    """Turn an event into plain JSON values, in the form that stands in `events`."""
    found = plain(event)
    found["operations"] = [plain(each) | {"says": each.says} for each in event.operations]
    return {**found, "says": event.says}


def from_json(data: dict[str, Any]) -> LineEvent:
    """Build an event from what `to_json` made.

    Raises:
        ValueError: It does not have the fields of an event.
    """
    try:
        fields = {key: value for key, value in data.items() if key != "says"}
        fields["tensors"] = {n: _tensor(t) for n, t in fields.pop("tensors").items()}
        fields["operations"] = tuple(_operation(each) for each in fields.pop("operations"))
        fields["shared"] = tuple((a, b) for a, b in fields.pop("shared"))
        fields["unknown"] = tuple(Unknown(**each) for each in fields.pop("unknown"))
        return LineEvent(**{k: _tuples(v) for k, v in fields.items()})
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"not an event: {error}") from error


def graph_to_json(tree: GraphTree) -> dict[str, Any]:
    """Turn a graph into plain JSON values."""
    found: dict[str, Any] = plain(tree)
    for node in found["nodes"]:
        saved = node["saved"]
        node["saved"] = [{"name": n, "shape": s, "nbytes": b} for n, s, b in saved]
    return found


def _tensor(data: dict[str, Any]) -> LineTensor:
    numbers = {k: _number(data[k]) for k in ("norm", "max_abs")}
    return LineTensor(**({k: _tuples(v) for k, v in data.items()} | numbers))


def _operation(data: dict[str, Any]) -> Operation:
    fields = {key: value for key, value in data.items() if key != "says"}
    for side in ("input", "output"):
        fields[side] = None if fields[side] is None else _tensor(fields[side])
    return Operation(**fields)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
