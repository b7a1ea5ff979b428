"""From a row of the table `call` back to the record that was written."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pertdbg.record import (
    HISTOGRAM_BINS,
    CallRecord,
    DeltaFacts,
    EffectFacts,
    GradientFacts,
    GraphFacts,
    Graphs,
    Raised,
    Reach,
    StorageFacts,
    TensorFacts,
    Tensors,
    TensorsAfter,
    TensorsBefore,
    UpdateFacts,
)
from pertdbg.recording import details
from pertdbg.recording.columns import CALL, FLOATS, HISTOGRAM_RANGE, OTHER_TEXTS, TEXTS
from pertdbg.recording.schema import TENSOR_KINDS

_PATHS = tuple(column.path for column in CALL)
_BOOLS = tuple(column.path for column in CALL if column.kind == "bool")
_MASKED = tuple(column.path for column in FLOATS + HISTOGRAM_RANGE)
_TEXTS = tuple(column.path for column in TEXTS + OTHER_TEXTS)
_REQUIRED = (
    *("call", "batch", "step", "rank", "time", "layer", "update.created", "gradient.present"),
    *("backward_reaches",),
)
_KIND_BOOLS = (
    "is_leaf",
    "requires_grad",
    "retains_grad",
    "has_grad",
    "has_tangent",
    "is_view",
    "contiguous",
)
_WRAP = 1 << 64
_NAN = float("nan")

Values = Mapping[str, Any]
T = TypeVar("T")


class Interned(Protocol):
    """Where a row's repeated parts are found."""

    def layer_name(self, ident: int) -> str:
        """Give the name of a layer."""

    def tensor_kind(self, ident: int) -> Values:
        """Give the static facts of a tensor by their names in `TensorFacts`."""

    def detail(self, part: str, ident: int) -> Any:
        """Give a repeated part, by its name in the record, parsed."""


def unpack(row: Sequence[Any], interned: Interned) -> CallRecord:
    """Build the record that a row was made of.

    Raises:
        ValueError: No record makes such a row.
    """
    values = numbers(row)
    if any(values[path] is None for path in _REQUIRED):
        raise ValueError("a number that every record has is missing")
    _check_texts(values)

    def detail(name: str, default: Any) -> Any:
        ident = values[name]
        return default if ident is None else interned.detail(name, ident)

    reach, between, norms = detail("backward_reaches", (Reach(), None, details.Norms()))
    return CallRecord(
        **{name: values[name] for name in ("id", "call", "batch", "step", "rank", "source_line")},
        layer=interned.layer_name(values["layer"]),
        update=_update(values),
        gradient=GradientFacts(**_fields("gradient", GradientFacts, values)),
        delta=_delta(values, norms),
        effect=EffectFacts(**_fields("effect", EffectFacts, values)),
        tensors=_tensors(values, interned),
        storages=_storages(detail("storages", ()), values["storages.addresses"]),
        shared=detail("shared", ()),
        backward_reaches=reach,
        graph=Graphs(_graph("delta", values), _graph("perturbed_input", values)),
        unknown=detail("unknown", ()),
        findings=detail("findings", ()),
        caller=detail("caller", None),
        time=values["time"],
        between=between,
    )


def numbers(row: Sequence[Any]) -> dict[str, Any]:
    """Give a row's values by their paths, with NaN and the bools put back."""
    values = dict(zip(_PATHS, row, strict=False))
    for path in _BOOLS:
        if values[path] is not None:
            values[path] = bool(values[path])
    mask = values["nan_mask"]
    if mask:
        values.update({path: _NAN for k, path in enumerate(_MASKED) if mask >> k & 1})
    return values


def tensor_kind(row: Sequence[Any]) -> dict[str, Any]:
    """Give a row of `tensor_kind` by the names in `TensorFacts`.

    Raises:
        ValueError: No tensor makes such a row.
    """
    facts = dict(zip(TENSOR_KINDS.columns, row, strict=False))
    del facts["id"]
    for name in _KIND_BOOLS:
        if facts[name] is not None:
            facts[name] = bool(facts[name])
    for name in ("dtype", "device", "layout"):
        details.name(facts[name])
    for name in ("grad_fn", "storage"):
        details.name_or_none(facts[name])
    facts["shape"] = details.sizes(facts["shape"])
    if facts["stride"] is not None:
        facts["stride"] = details.sizes(facts["stride"])
    return facts


def _check_texts(values: Values) -> None:
    for path in _TEXTS:
        if values[path] is not None:
            details.message(values[path])
    if values["update.raised.type"] is not None:
        details.message(values["update.raised.message"])


def _fields(prefix: str, cls: type, values: Values) -> dict[str, Any]:
    names: Sequence[str] = cls.__slots__  # type: ignore[attr-defined]
    paths = ((name, f"{prefix}.{name}") for name in names)
    return {name: values[path] for name, path in paths if path in values}


def _update(values: Values) -> UpdateFacts:
    raised = None
    if values["update.raised.type"] is not None:
        raised = Raised(
            values["update.raised.type"],
            values["update.raised.message"],
            values["update.raised.line"],
        )
    returned = values["update.returned"]
    return UpdateFacts(
        created=values["update.created"],
        returned=values["update.returned_type"] if returned is None else returned,
        raised=raised,
        learning_rate=values["update.learning_rate"],
    )


def _delta(values: Values, norms: details.Norms) -> DeltaFacts:
    fields = _fields("delta", DeltaFacts, values)
    blob, low = fields["histogram"], values["delta.histogram_range.low"]
    if blob is not None:
        size = "I" if len(blob) == 4 * HISTOGRAM_BINS else "Q"
        fields["histogram"] = struct.unpack(f"<{HISTOGRAM_BINS}{size}", blob)
    high = values["delta.histogram_range.high"]
    if low is not None and high is not None:
        fields["histogram_range"] = (low, high)
    return DeltaFacts(**fields, **norms._asdict())


def _tensors(values: Values, interned: Interned) -> Tensors:
    def facts(role: str) -> TensorFacts | None:
        kind, pointer = values[f"tensors.{role}"], values[f"tensors.{role}.data_ptr"]
        if kind is None:
            return None
        return TensorFacts(
            **interned.tensor_kind(kind),
            version=values[f"tensors.{role}.version"],
            data_ptr=None if pointer is None else pointer % _WRAP,
        )

    def at(when: str, cls: type[T]) -> T:
        names: Sequence[str] = cls.__slots__  # type: ignore[attr-defined]
        return cls(**{name: facts(f"{when}.{name}") for name in names})

    return Tensors(at("before", TensorsBefore), at("after", TensorsAfter))


def _storages(
    layout: Sequence[details.StorageLayout], blob: bytes | None
) -> dict[str, StorageFacts]:
    known = [label for label, _, _, known in layout if known]
    numbers = struct.unpack(f"<{len(blob or b'') // 8}Q", blob or b"")
    addresses = dict(zip(known, numbers, strict=True))
    return {
        label: StorageFacts(addresses.get(label), nbytes, holds)
        for label, nbytes, holds, _ in layout
    }


def _graph(which: str, values: Values) -> GraphFacts | None:
    nodes, depth, complete = (values[f"graph.{which}.{f}"] for f in ("nodes", "depth", "complete"))
    if nodes is None:
        return None
    if depth is None or complete is None:
        raise ValueError("half of a graph's size is missing")
    return GraphFacts(nodes, depth, complete)
