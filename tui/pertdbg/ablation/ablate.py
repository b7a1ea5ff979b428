"""An ablation: which runs are made, in what order, and what comes of them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pertdbg.ablation.compare import compare, noise_between
from pertdbg.ablation.conditions import CALLS, Circumstance, circumstances
from pertdbg.ablation.host import Runs
from pertdbg.ablation.observed import Observed
from pertdbg.ablation.report import Condition, Report, Result
from pertdbg.ablation.sufficient import sufficient
from pertdbg.ablation.variant import Target, Variant
from pertdbg.errors import PertdbgError
from pertdbg.scenario.load import load

SCRIPT_CALLS = 20
"""Update calls after which a run of a script ends, where no other number is asked for."""

Progress = Callable[[int, int], None]
"""Takes the number of runs that have ended and the number that is known to be needed."""


def silent(done: int, total: int) -> None:
    """Report no progress."""


def ablate(
    path: Path,
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
        path: The scenario's file.
        steps: Number of update calls; None for what the scenario says.
        pairs: Take out each pair of guards too, and find the least sets that suffice.
        jobs: Runs at once; by default as many as there are processors for us.
        progress: Told of each run that ends.
        conditions: Take each guard out in other circumstances too.

    Raises:
        PertdbgError: The scenario has errors, can't be run whole, or its layer has no source.
    """
    scenario = load(path)
    plan = circumstances(scenario) if conditions else []
    with Runs(Target(scenario=str(path.resolve())), jobs or _processors()) as runs:
        ablation = _Ablation(runs, steps, progress)
        singles = ablation.singles()
        both = ablation.pairs() if pairs else []
        other = tuple(ablation.condition(one, scenario.loop.calls) for one in plan)
        least = ablation.least(singles, both) if pairs else []
        report = ablation.report(
            str(scenario.path), scenario.title, singles, both, least, paired=pairs
        )
    return replace(report, conditions=other, freezes=scenario.loop.freeze)


def ablate_script(
    given: Sequence[str],
    adapters: Sequence[Mapping[str, Any]],
    *,
    steps: int | None = None,
    pairs: bool = False,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Report:
    """Run a script whole and without each guard of the updates in it, and compare.

    Each run is a process of its own, in this working directory, and ends with the last update call
    that was asked for. No file is changed by us; what the script writes, each run writes.

    Args:
        given: A script, or ``-m`` and a module, then arguments.
        adapters: What is looked for in it.
        steps: Number of update calls; None for `SCRIPT_CALLS`.
        pairs: Take out each pair of guards too, and find the least sets that suffice.
        jobs: Runs at once; by default as many as there are processors for us.
        progress: Told of each run that ends.

    Raises:
        PertdbgError: No update was seen in it, or there is no source for any.
    """
    target = Target(given=tuple(given), adapters=tuple(dict(adapter) for adapter in adapters))
    with Runs(target, jobs or _processors()) as runs:
        ablation = _Ablation(runs, steps or SCRIPT_CALLS, progress)
        runs.discover(ablation.whole())
        singles = ablation.singles()
        both = ablation.pairs() if pairs else []
        least = ablation.least(singles, both) if pairs else []
        return ablation.report(target.name, target.name, singles, both, least, paired=pairs)


class _Ablation:
    """The runs of one ablation; counts them for the progress."""

    def __init__(self, runs: Runs, steps: int | None, progress: Progress) -> None:
        self._runs, self._steps, self._progress = runs, steps, progress
        self._whole: Observed
        self._total = 0
        self._started = time.monotonic()
        self._noise: frozenset[str] = frozenset()
        self._done = 0

    def report(
        self,
        target: str,
        title: str,
        singles: Sequence[Result],
        pairs: Sequence[Result],
        least: Sequence[tuple[str, ...]],
        *,
        paired: bool,
    ) -> Report:
        """Say what the runs showed."""
        return Report(
            target=target,
            title=title,
            calls=len(self._whole.records),
            raised=self._whole.raised,
            noise=tuple(sorted(self._noise)),
            guards=tuple(self._runs.guards),
            singles=tuple(singles),
            pairs=tuple(pairs),
            paired=paired,
            sufficient=tuple(least),
            conditions=(),
            freezes=False,
            seconds=time.monotonic() - self._started,
            runs=self._done,
        )

    def whole(self) -> Observed:
        """Run whole.

        Raises:
            PertdbgError: That can't be done.
        """
        (whole,) = self._run([Variant(steps=self._steps)])
        if whole.error is not None:
            raise PertdbgError(whole.error)
        return whole

    def singles(self) -> list[Result]:
        """Run whole, whole again to see what chance does, and without each guard.

        Raises:
            PertdbgError: It can't be run whole.
        """
        sets: list[tuple[str, ...]] = [(guard.id,) for guard in self._runs.guards]
        self._whole, *others = self._run([Variant(steps=self._steps), *self._variants(sets)])
        if self._whole.error is not None:
            raise PertdbgError(self._whole.error)
        self._noise = noise_between(self._whole, self._runs.again(Variant(steps=self._steps)))
        self._done += 1
        return self._compared(sets, others)

    def pairs(self) -> list[Result]:
        """Run without each pair of guards."""
        sets = list(itertools.combinations([guard.id for guard in self._runs.guards], 2))
        return self._compared(sets, self._run(self._variants(sets)))

    def least(self, singles: Sequence[Result], pairs: Sequence[Result]) -> list[tuple[str, ...]]:
        """Find the least sets of guards that suffice."""
        return sufficient(self._runs.guards, singles, pairs, self._suffices)

    def _suffices(self, kept: Sequence[str]) -> bool:
        """Whether a run with these guards alone is the same as the whole one."""
        rest = tuple(guard.id for guard in self._runs.guards if guard.id not in kept)
        (other,) = self._run(self._variants([rest]))
        return compare(rest, self._whole, other, self._noise).same

    def condition(self, one: Circumstance, calls: int) -> Condition:
        """Run whole and without each guard in other circumstances, a few calls only."""
        steps = min(self._steps or calls, CALLS)
        ids = [guard.id for guard in self._runs.guards]
        variants = [Variant((), one.values, steps=steps)]
        variants += [Variant((ident,), one.values, steps=steps) for ident in ids]
        whole, *others = self._run(variants)
        results = {}
        if whole.error is None and whole.raised is None:
            for ident, other in zip(ids, others, strict=True):
                if other.raised is None or other.raised.type != PertdbgError.__name__:
                    results[ident] = compare((ident,), whole, other, self._noise)
        return Condition(one.name, one.words, one.values, len(whole.records), whole.raised, results)

    def _variants(self, sets: Sequence[tuple[str, ...]]) -> list[Variant]:
        return [Variant(without, steps=self._steps) for without in sets]

    def _compared(
        self, sets: Sequence[tuple[str, ...]], others: Sequence[Observed]
    ) -> list[Result]:
        return [
            compare(without, self._whole, other, self._noise)
            for without, other in zip(sets, others, strict=True)
        ]

    def _run(self, variants: Sequence[Variant]) -> list[Observed]:
        self._total = self._done + len(variants)

        def ended() -> None:
            self._done += 1
            self._progress(self._done, self._total)

        return self._runs.run(variants, ended)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
