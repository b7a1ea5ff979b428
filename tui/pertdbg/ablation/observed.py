"""What one run showed, in a form that can be compared field by field."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord, to_json
from pertdbg.recording.reader import Recording

_CHANCE = frozenset({"time", "data_ptr", "address", "caller"})
"""What differs between two runs of the same program, or says where a run was started from."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")

Flat = dict[str, Any]
"""Values of a record by dotted path."""


@dataclass(frozen=True)
class Raised:
    """An exception that ended a run, or left the update method."""

    type: str
    message: str
    call: int
    """The update call that raised, or that would have come next."""
    line: int | None
    """The innermost line that is not torch's."""
    file: str | None
    during: str
    """`update`, `backward`, `forward` or, where the process was lost, `run`."""


@dataclass(frozen=True)
class Backward:
    """One backward pass."""

    call: int
    """The update call that follows."""
    loss: tuple[str, ...]
    """Hexadecimal, so that every bit is there."""
    filled: dict[str, float | None]
    """Norms of the gradients of leaves, other than delta, that it changed."""

    @property
    def value(self) -> float | None:
        """The loss, where it is one number."""
        try:
            return float.fromhex(self.loss[0]) if len(self.loss) == 1 else None
        except ValueError:
            return None


@dataclass(frozen=True)
class Observed:
    """One run."""

    records: list[CallRecord]
    flat: list[Flat]
    backwards: list[Backward]
    live_bytes: list[int]
    """Bytes of living tensors after each call."""
    output: list[str]
    """Lines that the run printed, on standard output and then on standard error."""
    printed: dict[str, int]
    """The call before whose end a line of standard error was first printed."""
    raised: Raised | None
    error: str | None
    """Why the variant could not be run at all."""
    seconds: float
    functions: list[tuple[str, int]]
    """Of a script: file and first line of each function that is an update."""


def observe(folder: Path, status: int, *, late: bool) -> Observed:
    """Read what a child has left in its folder."""
    try:
        facts = json.loads((folder / "facts.json").read_text())
    except (OSError, ValueError):
        facts = {"error": None, "raised": None, "backwards": [], "calls": [], "seconds": 0.0}
    records, printed = _recorded(folder / "run.pertdbg")
    flat = [_flatten(record) for record in records]
    for fields, call in zip(flat, facts["calls"], strict=False):
        fields.update({f"bits.{role}": call[role] for role in call if role != "bytes"})
    return Observed(
        records=records,
        flat=flat,
        backwards=[Backward(b["call"], tuple(b["loss"]), b["filled"]) for b in facts["backwards"]],
        live_bytes=[call["bytes"] for call in facts["calls"]],
        output=_output(folder),
        printed=printed,
        raised=_raised(facts["raised"], records) or _lost(status, late, len(records)),
        error=facts["error"],
        seconds=facts["seconds"],
        functions=[(file, line) for file, line in facts.get("functions", ()) if file],
    )


def _recorded(path: Path) -> tuple[list[CallRecord], dict[str, int]]:
    try:
        with Recording.open(path) as recording:
            return list(recording), _printed(recording)
    except PertdbgError:  # the run ended before its first record, or was killed
        return [], {}


def _printed(recording: Recording) -> dict[str, int]:
    """Find the call of each line of standard error; the end of the run counts as one more."""
    lines: dict[str, int] = {}
    for call in range(1, len(recording) + 2) if recording.output("stderr") else ():
        for line in _lines(recording.output("stderr", call)):
            lines.setdefault(line, call)
    return lines


def _raised(found: dict[str, Any] | None, records: list[CallRecord]) -> Raised | None:
    """Prefer what the record of the last call says of an exception."""
    last = records[-1] if records else None
    if last is not None and last.update.raised is not None:
        inner = last.update.raised
        file = None if found is None else found["file"]
        return Raised(inner.type, inner.message, last.id, inner.line, file, "update")
    return None if found is None else Raised(**found)


def _lost(status: int, late: bool, calls: int) -> Raised | None:
    if status == 0:
        return None
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    message = "it took too long and was ended" if late else f"the process was lost: {name}"
    return Raised("Timeout" if late else "Crash", message, calls + 1, None, None, "run")


def _flatten(record: CallRecord) -> Flat:
    return dict(_paths(to_json(record), ""))


def _paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for key, item in value.items():
        if key not in _CHANCE:
            yield from _paths(item, f"{path}.{key}" if path else key)


def _output(folder: Path) -> list[str]:
    lines = []
    for name in ("stdout", "stderr"):
        path = folder / name
        lines += _lines(path.read_bytes() if path.is_file() else b"")
    return lines


def _lines(data: bytes) -> list[str]:
    return _ADDRESS.sub("0x", data.decode(errors="replace")).splitlines()
