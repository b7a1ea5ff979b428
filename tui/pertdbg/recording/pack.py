"""Between a record and the row that keeps it.

What repeats from call to call (the static facts of a tensor, who shares with whom, why something
is unknown) is kept once, in the tables `tensor_kind` and `detail`, and the row holds its id.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Protocol

from pertdbg.record import HISTOGRAM_BINS, CallRecord, GraphFacts, StorageFacts, TensorFacts
from pertdbg.recording.between import to_row as between_row
from pertdbg.recording.columns import FLOATS, GRAPHS, INTEGERS, ROLES, TEXTS
from pertdbg.recording.parts import DERIVED_MARKS
from pertdbg.recording.schema import NAME_LIMIT, TENSOR_KINDS, TEXT_LIMIT

Row = tuple[Any, ...]


class Interns(Protocol):
    """Where a row's repeated parts are kept."""

    def layer(self, name: str) -> int:
        """Give the id of a layer."""

    def tensor_kind(self, key: Row) -> int:
        """Give the id of a tensor's static facts (the columns of `tensor_kind`)."""

    def detail(self, key: Row) -> int:
        """Give the id of a repeated part, made of tuples and plain values."""


_integers: Callable[[CallRecord], Row] = attrgetter(*(c.path for c in INTEGERS))
_floats: Callable[[CallRecord], Row] = attrgetter(*(c.path for c in FLOATS))
_texts: Callable[[CallRecord], Row] = attrgetter(*(c.path for c in TEXTS))
_tensors: Callable[[CallRecord], Row] = attrgetter(*(f"tensors.{role}" for role in ROLES))
_graphs: Callable[[CallRecord], Row] = attrgetter(*(f"graph.{which}" for which in GRAPHS))
_graph: Callable[[GraphFacts], Row] = attrgetter("nodes", "depth", "complete")
_static: Callable[[TensorFacts], Row] = attrgetter(*TENSOR_KINDS.columns[1:])
_NO_GRAPH = (None, None, None)
_NO_TENSOR = (None, None, None)
_WRAP = 1 << 64


def bounded(text: str | None, limit: int) -> str | None:
    """Give a text that can be stored: not longer than a limit, and valid Unicode."""
    if text is None or (text.isascii() and len(text) <= limit):
        return text
    sound = text[:limit].encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit and len(sound) <= limit:
        return sound
    return f"{sound[: limit - 40]}... ({len(text)} characters)"


def detail_json(part: Any) -> str:
    """Turn a repeated part into the text that `detail` keeps."""
    return json.dumps(_all_bounded(part))


def _all_bounded(part: Any) -> Any:
    if isinstance(part, tuple):
        return [_all_bounded(item) for item in part]
    return bounded(part, NAME_LIMIT) if isinstance(part, str) else part


def pack(record: CallRecord, was_beyond: bool, interns: Interns) -> Row:
    """Turn a record into the row of the table `call`, without its checksum.

    Args:
        record: The record.
        was_beyond: Whether delta was beyond its bound already before this call.
        interns: Where repeated parts are kept.
    """
    floats, nan_mask = _reals(record)
    returned = record.update.returned
    raised = record.update.raised
    return (
        record.id,
        *_integers(record),
        returned if isinstance(returned, bool) else None,
        raised and raised.line,
        *_graph_numbers(record),
        *_tensor_numbers(record, interns),
        *_detail_ids(record, interns),
        interns.layer(record.layer),
        nan_mask,
        marks_of(record, was_beyond),
        *floats,
        *_texts(record),
        bounded(returned, NAME_LIMIT) if isinstance(returned, str) else None,
        raised and bounded(raised.type, NAME_LIMIT),
        raised and bounded(raised.message, TEXT_LIMIT),
        _addresses(record.storages),
        _histogram(record.delta.histogram),
    )


def marks_of(record: CallRecord, was_beyond: bool) -> int:
    """Say which marks a record carries, as bits in the order of `DERIVED_MARKS`."""
    update, gradient, delta = record.update, record.gradient, record.delta
    return (
        (1 if update.created else 0)
        | (2 if update.returned is False else 0)
        | (4 if update.raised else 0)
        | (8 if gradient.nan or delta.nan else 0)
        | (16 if gradient.inf or delta.inf else 0)
        | (32 if delta.beyond and (update.created or not was_beyond) else 0)
    )


def kinds_of(marks: int) -> list[str]:
    """Name the marks of a value of the column `marks`."""
    return [kind for bit, kind in enumerate(DERIVED_MARKS) if marks >> bit & 1]


def _reals(record: CallRecord) -> tuple[list[float | None], int]:
    """Give the real numbers as stored, and which of them are NaN."""
    values = [*_floats(record), *(record.delta.histogram_range or (None, None))]
    # SQLite keeps NaN as NULL and -0.0 as 0.0; adding 0.0 makes the second so before the checksum.
    stored = [None if v is None or v != v else v + 0.0 for v in values]
    if stored.count(None) == values.count(None):
        return stored, 0
    return stored, sum(1 << k for k, v in enumerate(values) if v is not None and v != v)


def _graph_numbers(record: CallRecord) -> Row:
    delta, perturbed = _graphs(record)
    return (
        *(_NO_GRAPH if delta is None else _graph(delta)),
        *(_NO_GRAPH if perturbed is None else _graph(perturbed)),
    )


def _tensor_numbers(record: CallRecord, interns: Interns) -> list[int | None]:
    numbers: list[int | None] = []
    for facts in _tensors(record):
        if facts is None:
            numbers += _NO_TENSOR
        else:
            pointer = facts.data_ptr
            numbers += (
                interns.tensor_kind(_static(facts)),
                facts.version,
                pointer if pointer is None or pointer < _WRAP >> 1 else pointer - _WRAP,
            )
    return numbers


def _detail_ids(record: CallRecord, interns: Interns) -> list[int | None]:
    storages = tuple(
        (label, facts.nbytes, facts.holds, facts.address is not None)
        for label, facts in record.storages.items()
    )
    parts = (
        storages,
        record.shared,
        _reached(record),
        tuple((unknown.field, unknown.reason) for unknown in record.unknown),
        record.findings,
        record.caller and (record.caller.file, record.caller.line),
    )
    return [interns.detail(part) if part else None for part in parts]


def _reached(record: CallRecord) -> Row:
    reach = record.backward_reaches
    between = None if record.between is None else between_row(record.between)
    delta = record.delta
    row: Row = (reach.perturbed_input, reach.complete)
    if delta.bound_norm is not None:
        return (*row, between, (delta.bound_norm, delta.bound_of, delta.norm_max))
    return row if between is None else (*row, between)


def _addresses(storages: dict[str, StorageFacts]) -> bytes | None:
    known = [facts.address for facts in storages.values() if facts.address is not None]
    return struct.pack(f"<{len(known)}Q", *known) if known else None


def _histogram(counts: Sequence[int] | None) -> bytes | None:
    if counts is None:
        return None
    size = "I" if max(counts) < 1 << 32 else "Q"
    return struct.pack(f"<{HISTOGRAM_BINS}{size}", *counts)
