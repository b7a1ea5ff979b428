"""What a search for a text finds in a recording: where it stands, and where that leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pertdbg.app.faults import Faults
from pertdbg.app.store import Store
from pertdbg.conditions import field_names, parse
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording

Kind = Literal["value", "layer", "source", "output", "finding"]

MOST = 200
"""Most places that are listed."""

_FIELDS = 12
"""Most fields that are listed with their values."""

_WIDEST = 200
"""Most characters of a text that are shown."""

_STREAMS: tuple[Literal["stdout", "stderr"], ...] = ("stdout", "stderr")


@dataclass(frozen=True)
class Hit:
    """A place where the text stands."""

    kind: Kind
    text: str
    """What stands there."""
    id: int | None = None
    """The call that it leads to."""
    line: int | None = None
    """The line of the layer's file."""
    field: str = ""
    """The fact of which the changes are searched."""
    first: bool = False
    """Whether from the first call on, or from the one under the cursor."""


def hits(store: Store, record: CallRecord | None, wanted: str) -> Iterator[Hit | None]:
    """Search everything, what is near first; None while the search goes on.

    Args:
        store: The recording.
        record: The call under the cursor.
        wanted: The text, in capitals or not.

    Raises:
        PertdbgError: The recording is damaged.
    """
    recording, wanted = store.recording, wanted.casefold()
    if recording is None or not wanted:
        return iter(())
    return chain(
        _values(record, wanted),
        _layers(recording, wanted),
        _source(recording, record, wanted),
        _output(recording, wanted),
        _findings(store.faults, wanted),
    )


def _values(record: CallRecord | None, wanted: str) -> Iterator[Hit | None]:
    """Find the facts of a name, or of a value at this call."""
    found = 0
    for name in field_names() if record is not None else ():
        value = _written(parse(name).value(record, None)) if record is not None else ""
        if wanted in name.casefold() or value.casefold() == wanted:
            yield Hit("value", f"{name} = {value}: next call where this changes", field=name)
            yield Hit("value", f"{name}: first call where this changed", field=name, first=True)
            found += 1
        if found == _FIELDS:
            return


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "unknown" if value is None else str(value)[:_WIDEST]


def _layers(recording: Recording, wanted: str) -> Iterator[Hit | None]:
    for layer in recording.layers:
        if wanted in layer.name.casefold() or wanted in (layer.cls or "").casefold():
            place = recording.locate(layer.name, call=1)
            yield Hit("layer", f"{layer.name}  ({layer.cls})", id=place)


def _source(recording: Recording, record: CallRecord | None, wanted: str) -> Iterator[Hit | None]:
    """Search the source of this call's layer first; a line of another's leads to a call of that."""
    seen = set()
    here = "" if record is None else record.layer
    for layer in sorted(recording.layers, key=lambda layer: layer.name != here):
        place_of = None if layer.name == here else recording.locate(layer.name, call=1)
        for number, text in enumerate((layer.source or "").splitlines(), layer.first_line or 1):
            place = (layer.file, number, text)
            if wanted in text.casefold() and place not in seen:
                seen.add(place)
                shown = f"{number}: {text.strip()[:_WIDEST]}"
                yield Hit("source", shown, id=place_of, line=number)


def _output(recording: Recording, wanted: str) -> Iterator[Hit | None]:
    for stream in _STREAMS:
        rest, call = "", 1
        for call, data in recording.printed(stream):
            lines = (rest + data.decode(errors="replace")).split("\n")
            rest = lines.pop()[-_WIDEST:]
            yield from _lines(lines, wanted, min(call, recording.head))
            yield None
        yield from _lines([rest], wanted, min(call, recording.head))


def _lines(lines: Iterable[str], wanted: str, call: int) -> Iterator[Hit]:
    for line in lines:
        if wanted in line.casefold():
            yield Hit("output", line.strip()[:_WIDEST], id=call)


def _findings(faults: Faults, wanted: str) -> Iterator[Hit | None]:
    for finding in faults.all:
        text = f"{finding.kind}: {finding.message}"
        if wanted in text.casefold():
            yield Hit("finding", text[:_WIDEST], id=finding.id)
