"""The differences that are numbers only."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pertdbg.ablation.report import Change
from pertdbg.ablation.view import View
from pertdbg.output.words import number

_TELLING = ("delta.norm", "delta.max_abs", "gradient.norm", "effect.gap_max")
"""Numbers to show, the most telling first."""


def values(view: View) -> Iterator[Change]:
    """Any number or bit differs: of delta, gradient, the perturbed input, a loss."""
    named = ("delta.", "gradient.", "effect.", "bits.")
    fields = {k: v for k, v in view.differences.items() if k.startswith(named)}
    losses = _losses(view)
    filled = _filled(view)
    calls = [first.call for first in fields.values()] + [at for at, _ in losses] + filled
    if not calls:
        return
    call = min(calls)
    parts = _numbers(view)
    largest = max((difference for _, difference in losses), default=0.0)
    if any(math.isnan(difference) for _, difference in losses):
        parts.append("a loss becomes NaN")
    elif largest:
        parts.append(f"a loss differs by up to {number(largest)} of its value")
    if not parts:
        parts.append("in bits that no norm shows" if fields else "of gradients that are filled")
    data = {"fields": sorted(fields), "loss": largest}
    yield Change("values", call, f"the numbers differ: {'; '.join(parts)}", data)


def _losses(view: View) -> list[tuple[int, float]]:
    """Give calls and relative differences of the losses that differ."""
    if "losses" in view.noise:
        return []
    found = []
    for a, b in zip(view.whole.backwards, view.other.backwards, strict=False):
        if a.loss != b.loss:
            found.append((b.call, _apart(a.value, b.value)))
    return found


def _apart(whole: float | None, other: float | None) -> float:
    if whole is None or other is None:
        return math.nan
    return abs(whole - other) / (abs(whole) or 1.0)


def _filled(view: View) -> list[int]:
    """Give the calls before which a gradient that both runs fill differs."""
    if "filled" in view.noise:
        return []
    pairs = zip(view.whole.backwards, view.other.backwards, strict=False)
    return [
        b.call
        for a, b in pairs
        if any(a.filled[name] != b.filled[name] for name in a.filled.keys() & b.filled.keys())
    ]


def _numbers(view: View) -> list[str]:
    """Show the first telling number, at the last call that both runs made."""
    pairs = list(view.pairs())
    for field in _TELLING:
        part, name = field.split(".")
        for whole, other in reversed(pairs):
            a, b = getattr(getattr(whole, part), name), getattr(getattr(other, part), name)
            if a != b and a is not None and b is not None and number(a) != number(b):
                return [f"{field} {number(b)}, not {number(a)}, at call {other.id}"]
    return []
