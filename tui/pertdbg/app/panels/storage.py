"""Storage panel: where the tensors live, and which of them live in one place."""

from __future__ import annotations

import math

from pertdbg.app.lines import Line, Piece, table, wrap
from pertdbg.app.numbers import size
from pertdbg.app.panels.facts import verdict
from pertdbg.output import verdict as words
from pertdbg.output.safe import printable
from pertdbg.output.words import role
from pertdbg.record import CallRecord, StorageFacts, TensorFacts

_IN_VERDICT = 2
"""Pairs that the verdict names."""


def storage(record: CallRecord, width: int) -> list[Line]:
    """Draw the panel: verdict, a row for each tensor, and who shares with whom."""
    tensors = _tensors(record)
    lines = verdict(words.storage(record), width)
    if tensors:
        lines += table([_row(record, *item) for item in tensors.items()], width)
    lines += _views(record, tensors, width)
    return lines + _shared(record, width)


def _tensors(record: CallRecord) -> dict[str, TensorFacts]:
    """Name the tensors at exit, the gradient, and those at entry that lived elsewhere."""
    before, after = record.tensors.before, record.tensors.after
    found = {
        "input": after.input,
        "delta": after.delta,
        "perturbed": after.perturbed_input,
        "gradient": before.gradient,
        "old input": _moved(before.input, after.input),
        "old delta": _moved(before.delta, after.delta),
        "old pert.": _moved(before.perturbed_input, after.perturbed_input),
    }
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _moved(old: TensorFacts | None, new: TensorFacts | None) -> TensorFacts | None:
    if old is None or (new is not None and old.storage == new.storage):
        return None
    return old


def _row(record: CallRecord, name: str, tensor: TensorFacts) -> list[Piece]:
    found = record.storages.get(tensor.storage or "")
    label: Piece = (printable(tensor.storage or "-"), "strong" if tensor.storage else "dim")
    bytes_ = size(None if found is None else found.nbytes)
    return [(name, "label"), label, (_address(record, name, found), ""), (f"{bytes_:>9}", "")]


def _address(record: CallRecord, name: str, found: StorageFacts | None) -> str:
    if found is not None and found.address is not None:
        return hex(found.address)
    reason = record.reason(_path(name) + ".storage") or record.reason(_path(name) + ".data_ptr")
    return f"unknown ({printable(reason)})" if reason else "no address"


def _path(name: str) -> str:
    when = "before" if name.startswith("old ") or name == "gradient" else "after"
    role = (
        name.removeprefix("old ").replace("perturbed", "pert.").replace("pert.", "perturbed_input")
    )
    return f"tensors.{when}.{role}"


def _views(record: CallRecord, tensors: dict[str, TensorFacts], width: int) -> list[Line]:
    """Say which part of its storage a tensor covers, where that is not all of it."""
    lines: list[Line] = []
    for name, tensor in tensors.items():
        found = record.storages.get(tensor.storage or "")
        part = None if found is None else _part(tensor, found)
        if part is not None:
            lines += wrap(f"{name}: {part}", width, "note")
    return lines


def _part(tensor: TensorFacts, storage: StorageFacts) -> str | None:
    numel = math.prod(tensor.shape)
    nbytes, stride, first = tensor.nbytes, tensor.stride, tensor.storage_offset
    if not numel or nbytes is None or stride is None or first is None or storage.nbytes is None:
        return None
    item = nbytes // numel
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, stride, strict=True))
    offset, span = first * item, (reach + 1) * item
    if offset == 0 and span == storage.nbytes:
        return None
    return f"view at offset {size(offset)}, spans {size(span)} of {size(storage.nbytes)}"


def _shared(record: CallRecord, width: int) -> list[Line]:
    """Name the pairs that share, where there are more than the verdict has room for."""
    if len(record.shared) <= _IN_VERDICT:
        return []
    names = "; ".join(" and ".join(map(role, pair)) for pair in record.shared)
    return wrap(f"share storage: {printable(names)}", width, "warn")
