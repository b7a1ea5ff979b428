"""What one call of an update looks like: frozen facts, never a live tensor, with JSON in and out.

The names here are the names of the JSON of `pertdbg show --json`. Throughout:

* a value that does not apply is ``None``;
* a value that could not be known is ``None`` as well and stands in `CallRecord.unknown` with
  the reason, so that "not there" and "not known" can be told apart;
* fractions lie in 0..1; norms, extremes and bounds are in the tensor's own (dimensionless) units.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pertdbg.between import Between

FORMAT = 1
"""Version of the JSON form of a record."""

GUARD = 1e-6
"""The reference layer's denominator guard; `GradientFacts.guard_fraction` counts rows below it."""

HISTOGRAM_BINS = 64
"""Number of equal bins of `DeltaFacts.histogram`."""

BoundKind = Literal["creation", "always"]
"""Whether only the first delta is clamped to the bound, or every one."""

BoundOf = Literal["sample", "row", "whole"]
"""What an L2 norm that a bound limits is taken over."""


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What can be said of one tensor without reading its values."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    layout: str
    is_leaf: bool | None
    requires_grad: bool | None
    retains_grad: bool | None
    grad_fn: str | None
    """Name of the autograd node that made the tensor; None for a leaf."""
    has_grad: bool | None
    """Whether `.grad` holds a tensor; None where reading it would warn (a non-leaf)."""
    has_tangent: bool | None
    """Whether the tensor carries a forward-mode tangent at the current dual level."""
    version: int | None
    """Autograd's version counter: in-place writes that autograd knows of."""
    data_ptr: int | None
    """Address of the first element; a hexadecimal string in JSON."""
    storage: str | None
    """Label of the storage in `CallRecord.storages`."""
    storage_offset: int | None
    """In elements."""
    stride: tuple[int, ...] | None
    """In elements."""
    nbytes: int | None
    """Bytes of the tensor's own elements (numel x element size), not of its storage."""
    is_view: bool | None
    contiguous: bool | None


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that left the update method."""

    type: str
    message: str
    line: int | None
    """Line of the update method's file that raised or called what raised."""


@dataclass(frozen=True, slots=True)
class UpdateFacts:
    """What the update method did."""

    created: bool
    """There was no delta at entry and there is one at exit."""
    returned: bool | str | None
    """The value if it is a bool or None, else the name of its type."""
    raised: Raised | None
    learning_rate: float | None = None
    """Step size that the code declares, where the adapter knows it."""


@dataclass(frozen=True, slots=True)
class GradientFacts:
    """The gradient of the delta found at entry, read before the body of the update runs."""

    present: bool
    reason: str | None = None
    """Why there is none: `no-delta`, `nonleaf`, `requires-grad-off`, `no-backward` (none was
    started since the last update) or `not-filled` (one ran and left `.grad` empty)."""
    norm: float | None = None
    """L2 norm, accumulated in float64."""
    norm_in_dtype: float | None = None
    """What `grad.norm()` gives the code, in the gradient's own dtype."""
    max_abs: float | None = None
    min: float | None = None
    max: float | None = None
    nan: int | None = None
    inf: int | None = None
    zero_fraction: float | None = None
    guard_fraction: float | None = None
    """Share of the non-zero rows (last dimension) with their largest |gradient| below `GUARD`."""
    backwards: int | None = None
    """Backward passes (`backward`, `autograd.grad`) started since the layer's previous update."""


@dataclass(frozen=True, slots=True)
class DeltaFacts:
    """The delta that is left at exit, and how it differs from the one at entry."""

    norm: float | None = None
    """L2 norm, accumulated in float64."""
    max_abs: float | None = None
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    """Population standard deviation (divided by n), in float64."""
    nan: int | None = None
    inf: int | None = None
    bound: float | None = None
    bound_kind: BoundKind | None = None
    beyond: int | None = None
    """Elements with |delta| above the bound, compared in delta's dtype."""
    at_bound: int | None = None
    """Elements with |delta| equal to the bound, compared in delta's dtype."""
    moved_max: float | None = None
    moved_fraction: float | None = None
    histogram: tuple[int, ...] | None = None
    """Counts of the finite values in `HISTOGRAM_BINS` equal bins over `histogram_range`."""
    histogram_range: tuple[float, float] | None = None
    bound_norm: float | None = None
    """The limit that the code declares for an L2 norm of delta, rather than for each element."""
    bound_of: BoundOf | None = None
    """What has the norm that is limited: each sample (all dimensions behind the first), each row
    (the last dimension, such as a token's), or all."""
    norm_max: float | None = None
    """The largest of these norms, accumulated in float64; only where `bound_norm` is known."""


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """What of delta arrives in the perturbed input."""

    visible_fraction: float | None = None
    """Share of elements where the perturbed input differs from the input in value."""
    changed_fraction: float | None = None
    """Share of elements where the perturbed input differs from the one at entry."""
    cosine: float | None = None
    """Cosine of the perturbed input's change to delta's change, both from entry to exit."""
    gap_max: float | None = None
    """max |perturbed input - input|, in float64."""


@dataclass(frozen=True, slots=True)
class TensorsBefore:
    """The tensors of a call at entry."""

    delta: TensorFacts | None = None
    gradient: TensorFacts | None = None
    input: TensorFacts | None = None
    perturbed_input: TensorFacts | None = None


@dataclass(frozen=True, slots=True)
class TensorsAfter:
    """The tensors of a call at exit."""

    delta: TensorFacts | None = None
    input: TensorFacts | None = None
    perturbed_input: TensorFacts | None = None


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of a call, at entry and at exit."""

    before: TensorsBefore = TensorsBefore()
    after: TensorsAfter = TensorsAfter()


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """One storage that was alive during the call."""

    address: int | None
    """A hexadecimal string in JSON. Means nothing across calls: allocators reuse addresses."""
    nbytes: int | None
    holds: tuple[str, ...]
    """Roles at exit (`input`, `delta`, `perturbed_input`); roles at entry as `before.delta` and
    so on where the exit role is not in the same storage; and `gradient`."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Leaves that a backward from a tensor would fill."""

    perturbed_input: tuple[str, ...] = ()
    """`delta`, parameters by module path, else a description of the leaf."""
    complete: bool = True
    """False where the walk over the graph stopped at its limit."""


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """Size of the autograd graph behind a tensor, gradient accumulators included."""

    nodes: int
    depth: int
    """Nodes on the longest path."""
    complete: bool


@dataclass(frozen=True, slots=True)
class Graphs:
    """The graphs behind the tensors left at exit."""

    delta: GraphFacts | None = None
    perturbed_input: GraphFacts | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A field whose value could not be had, or has no meaning here, and why."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Caller:
    """The place that called the update method."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class CallRecord:
    """The facts of one call of a layer's update method."""

    id: int
    """Dense number in one rank's recording over all layers, from 1."""
    call: int
    """Number per rank and layer over the whole run, from 1."""
    batch: int
    """Creations of delta so far."""
    step: int
    """Updates since the last creation; 0 for the creation itself."""
    layer: str
    rank: int
    source_line: int | None
    """Line of the update method's file: the one that raised, else the method's first."""
    update: UpdateFacts
    gradient: GradientFacts
    delta: DeltaFacts
    effect: EffectFacts
    tensors: Tensors
    storages: dict[str, StorageFacts]
    shared: tuple[tuple[str, str], ...]
    """Pairs of roles that share storage at exit, compared among live tensors only."""
    backward_reaches: Reach
    graph: Graphs
    unknown: tuple[Unknown, ...] = ()
    findings: tuple[str, ...] = ()
    caller: Caller | None = None
    time: float = 0.0
    """Seconds from the start of the recording to the end of the call (monotonic clock)."""
    between: Between | None = None
    """What ran since the layer's call before; None where that was not followed."""

    def reason(self, field: str) -> str | None:
        """Say why a field (a dotted path such as ``delta.moved_max``) is not known.

        A reason given for a whole part (``delta``) holds for each field in it.
        """
        for unknown in self.unknown:
            if field == unknown.field or field.startswith(unknown.field + "."):
                return unknown.reason
        return None


_ADDRESSES = {"data_ptr", "address"}


def plain(part: Any) -> Any:
    """Turn a part of a record, or a value in it, into plain JSON values."""
    return _plain(part)


def to_json(record: CallRecord) -> dict[str, Any]:
    """Turn a record into plain JSON values, in the form documented for `show --json`."""
    return {"format": FORMAT, **_plain(record)}


def from_json(data: dict[str, Any]) -> CallRecord:
    """Build a record from what `to_json` made.

    Raises:
        ValueError: The data is of another format or does not have the fields of a record.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"a record of format {data.get('format')!r}; this version reads {FORMAT}")
    try:
        return _build(CallRecord, {k: v for k, v in data.items() if k != "format"})
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a record of a call: {error}") from error


def _plain(value: Any, name: str = "") -> Any:
    if dataclasses.is_dataclass(value):
        cls: Any = type(value)
        return {name: _plain(getattr(value, name), name) for name in _field_names(cls)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    if name in _ADDRESSES and value is not None:
        return hex(value)
    return value


@functools.cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


T = TypeVar("T")


def _build(cls: type[T], data: dict[str, Any]) -> T:
    hints = _hints(typing.cast("Any", cls))
    return cls(**{key: _typed(hints[key], value, key) for key, value in data.items()})


def _typed(hint: Any, value: Any, name: str = "") -> Any:
    if value is None:
        return None
    if name in _ADDRESSES:
        return int(value, 16)
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return _typed(options[0], value) if len(options) == 1 else value
    if origin is tuple:
        inner = typing.get_args(hint)
        each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_typed(kind, item) for kind, item in zip(each, value, strict=True))
    if origin is dict:
        return {key: _typed(typing.get_args(hint)[1], item) for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast("type[Any]", hint), value)
    return float(value) if hint is float else value


class _Callable(types.ModuleType):
    """The module under whose name a person also calls `pertdbg.record(...)`."""

    def __call__(self, path: Any, **options: Any) -> Any:
        """Record a block; see `pertdbg.agent.api.record`."""
        from pertdbg.agent.api import record  # no reader of records needs it

        return record(path, **options)


sys.modules[__name__].__class__ = _Callable
