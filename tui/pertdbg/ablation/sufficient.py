"""The least sets of guards that suffice: derived from singles and pairs, then each one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pertdbg.ablation.report import Result
from pertdbg.guards.model import Guard

MOST = 8
"""Most sets that are looked for."""

Suffices = Callable[[Sequence[str]], bool]


def sufficient(
    guards: Sequence[Guard], singles: Sequence[Result], pairs: Sequence[Result], run: Suffices
) -> list[tuple[str, ...]]:
    """Find the least sets of guards that keep the run as it is.

    A guard whose removal alone changes something is in each of them; of two that cover for each
    other, one is. More than two may cover for each other: so each set is run, with all the other
    guards taken out, and one that fails is filled up.

    Args:
        guards: All the guards.
        singles: Results without one guard.
        pairs: Results without two.
        run: Whether a run with some guards alone is the same as the whole one.
    """
    order = [guard.id for guard in guards]
    needed = {result.without[0] for result in singles if not result.same}
    edges = [
        (result.without[0], result.without[1])
        for result in pairs
        if not result.same and needed.isdisjoint(result.without)
    ]
    found: list[tuple[str, ...]] = []
    for cover in _covers(edges)[:MOST]:
        kept = _filled_up(needed | cover, order, run)
        if kept not in found:
            found.append(kept)
    return found


def _filled_up(kept: set[str], order: Sequence[str], run: Suffices) -> tuple[str, ...]:
    """Give the set if it suffices; else go from all guards down to as few as will do."""
    chosen = [ident for ident in order if ident in kept]
    if run(chosen):
        return tuple(chosen)
    chosen = list(order)
    for ident in order:
        fewer = [other for other in chosen if other != ident]
        if ident not in kept and run(fewer):
            chosen = fewer
    return tuple(chosen)


def _covers(edges: Iterable[tuple[str, str]]) -> list[frozenset[str]]:
    """Give the minimal sets that hold an end of every edge, the smallest first."""
    covers: set[frozenset[str]] = {frozenset()}
    for edge in edges:
        grown = {cover if cover & set(edge) else cover | {end} for cover in covers for end in edge}
        covers = {one for one in grown if not any(other < one for other in grown)}
        covers = set(sorted(covers, key=lambda cover: (len(cover), sorted(cover)))[: MOST * MOST])
    return sorted(covers, key=lambda cover: (len(cover), sorted(cover)))
