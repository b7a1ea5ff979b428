"""From the journal to what is said of one interval between two calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pertdbg.agent.base import grad_of
from pertdbg.agent.between.events import Backward, Entry, Fed, Left, Pass, Ref
from pertdbg.agent.between.graphs import is_scale
from pertdbg.agent.between.samples import Sample, sample
from pertdbg.agent.between.seats import Seat
from pertdbg.between import BACKWARDS, BackwardFacts, Between, Taken, Way

if TYPE_CHECKING:
    from pertdbg.agent.between.flow import Flow

_LEAKS = 16
"""Most leaves that are named."""


class Interval:
    """What the journal holds from a layer's last call on."""

    def __init__(self, flow: Flow, seat: Seat, layer: str, subject: Any) -> None:
        """Look back.

        Args:
            flow: Holds the journal.
            seat: What is remembered of the layer.
            layer: Its name.
            subject: The tensor that takes the gradient; None where there is none.
        """
        self._flow, self._seat, self._layer, self._subject = flow, seat, layer, subject
        until = _next_other(flow, seat, layer)
        entries = [e for e in since(flow, seat) if self._concerns(e, until)]
        self.passes = [e for e in entries if isinstance(e, Pass)]
        self.backwards = [e for e in entries if isinstance(e, Backward)]
        self._left = [e for e in entries if isinstance(e, Left)]

    def facts(self, name_of: Callable[[Any], str], owner: Any) -> Between:
        """Say what happened.

        Args:
            name_of: Names a parameter.
            owner: The layer, where there is one.
        """
        own = [each for each in self.backwards if self._reaches(each)]
        return Between(
            backwards=self._passes_of_engine(),
            taken=self._taken(),
            forwards=bool(self.passes),
            leaks=self._leaks(own, name_of),
            retained=bool(own) and self._retained(),
            stale=any(ref() is owner for p in self.passes for ref in p.stale if owner is not None),
            left_on=tuple(
                sorted({n for e in self._left if self._layer in e.layers for n in e.names})
            ),
            stochastic=any(each.compared for each in own),
            unmoved=self._unmoved(),
        )

    def given(self) -> Sample | None:
        """Give the values that a module took the perturbation in, at the newest pass."""
        fed = self._newest()
        return None if fed is None else fed.sample

    def own(self) -> None:
        """Note what leads to delta, while that is there to tell."""
        fed = [each.fed for each in self.passes if each.fed is not None]
        entries: list[Backward | Fed] = [*self.backwards, *fed]
        for each in entries:
            if self._reaches(each):
                each.owners.add(self._layer)

    def first_seen(self) -> tuple[bool, tuple[str, ...]]:
        """Say whether a gradient was kept, and which roles were written, while delta is there."""
        own = [each for each in self.backwards if self._reaches(each)]
        return self._kept_gradient(), self._written(own)

    def scaled(self) -> bool:
        """Say whether a loss was multiplied by what has the size of a loss scale."""
        return any(is_scaled(each) for each in self.backwards if self._reaches(each))

    def _concerns(self, entry: Entry, until: int) -> bool:
        """Say whether an entry is of this layer: it leads there, or no other's call was between."""
        begin = entry.opened if isinstance(entry, Pass) else entry.at
        if isinstance(entry, Left) or begin < until:
            return True
        if isinstance(entry, Backward):
            return self._reaches(entry)
        owner = self._seat.owner()
        mine = owner is not None and any(ref() is owner for ref in entry.answers)
        return mine or (entry.fed is not None and self._reaches(entry.fed))

    def _reaches(self, entry: Backward | Fed) -> bool:
        """Say whether something leads to delta, which may be gone by now."""
        held = self._subject is not None and _holds(entry.leaves, self._subject)
        return held or self._layer in entry.owners

    def _passes_of_engine(self) -> tuple[BackwardFacts, ...]:
        facts = [each for each, _ in groupby(map(self._backward, self.backwards))]
        while len(facts) > BACKWARDS:  # what failed says most, and what leads to delta
            plain = (k for k, f in enumerate(facts) if not f.raised and not f.reaches_delta)
            del facts[next(plain, 0)]
        return tuple(facts)

    def _backward(self, backward: Backward) -> BackwardFacts:
        reaches = self._reaches(backward)
        return BackwardFacts(
            root=backward.root,
            fills=backward.fills,
            retains=backward.retains,
            creates=backward.creates,
            reaches_delta=True if reaches else None if not backward.complete else False,
            factor=_factor(backward),
            raised=backward.raised,
            finite=backward.finite,
            output_finite=backward.output_finite,
        )

    def _taken(self) -> Taken | None:
        for passed in reversed(self.passes):
            fed = passed.fed
            if fed is not None and self._reaches(fed):
                return _took(passed, fed, "graph")
        wanted = self._seat.perturbed
        for passed in reversed(self.passes):
            fed = passed.fed
            answer = fed is not None and passed.answers and fed.carries
            if fed is not None and (answer or _has_values(fed.sample, wanted)):
                return _took(passed, fed, "values")
        return None

    def _newest(self) -> Fed | None:
        """Give what the first module of the newest pass took; what comes behind it is another."""
        taken = [each.fed for each in self.passes if each.fed and self._reaches(each.fed)]
        if not taken:
            return None
        return next(each for each in reversed(taken) if each.module == taken[0].module)

    def _unmoved(self) -> str | None:
        fed, before = self._newest(), self._seat.given
        if fed is None or fed.sample is None or before is None:
            return None
        return fed.dtype if fed.sample.mostly(before) else None

    def _leaks(self, own: list[Backward], name_of: Callable[[Any], str]) -> tuple[str, ...]:
        found: dict[int, Any] = {}
        for backward in own if any(each.fills for each in own) else ():
            for ref in backward.behind if backward.fills else ():
                leaf = ref()
                if leaf is not None and not self._is_meant(leaf):
                    found[id(leaf)] = leaf
        return tuple(sorted(name_of(leaf)[:100] for leaf in list(found.values())[:_LEAKS]))

    def _is_meant(self, leaf: Any) -> bool:
        """Say whether a leaf may have a gradient, or has none."""
        flow = self._flow
        deltas = (seat.delta() for seat in flow.seats.values() if seat.delta is not None)
        if _holds(flow.subjects, leaf) or any(leaf is delta for delta in deltas):
            return True
        if flow.optimizers.hold(leaf):
            return True
        seen = sample(grad_of(leaf))
        return seen is not None and not bool((seen.values != 0).any())

    def _kept_gradient(self) -> bool:
        first = next((each for each in self.backwards if self._reaches(each)), None)
        if first is None or not self._seat.found_gradient or self._seat.delta is None:
            return False
        return self._seat.delta() is self._subject and _holds(first.dirty, self._subject)

    def _retained(self) -> bool:
        return any(
            self._layer in each.owners and each.at <= self._seat.upto and each.fills
            for each in self._flow.kept
            if is_alive(each)
        )

    def _written(self, own: list[Backward]) -> tuple[str, ...]:
        written = [ref() for each in own for ref in each.written]  # some are gone by now
        return tuple(
            sorted({"delta" if t is self._subject else "perturbed_input" for t in written})
        )


def _next_other(flow: Flow, seat: Seat, layer: str) -> int:
    """Give where in the journal the next call of another layer ended."""
    until = sys.maxsize
    for at, name in reversed(flow.finishes):
        if at <= seat.upto:
            break
        if name != layer:
            until = at
    return until


def since(flow: Flow, seat: Seat) -> list[Entry]:
    """Give what has happened, or is under way, since the last call of a layer; oldest first."""
    later: list[Entry] = []
    for entry in reversed(flow.journal):
        ended = entry.closed if isinstance(entry, Pass) else entry.at
        if ended is not None and ended <= seat.upto:
            break
        later.append(entry)
    return later[::-1]


def is_alive(backward: Backward) -> bool:
    """Say whether the graph of a pass through the engine is there, with what it has saved."""
    return not backward.freed and backward.graph is not None and backward.graph() is not None


def _holds(refs: Iterable[Ref], tensor: Any) -> bool:
    return any(ref() is tensor for ref in refs)


def _has_values(given: Sample | None, wanted: Sample | None) -> bool:
    if given is None or wanted is None or given.shape != wanted.shape:
        return False
    return given.close(wanted.values)


def _took(passed: Pass, fed: Fed, way: Way) -> Taken:
    return Taken(
        module=fed.module,
        way=way,
        dtype=fed.dtype,
        module_dtype=fed.module_dtype,
        grad_mode=fed.grad_mode,
        autocast=fed.autocast,
        raised=passed.raised,
    )


def is_scaled(backward: Backward) -> bool:
    """Say whether a factor of a loss may be a loss scale; one that lies on a device may."""
    factor = 1.0 if backward.factor is None else backward.factor
    return not isinstance(factor, float) or is_scale(factor)


def _factor(backward: Backward) -> float | None:
    factor = 1.0 if backward.factor is None else float(backward.factor)
    return factor if is_scale(factor) else None
