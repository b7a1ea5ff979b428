"""Where two recordings part, in words or as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pertdbg.compare import Comparison, Difference, FactDifferences, Place, compare
from pertdbg.compare.differ import Key
from pertdbg.compare.facts import TOLERANCE
from pertdbg.output.safe import printable
from pertdbg.output.words import number, several
from pertdbg.recording.reader import Recording

FORMAT = 1
"""Version of the JSON."""

LISTED = 12
"""Most facts, and most calls of one kind, that are named in words."""


def compared(a: Path, b: Path, tolerance: float | None) -> tuple[Comparison, bool]:
    """Compare two recordings.

    Args:
        a: One.
        b: The other.
        tolerance: Relative difference up to which real numbers count as the same; without it
            only equal bits do, and what differs by less than 1e-5 is told apart in words.

    Returns:
        How they differ, and whether they count as the same.

    Raises:
        PertdbgError: One of them cannot be read.
    """
    with Recording.open(a) as one, Recording.open(b) as other:
        found = compare(one, other, TOLERANCE if tolerance is None else tolerance)
    return found, found.same(within_tolerance=tolerance is not None)


def words(found: Comparison) -> Iterator[str]:
    """Say how two recordings differ, the first fact first."""
    calls = several(found.compared, "call")
    if found.first is None:
        yield f"{calls} compared: no fact differs" + (" in a bit" if found.compared else "")
    else:
        yield f"{calls} compared; the first that differs is {_place(found.first)}"
        yield f"  {_values(found.first.difference)}"
        yield from _beyond(found)
        yield from _growth(found.facts[found.first.difference.fact])
        yield from _facts(found)
    for name, keys in (("first", found.only_a), ("second", found.only_b)):
        yield from _only(name, keys)
    if found.damaged:
        yield f"{several(len(found.damaged), 'record')} could not be compared:"
        yield from (f"  {printable(text)}" for text in found.damaged[:LISTED])


def _place(place: Place) -> str:
    ids = str(place.id_a) if place.id_a == place.id_b else f"{place.id_a} and {place.id_b}"
    return f"call {place.call} of {printable(place.layer)} (record {ids})"


def _values(difference: Difference) -> str:
    same = ", equal within the tolerance" if difference.kind == "bits" else ""
    a, b = (printable(_value(value)) for value in (difference.a, difference.b))
    return f"{printable(difference.fact)}: {a} and {b}{same}"


def _value(value: Any) -> str:
    return repr(value) if not isinstance(value, str) else value


def _beyond(found: Comparison) -> Iterator[str]:
    place = found.first_beyond
    if place is None:
        yield f"all numbers agree to {found.tolerance:g}, relative"
    elif place != found.first:
        yield f"by more than {found.tolerance:g}, relative, it is {_place(place)}"
        yield f"  {_values(place.difference)}"


def _growth(fact: FactDifferences) -> Iterator[str]:
    if len(fact.growth) > 1:
        steps = ", ".join(f"{number(size)} at call {call}" for call, size in fact.growth[-LISTED:])
        yield f"how {fact.fact} goes apart: {steps}"


def _facts(found: Comparison) -> Iterator[str]:
    yield f"{several(len(found.facts), 'fact')} with differences:"
    for fact in list(found.facts.values())[:LISTED]:
        worst = "" if fact.worst is None else f", at most by {number(fact.worst)}"
        at = f" (call {fact.worst_call})" if fact.worst and fact.calls > 1 else ""
        calls = several(fact.calls, "call")
        yield f"  {printable(fact.fact)}: in {calls} from call {fact.first.call}{worst}{at}"
    if len(found.facts) > LISTED:
        yield f"  ... and {len(found.facts) - LISTED} more"


def _only(name: str, keys: list[Key]) -> Iterator[str]:
    if keys:
        some = ", ".join(f"{call} of {printable(layer)}" for layer, call in keys[:LISTED])
        more = f", and {len(keys) - LISTED:,} more" if len(keys) > LISTED else ""
        yield f"only in the {name}: call {some}{more}"


def to_json(found: Comparison, same: bool) -> dict[str, Any]:
    """Turn a comparison into plain JSON values."""
    return {
        "format": FORMAT,
        "same": same,
        "compared": found.compared,
        "tolerance": found.tolerance,
        "first": _place_json(found.first),
        "first_beyond_tolerance": _place_json(found.first_beyond),
        "facts": [
            {
                "fact": fact.fact,
                "first_call": fact.first.call,
                "layer": fact.first.layer,
                "calls": fact.calls,
                "worst": fact.worst,
                "worst_call": fact.worst_call if fact.worst is not None else None,
                "last": fact.last,
                "growth": [{"call": call, "difference": size} for call, size in fact.growth],
            }
            for fact in found.facts.values()
        ],
        "only_first": [{"layer": layer, "call": call} for layer, call in found.only_a],
        "only_second": [{"layer": layer, "call": call} for layer, call in found.only_b],
        "damaged": found.damaged,
    }


def _place_json(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    found = place.difference
    return {
        "layer": place.layer,
        "call": place.call,
        "ids": [place.id_a, place.id_b],
        "fact": found.fact,
        "values": [_plain(found.a), _plain(found.b)],
        "kind": found.kind,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return list(value) if isinstance(value, tuple) else value
