"""The call before a call: of the same layer, in the same recording."""

from __future__ import annotations

from pertdbg.record import CallRecord
from pertdbg.recording.reader import DamagedRecord, Recording


def previous_of(recording: Recording, record: CallRecord) -> CallRecord | None:
    """Give the record of the same layer's call before this one.

    None where there is none, or where it is missing or damaged.
    """
    if record.call <= 1 or record.id <= 1:
        return None
    found = _read(recording, record.id - 1)
    if found is None or not _precedes(found, record):
        ident = previous_id(recording, record.id, record.call, record.layer)
        found = None if ident is None else _read(recording, ident)
    return found if found is not None and _precedes(found, record) else None


def previous_id(recording: Recording, ident: int, call: int, layer: str) -> int | None:
    """Find the id of a layer's call before one, among the records before it."""
    known = recording._interned.layers().items()
    idents = [number for number, source in known if source.name == layer]
    if not idents:
        return None
    slots = ", ".join("?" * len(idents))
    rows = recording._source.query(
        f"SELECT id FROM call WHERE id < ? AND layer IN ({slots}) AND call = ?"  # noqa: S608
        " ORDER BY id DESC LIMIT 1",
        (ident, *idents, call - 1),
    )
    return rows[0][0] if rows else None


def _precedes(one: CallRecord, record: CallRecord) -> bool:
    return one.layer == record.layer and one.call == record.call - 1


def _read(recording: Recording, ident: int) -> CallRecord | None:
    try:
        return recording.record(ident)
    except (DamagedRecord, IndexError):
        return None
