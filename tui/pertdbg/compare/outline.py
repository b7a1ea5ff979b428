"""What a row of a recording says, without the labour of making a record of it.

To find where recordings differ, most calls need only be known to be alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from pertdbg.recording.chunks import Chunks
from pertdbg.recording.columns import CALL, DETAILS, Kind
from pertdbg.recording.interned import ReaderInterns
from pertdbg.recording.reader import Recording
from pertdbg.recording.safeopen import DamagedRecording

Alike = Literal["exactly", "in kind"]
"""`exactly`: no fact of two records differs; `in kind`: none by more than what the ranks of a run
differ in anyway. What is not alike may yet be found to be so by `compare.differences`."""

_SIZE = 16
"""Calls that are read together: few, since many recordings may be looked at."""

_KEPT = 128
_CONTENTS = 4096

_APART = {"id", "call", "rank", "time", "layer", "marks", "storages.addresses"}
"""What differs from run to run, or follows from other columns; the layer is compared by name."""

_SAMPLED = {"delta.histogram", "delta.histogram_range.low", "delta.histogram_range.high"}
_NUMBERS: tuple[Kind, ...] = ("int", "bool", "float")
_KIND = (
    *("is_leaf", "requires_grad", "retains_grad", "has_grad", "has_tangent", "is_view"),
    *("contiguous", "dtype", "layout", "grad_fn", "storage"),
)
"""Facts of a tensor in which the ranks of a run do not differ, whatever their batches hold."""


class Step(NamedTuple):
    """Which calls of several recordings belong together; steps are in order by their numbers."""

    numbers: tuple[int, ...]
    layer: str


class Outline(NamedTuple):
    """One call."""

    step: Step
    facts: tuple[Any, ...]
    """Equal where calls are alike."""


def outlines(recording: Recording, numbers: Sequence[str], alike: Alike) -> Chunks[Outline | None]:
    """Read a recording's calls as outlines; None for one that cannot be read.

    Args:
        recording: The recording.
        numbers: Which of a record's numbers say which call it is, as `batch` and `step`.
        alike: What two calls are to be compared for.
    """
    facts = (_Exact if alike == "exactly" else _InKind)()
    places = [_PATHS.index(name) for name in numbers]

    def make(row: tuple[Any, ...], interned: ReaderInterns) -> Outline | None:
        try:
            which = tuple(row[place] for place in places)
            if not all(type(number) is int for number in which):
                return None
            return Outline(Step(which, interned.layer_name(row[_LAYER])), facts(row, interned))
        except (DamagedRecording, ValueError, TypeError):
            return None

    return recording.made(make, size=_SIZE, kept=_KEPT)


def in_kind(fact: str, a: Any, b: Any) -> bool:
    """Say whether two different values of a fact are more than the ranks of a run differ in.

    Their batches differ, so that their numbers do; but not which of them are zero, NaN, infinite
    or missing. Devices differ in their index, shapes in their sizes.
    """
    name = fact.rpartition(".")[2]
    if fact.startswith("delta.histogram") or name in ("stride", "nbytes", "storage_offset"):
        return False
    if name == "shape" and a is not None and b is not None:
        return len(a) != len(b)
    if name == "device" and a is not None and b is not None:
        return bool(a.partition(":")[0] != b.partition(":")[0])
    return bool(_class(a) != _class(b))


def _class(value: Any) -> Any:
    """Give what is left of a number where ranks may differ: whether it is zero, or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return value != 0 if isfinite(value) else str(value)


_PATHS = [column.path for column in CALL]
_LAYER = _PATHS.index("layer")


def _columns(*kinds: Kind) -> list[int]:
    return [k for k, c in enumerate(CALL) if c.kind in kinds and c.path not in _APART]


_TENSORS = [k for k in _columns("ref") if CALL[k].path not in DETAILS]
_DETAILS = [(k, CALL[k].path) for k in _columns("ref") if CALL[k].path in DETAILS]
_TEXTS = _columns("text")


class _Exact:
    """All facts of a row."""

    _plain: Callable[[Sequence[Any]], tuple[Any, ...]] = operator.itemgetter(
        *_columns(*_NUMBERS, "mask", "text", "blob")
    )

    def __init__(self) -> None:
        self._content = lru_cache(_CONTENTS)(_exact_content)

    def __call__(self, row: tuple[Any, ...], interned: ReaderInterns) -> tuple[Any, ...]:
        tensors = (self._content(interned, "", row[k]) for k in _TENSORS)
        details = (self._content(interned, part, row[k]) for k, part in _DETAILS)
        return (type(self)._plain(row), *tensors, *details)


class _InKind:
    """What is left of a row where the ranks of a run may differ."""

    def __init__(self) -> None:
        self._content = lru_cache(_CONTENTS)(_content_in_kind)
        sampled = [k for k, column in enumerate(CALL) if column.path in _SAMPLED]
        key = {_PATHS.index(name) for name in ("batch", "step")}
        self._numbers = [k for k in _columns(*_NUMBERS) if k not in sampled and k not in key]
        self._mask = _PATHS.index("nan_mask")

    def __call__(self, row: tuple[Any, ...], interned: ReaderInterns) -> tuple[Any, ...]:
        tensors = (self._content(interned, "", row[k]) for k in _TENSORS)
        details = (self._content(interned, part, row[k]) for k, part in _DETAILS)
        numbers = (_class(row[k]) for k in self._numbers)
        texts = (row[k] for k in _TEXTS)
        return (row[self._mask], *numbers, *texts, *tensors, *details)


def _exact_content(interned: ReaderInterns, part: str, ident: int | None) -> Any:
    if ident is None:
        return None
    if not part:
        return tuple(interned.tensor_kind(ident).values())
    return _shortened(part, interned.detail(part, ident))


def _content_in_kind(interned: ReaderInterns, part: str, ident: int | None) -> Any:
    if ident is None:
        return None
    if not part:
        facts = interned.tensor_kind(ident)
        device = facts["device"].partition(":")[0]
        return (*(facts[name] for name in _KIND), len(facts["shape"]), device)
    found = interned.detail(part, ident)
    if part == "storages":
        return tuple((label, holds) for label, _, holds, _ in found)
    if part == "backward_reaches":
        *other, norms = found
        return (*other, tuple(map(_class, norms)))
    return _shortened(part, found)


def _shortened(part: str, found: Any) -> Any:
    """Leave the folder of the calling file away."""
    return (PurePath(found.file).name, found.line) if part == "caller" else found
