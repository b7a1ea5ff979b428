"""The ablation of a scenario: which runs are made, in what order, and what comes of them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pertdbg.ablation.compare import compare, noise_between
from pertdbg.ablation.conditions import CALLS, Circumstance, circumstances
from pertdbg.ablation.host import Runs
from pertdbg.ablation.observed import Observed
from pertdbg.ablation.report import Condition, Report, Result
from pertdbg.ablation.sufficient import sufficient
from pertdbg.ablation.variant import Variant
from pertdbg.errors import PertdbgError
from pertdbg.scenario.load import load
from pertdbg.scenario.model import Scenario

Progress = Callable[[int, int], None]
"""Takes the number of runs that have ended and the number that is known to be needed."""


def silent(done: int, total: int) -> None:
    """Report no progress."""


def ablate(
    target: Path,
    *,
    steps: int | None = None,
    pairs: bool = False,
    jobs: int | None = None,
    progress: Progress = silent,
    conditions: bool = True,
) -> Report:
    """Run a scenario whole and without each guard, and compare.

    Each run is a process of its own; neither this process nor any file is changed.

    Args:
        target: The scenario's file.
        steps: Number of update calls; None for what the scenario says.
        pairs: Take out each pair of guards too, and find the least sets that suffice.
        jobs: Runs at once; by default as many as there are processors for us.
        progress: Told of each run that ends.
        conditions: Take each guard out in other circumstances too.

    Raises:
        PertdbgError: The scenario has errors, can't be run whole, or its layer has no source.
    """
    scenario = load(target)
    plan = circumstances(scenario) if conditions else []
    with Runs(target, jobs or _processors()) as runs:
        return _Ablation(runs, steps, progress).report(scenario, plan, pairs=pairs)


class _Ablation:
    """The runs of one ablation; counts them for the progress."""

    def __init__(self, runs: Runs, steps: int | None, progress: Progress) -> None:
        self._runs, self._steps, self._progress = runs, steps, progress
        self._ids = [guard.id for guard in runs.guards]
        self._whole: Observed
        self._total = 0
        self.noise: frozenset[str] = frozenset()
        self.started = time.monotonic()
        self.done = 0

    def report(self, scenario: Scenario, plan: Sequence[Circumstance], *, pairs: bool) -> Report:
        """Make all the runs and say what they showed."""
        singles, whole = self.singles()
        both = self.pairs() if pairs else []
        conditions = tuple(self.condition(one, scenario.loop.calls) for one in plan)
        least = sufficient(self._runs.guards, singles, both, self.suffices) if pairs else []
        return Report(
            target=str(scenario.path),
            title=scenario.title,
            calls=len(whole.records),
            raised=whole.raised,
            noise=tuple(sorted(self.noise)),
            guards=tuple(self._runs.guards),
            singles=tuple(singles),
            pairs=tuple(both),
            paired=pairs,
            sufficient=tuple(least),
            conditions=conditions,
            freezes=scenario.loop.freeze,
            seconds=time.monotonic() - self.started,
            runs=self.done,
        )

    def singles(self) -> tuple[list[Result], Observed]:
        """Run whole, whole again to see what chance does, and without each guard."""
        sets: list[tuple[str, ...]] = [(ident,) for ident in self._ids]
        self._whole, *others = self._run([Variant(steps=self._steps), *self._variants(sets)])
        if self._whole.error is not None:
            raise PertdbgError(self._whole.error)
        self.noise = noise_between(self._whole, self._runs.again(Variant(steps=self._steps)))
        self.done += 1
        return self._compared(sets, others), self._whole

    def pairs(self) -> list[Result]:
        """Run without each pair of guards."""
        sets = list(itertools.combinations(self._ids, 2))
        return self._compared(sets, self._run(self._variants(sets)))

    def suffices(self, kept: Sequence[str]) -> bool:
        """Whether a run with these guards alone is the same as the whole one."""
        rest = tuple(ident for ident in self._ids if ident not in kept)
        (other,) = self._run(self._variants([rest]))
        return compare(rest, self._whole, other, self.noise).same

    def condition(self, one: Circumstance, calls: int) -> Condition:
        """Run whole and without each guard in other circumstances, a few calls only."""
        steps = min(self._steps or calls, CALLS)
        variants = [Variant((), one.values, steps=steps)]
        variants += [Variant((ident,), one.values, steps=steps) for ident in self._ids]
        whole, *others = self._run(variants)
        results = {}
        if whole.error is None and whole.raised is None:
            for ident, other in zip(self._ids, others, strict=True):
                if other.raised is None or other.raised.type != PertdbgError.__name__:
                    results[ident] = compare((ident,), whole, other, self.noise)
        return Condition(one.name, one.words, one.values, len(whole.records), whole.raised, results)

    def _variants(self, sets: Sequence[tuple[str, ...]]) -> list[Variant]:
        return [Variant(without, steps=self._steps) for without in sets]

    def _compared(
        self, sets: Sequence[tuple[str, ...]], others: Sequence[Observed]
    ) -> list[Result]:
        return [
            compare(without, self._whole, other, self.noise)
            for without, other in zip(sets, others, strict=True)
        ]

    def _run(self, variants: Sequence[Variant]) -> list[Observed]:
        self._total = self.done + len(variants)

        def ended() -> None:
            self.done += 1
            self._progress(self.done, self._total)

        return self._runs.run(variants, ended)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
