"""What a recording says of itself: who made it, of what, and how it ended."""

from __future__ import annotations

import os
import platform
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pertdbg.recording.pack import bounded
from pertdbg.recording.schema import NAME_LIMIT, TEXT_LIMIT, seal_meta

MetaValue = str | int | float | None

FORMAT = 1
"""Major version of the recording format."""

KEPT_AS = "kept_as"
"""Key of the target that watches and conditions are kept for; see `pertdbg.conditions.Kept`."""


@dataclass(frozen=True, slots=True)
class Meta:
    """The meta table. What the file lacks, or holds with another type, has its default here."""

    format: int = 0
    version: str = ""
    """Of the pertdbg that wrote it."""
    uuid: str = ""
    """Of the run; all ranks of one may share it."""
    created_ns: int = 0
    """Wall clock at the start, nanoseconds since 1970."""
    started_ns: int = 0
    """Monotonic clock at the start; `CallRecord.time` counts from here."""
    command: str = ""
    target: str = ""
    """Name of the scenario or script."""
    title: str = ""
    about: str = ""
    python: str = ""
    torch: str = ""
    rank: int = 0
    world_size: int = 1
    pid: int = 0
    state: str = ""
    """`loading torch`, `loading model`, `running` or `ended`."""
    loading: str = ""
    """What the target is loading, in words."""
    exit_status: int | None = None
    exit_text: str | None = None
    """How the target ended: the last line of its traceback, or its status in words."""
    clean_close: bool = False
    """The recorder closed the file; else the target was killed or still runs."""
    stdout_cut: int = 0
    """Bytes of the target's output that were dropped because there was too much."""
    stderr_cut: int = 0
    tensors: str = "none"
    """Of which calls the tensors were to be stored: `none`, `last`, `every:N`, `all`, `faults`."""
    tensor_budget: int = 0
    """Bytes that they may take; 0 where it is not known."""
    tensors_dropped: int = 0
    """Calls whose tensors were stored, and went again to stay within the budget."""
    tensors_left_out: int = 0
    """Tensors that were not stored because those that must stay used the budget up."""
    calls: int = 0
    """Records at the clean close; 0 before it."""
    salvaged: str = ""
    """What was lost, where the file was made of a damaged one."""
    damaged: tuple[str, ...] = ()
    """Keys whose values are damaged, so that they stand here with their defaults."""
    extra: Mapping[str, MetaValue] = field(default_factory=dict)
    """Keys that have no field here."""


_OWN = ("damaged", "extra")
_KINDS: dict[str, tuple[type, ...]] = {
    **{f.name: (type(f.default),) for f in fields(Meta) if f.name not in _OWN},
    "exit_status": (int,),
    "exit_text": (str,),
    "clean_close": (int,),
}


def first_values(given: Mapping[str, MetaValue]) -> dict[str, MetaValue]:
    """Give the meta table of a new recording; what is given rules over what is found."""
    return {
        "format": FORMAT,
        "version": own_version(),
        "uuid": str(uuid.uuid4()),
        "created_ns": time.time_ns(),
        "started_ns": time.monotonic_ns(),
        "python": platform.python_version(),
        "pid": os.getpid(),
        **{key: bounded_value(value) for key, value in given.items()},
        "clean_close": 0,
    }


def bounded_value(value: MetaValue) -> MetaValue:
    """Give a value that can be stored."""
    return bounded(value, TEXT_LIMIT) if isinstance(value, str) else value


def meta_of(rows: Iterable[tuple[Any, ...]]) -> Meta:
    """Read the meta table's rows (key, value, crc); a value of a wrong type counts as missing."""
    known: dict[str, Any] = {}
    extra: dict[str, MetaValue] = {}
    damaged = []
    for key, value, crc in rows:
        if not isinstance(key, str) or not _is_value(value) or seal_meta(key, value) != crc:
            damaged.append(str(key)[:NAME_LIMIT])
        elif isinstance(value, str) and len(value) > TEXT_LIMIT:
            damaged.append(key[:NAME_LIMIT])
        elif key not in _KINDS:
            extra[key] = value
        elif type(value) in _KINDS[key]:
            known[key] = value
    known["clean_close"] = bool(known.get("clean_close"))
    return Meta(**known, damaged=tuple(damaged), extra=extra)


def _is_value(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))


def own_version() -> str:
    """Give the version of this pertdbg."""
    from importlib.metadata import PackageNotFoundError, version  # a reader does not need it

    try:
        return version("pertdbg")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"
