"""Which adapters fit a function, decided once from its code; and why the others do not."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pertdbg.agent.seams.flow import may_give
from pertdbg.agent.seams.loops import GradientLoop, find_loops, with_norms
from pertdbg.agent.seams.places import last_part
from pertdbg.agent.seams.rebinds import RETURNED
from pertdbg.agent.seams.source import adds_to_argument, body_of, function_named, name_of_code
from pertdbg.agent.seams.spec import Spec, roots

_OURS = str(Path(__file__).parents[2])
_NEVER = frozenset({"torch", "numpy", "pertdbg", "importlib", "_frozen_importlib"})
_STANDARD = frozenset(sys.stdlib_module_names) - {"__main__"}


@dataclass(frozen=True, eq=False)
class Plan:
    """How one loop is going to be observed."""

    spec: Spec
    loop: GradientLoop
    code: types.CodeType
    name: str
    """What the loop is to be called."""
    names: frozenset[str]
    """Locals that are read."""


@dataclass
class Findings:
    """What was found of each adapter, for people who wonder why nothing was."""

    matched: dict[str, list[str]] = field(default_factory=dict)
    """Names of layers and loops by adapter."""
    near: dict[str, list[str]] = field(default_factory=dict)
    """Why what came near did not match."""

    def hit(self, adapter: str, name: str) -> None:
        """Note that an adapter matched."""
        names = self.matched.setdefault(adapter, [])
        if name not in names:
            names.append(name)

    def miss(self, adapter: str, why: str) -> None:
        """Note that something came near, and what it lacks."""
        reasons = self.near.setdefault(adapter, [])
        if why not in reasons and len(reasons) < _KEPT:
            reasons.append(why)


_KEPT = 5


def is_foreign(module: str, filename: str) -> bool:
    """Say whether a function belongs to Python, torch or us, and so to nobody's training."""
    top = module.partition(".")[0]
    return top in _NEVER or top in _STANDARD or filename.startswith((_OURS, "<frozen"))


def used_by(code: types.CodeType) -> frozenset[str]:
    """Give every name that a function's code uses."""
    return frozenset(
        (*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars, code.co_name)
    )


def loop_plans(
    code: types.CodeType, module: str, specs: list[Spec], findings: Findings
) -> tuple[Plan, ...]:
    """Plan how to observe the loops of a function; the first adapter that fits a loop has it."""
    calls = {call for spec in specs for call in spec.gradient_calls}
    if not _takes_gradients(code, calls):
        return ()
    body = body_of(code)
    if body is None:
        return ()
    where = name_of_code(code)
    plans: dict[tuple[str, int], Plan] = {}
    bounds = {bound for spec in specs for bound in spec.bound}
    named = functools.partial(function_named, code.co_filename)
    loops = with_norms(find_loops(body, calls), body, calls, bounds, named)
    told, used = tuple(_told(loop, code) for loop in loops), used_by(code)
    for spec, loop in _fitting(told, used, module, where, specs, findings):
        key = loop.subject, loop.body[0]
        if key not in plans:
            name = where if not plans else f"{where}:{loop.subject}"
            plans[key] = Plan(spec, loop, code, name, _names(spec, loop))
    return tuple(plans.values())


def _told(loop: GradientLoop, code: types.CodeType) -> GradientLoop:
    """Say of a loop whether it moves what another method adds to its input."""
    if not loop.whole:
        return loop
    added = adds_to_argument(code.co_filename, last_part(loop.subject))
    return dataclasses.replace(loop, added=added)


def _takes_gradients(code: types.CodeType, calls: set[str]) -> bool:
    """Say whether a function may take a gradient, before its source is read."""
    names = used_by(code)
    plainly = bool(names & {"grad", *calls}) or names >= {"backward", "step"}
    return plainly or may_give(names)


def _fitting(
    loops: tuple[GradientLoop, ...],
    used: frozenset[str],
    module: str,
    where: str,
    specs: list[Spec],
    findings: Findings,
) -> Iterator[tuple[Spec, GradientLoop]]:
    for spec in specs:
        for loop in loops:
            lacking = _lacking(spec, loop, used, module, where)
            if lacking is None:
                yield spec, loop
            else:
                findings.miss(spec.name, f"the loop over {loop.subject} in {where} {lacking}")


def _lacking(
    spec: Spec, loop: GradientLoop, used: frozenset[str], module: str, where: str
) -> str | None:
    if not spec.fits_names(module, where.rpartition(".")[2]):
        return "has another name or module"
    if spec.subject and not {loop.subject, last_part(loop.subject)}.intersection(spec.subject):
        return f"moves none of {', '.join(spec.subject)}"
    if loop.whole and not spec.subject and not loop.added:
        return "takes no gradient, and nothing adds it to an input"
    missing = spec.missing_names(used)
    return None if missing is None else f"uses none of {', '.join(missing)}"


def _names(spec: Spec, loop: GradientLoop) -> frozenset[str]:
    guesses = loop.guesses
    limit = () if loop.norms.limit is None else (loop.norms.limit,)
    expressions = (*spec.expressions(), *guesses.bounds, *guesses.steps, *limit)
    named = (loop.subject, *guesses.added_to, *guesses.made_from)
    bound = () if loop.rebound is None or loop.rebound.name == RETURNED else (loop.rebound.name,)
    return roots((*expressions, *named, *bound))
