"""Comparing a run with the whole one, fact by fact."""

from __future__ import annotations

from collections.abc import Iterator

from pertdbg.ablation.classify import RULES, first_sentence, raised
from pertdbg.ablation.observed import Observed
from pertdbg.ablation.report import Change, Result
from pertdbg.ablation.view import Differences, View, differences


def compare(
    without: tuple[str, ...], whole: Observed, other: Observed, noise: frozenset[str] = frozenset()
) -> Result:
    """Compare a run with the whole one.

    Args:
        without: Guards that the run lacks.
        whole: The whole run.
        other: The run.
        noise: What is left out because it differs between two whole runs.
    """
    if other.error is not None:
        changes = [Change("not-run", 1, other.error)]
    else:
        changes = sorted(_changes(whole, other, noise), key=_order)
    return Result(without, tuple(changes), other.raised, len(other.records))


def _order(change: Change) -> tuple[int, bool]:
    """In the order of the calls; what ends the run comes last in its call."""
    return change.call, change.kind == "raised"


def noise_between(first: Observed, second: Observed) -> frozenset[str]:
    """Give what differs between two runs of the same variant: it can tell nothing."""
    passes = list(zip(first.backwards, second.backwards, strict=False))
    whole = {
        "losses": any(a.loss != b.loss for a, b in passes),
        "filled": any(a.filled != b.filled for a, b in passes),
        "live_bytes": first.live_bytes != second.live_bytes,
        "output": first.output != second.output,
    }
    names = {name for name, differs in whole.items() if differs}
    return frozenset(differences(first, second)) | names


def _changes(whole: Observed, other: Observed, noise: frozenset[str]) -> Iterator[Change]:
    found = {k: v for k, v in differences(whole, other).items() if k not in noise}
    ending = list(_ending(whole, other))
    yield from ending
    if ending and other.raised is not None:
        found = {
            k: v for k, v in found.items() if not k.startswith(("update.raised", "source_line"))
        }
    left, silent = dict(found), not ending
    view = View(whole, other, found, noise)
    for rule, speaks_of in RULES:
        for change in rule(view):
            left = {field: first for field, first in left.items() if not speaks_of(field)}
            silent = False
            yield change
    yield from _rest(left)
    if "output" not in noise:
        yield from _output(whole, other, silent=silent and not left)


def _ending(whole: Observed, other: Observed) -> Iterator[Change]:
    """The run ends in another way, or after another number of calls."""
    if other.raised is not None and other.raised != whole.raised:
        yield raised(other.raised)
    elif len(other.records) != len(whole.records) or other.raised != whole.raised:
        last = min(len(other.records), len(whole.records))
        text = f"the run makes {len(other.records)} calls and not {len(whole.records)}"
        yield Change("facts", last, text)


def _rest(left: Differences) -> Iterator[Change]:
    """Name what no rule speaks of, so that nothing goes unsaid."""
    if not left:
        return
    first = min(found.call for found in left.values())
    names = sorted(left)
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    yield Change("facts", first, f"other facts differ: {shown}", {"fields": names})


def _output(whole: Observed, other: Observed, *, silent: bool) -> Iterator[Change]:
    """New warnings, and any other difference in what is printed if nothing else differs."""
    known = set(whole.output)
    new = [line for line in other.output if line not in known]
    warnings = [line for line in new if "Warning: " in line]
    if warnings:
        kind, _, text = warnings[0].partition("Warning: ")
        shown = f"{kind.split()[-1]}Warning: {first_sentence(text)}"
        call = other.printed.get(warnings[0], 1)
        yield Change("output", call, f"a warning is printed: {shown}", {"lines": warnings})
    elif silent and other.output != whole.output:
        shown = new[0] if new else "fewer lines"
        yield Change("output", 1, f"other output: {shown}", {"lines": new})
