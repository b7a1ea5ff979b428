"""Kinds of differences: each rule looks at two runs and gives the changes of its kind.

A rule stands with a test of the fields that it speaks of. Where it finds a change, differences in
those fields are said; where it finds none, they are left to the rules after it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

from pertdbg.ablation.observed import Raised
from pertdbg.ablation.report import Change
from pertdbg.ablation.values import values
from pertdbg.ablation.view import View
from pertdbg.output.words import number, role, several, share
from pertdbg.record import CallRecord, GraphFacts, TensorFacts

Rule = Callable[[View], Iterator[Change]]


def raised(found: Raised) -> Change:
    """Say what ended the run."""
    place = "" if found.line is None or found.during == "backward" else f" at line {found.line}"
    when = {
        "update": f"in call {found.call}{place}",
        "backward": f"in the backward before call {found.call}",
        "forward": f"before call {found.call}{place}",
    }.get(found.during, f"before call {found.call}")
    message = first_sentence(found.message)
    text = f"{found.type} {when}" + (f": {message}" if message else "")
    return Change("raised", found.call, text)


def first_sentence(message: str) -> str:
    """Shorten a message of torch's, which can be a paragraph."""
    line = (message.strip().splitlines() or [""])[0]
    return re.split(r"\. | \(or ", line)[0].rstrip(".")


def leaf_lost(view: View) -> Iterator[Change]:
    """Delta is the result of an operation, so that backward fills no gradient in it."""
    for whole, other in view.pairs():
        a, b = whole.tensors.after.delta, other.tensors.after.delta
        if a is not None and b is not None and a.is_leaf and b.is_leaf is False:
            depth = _depth(other.graph.delta)
            text = f"delta is no leaf ({b.grad_fn}), its graph {depth} deep"
            yield Change("leaf-lost", other.id, text, {"grad_fn": b.grad_fn, "depth": depth})
            return


def requires_grad_lost(view: View) -> Iterator[Change]:
    """Delta is a leaf, and no gradient is asked for."""
    for whole, other in view.pairs():
        a, b = whole.tensors.after.delta, other.tensors.after.delta
        if a is not None and b is not None and a.requires_grad and b.requires_grad is False:
            yield Change("requires-grad-lost", other.id, "delta requires no gradient")
            return


def gradient_leaks(view: View) -> Iterator[Change]:
    """A backward fills leaves that it does not fill in the whole run."""
    leaks: dict[str, list[float | None]] = {}
    first = 0
    for whole, other in zip(view.whole.backwards, view.other.backwards, strict=False):
        for name in other.filled.keys() - whole.filled.keys():
            leaks.setdefault(name, []).append(other.filled[name])
            first = first or other.call
    if leaks and "filled" not in view.noise:
        named = [f"{name} (norm {number(norms[0])})" for name, norms in sorted(leaks.items())]
        grows = {name: norms for name, norms in leaks.items() if _grows(norms)}
        text = f"the backward before call {first} fills {_list(named)}"
        text += _growth(grows)
        yield Change("gradient-leaks", first, text, {"norms": leaks})


def _grows(norms: list[float | None]) -> bool:
    known = [norm for norm in norms if norm is not None]
    return len(known) > 2 and all(a < b for a, b in itertools.pairwise(known))


def _growth(leaks: dict[str, list[float | None]]) -> str:
    if not leaks:
        return ""
    norms = next(iter(leaks.values()))
    return f"; they grow with each backward, to norm {number(norms[-1])}"


def reaches(view: View) -> Iterator[Change]:
    """A backward from the perturbed input would come to other leaves."""
    for whole, other in view.pairs():
        a = set(whole.backward_reaches.perturbed_input)
        b = set(other.backward_reaches.perturbed_input)
        if a != b:
            more, less = sorted(b - a), sorted(a - b)
            parts = [f"also reaches {_list([role(x) for x in more])}"] if more else []
            parts += [f"no longer reaches {_list([role(x) for x in less])}"] if less else []
            text = f"a backward from the perturbed input {' and '.join(parts)}"
            yield Change("reaches", other.id, text, {"more": more, "less": less})
            return


def graph_deeper(view: View) -> Iterator[Change]:
    """The graph behind delta or the perturbed input is of another depth, or grows."""
    for name in ("perturbed_input", "delta"):
        for whole, other in view.pairs():
            a, b = getattr(whole.graph, name), getattr(other.graph, name)
            if a != b and a is not None and b is not None:
                yield _deeper(view, name, a, b, other)
                break


def _deeper(view: View, name: str, a: GraphFacts, b: GraphFacts, other: CallRecord) -> Change:
    depths = [_depth(getattr(record.graph, name)) for record in view.other.records]
    per_call = _per_call(depths[other.id - 1 :])
    text = f"the graph behind {_the(name)} is {several(b.depth, 'node')} deep, not {a.depth}"
    if b.depth == a.depth:
        text = f"the graph behind {_the(name)} has {several(b.nodes, 'node')}, not {a.nodes}"
    if per_call:
        text += f", and deepens by {several(per_call, 'node')} a call"
    data = {"role": name, "whole": a.depth, "depth": b.depth, "per_call": per_call}
    return Change("graph-deeper", other.id, text, data)


def _the(name: str) -> str:
    return role(name) if name == "delta" else f"the {role(name)}"


def _depth(facts: GraphFacts | None) -> int:
    return 0 if facts is None else facts.depth


def _per_call(counts: list[int]) -> int:
    """Give the steady growth of a count from call to call; 0 where it is not steady."""
    steps = [b - a for a, b in itertools.pairwise(counts)]
    late = steps[len(steps) // 2 :]
    return min(late) if len(late) > 1 and min(late) > 0 else 0


def memory(view: View) -> Iterator[Change]:
    """More or fewer bytes of tensors stay alive after a call, or ever more of them."""
    a, b = view.whole.live_bytes, view.other.live_bytes
    pairs = list(zip(a, b, strict=False))
    first = next((index for index, (x, y) in enumerate(pairs) if x != y), None)
    if first is None or "live_bytes" in view.noise:
        return
    growth = _per_call(b) - _per_call(a[: len(b)])
    difference = pairs[first][1] - pairs[first][0]
    if growth > 0:
        text = f"memory grows by {growth:,} bytes a call"
    else:
        text = f"{abs(difference):,} bytes {'more' if difference > 0 else 'fewer'} stay alive"
    data = {"bytes": difference, "per_call": max(growth, 0)}
    yield Change("memory", view.call(first), text, data)


def storage_shared(view: View) -> Iterator[Change]:
    """Two roles share a storage that do not in the whole run, or the other way round."""
    for whole, other in view.pairs():
        a, b = _together(whole), _together(other)
        if a != b:
            more = [f"{role(x)} and {role(y)}" for x, y in sorted(b - a)]
            less = [f"{role(x)} and {role(y)}" for x, y in sorted(a - b)]
            parts = [f"{_list(more)} share storage"] if more else []
            parts += [f"{_list(less)} no longer share storage"] if less else []
            data = {"more": sorted(b - a), "less": sorted(a - b)}
            yield Change("storage-shared", other.id, "; ".join(parts), data)
            return


def _together(record: CallRecord) -> set[tuple[str, str]]:
    """Give the pairs of roles, those at entry included, that lie in one storage."""
    return {
        (x, y)
        for storage in record.storages.values()
        for x in storage.holds
        for y in storage.holds
        if x < y
    }


_BITS = {"float8": 3, "bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}


def dtypes(view: View) -> Iterator[Change]:
    """Delta or the perturbed input is kept in another type."""
    for name in ("delta", "perturbed_input"):
        for whole, other in view.pairs():
            a, b = getattr(whole.tensors.after, name), getattr(other.tensors.after, name)
            if a is not None and b is not None and a.dtype != b.dtype:
                yield _dtype(view, name, a, b, other)
                break


def _dtype(view: View, name: str, a: TensorFacts, b: TensorFacts, other: CallRecord) -> Change:
    left, right = a.dtype.removeprefix("torch."), b.dtype.removeprefix("torch.")
    data: dict[str, Any] = {"role": name, "whole": left, "dtype": right}
    text = f"{_the(name)} is {right}, not {left}"
    if _BITS.get(right, 0) >= _BITS.get(left, 0):
        return Change("dtype", other.id, text, data)
    moved = [
        (y.id, x.delta.moved_fraction, y.delta.moved_fraction)
        for x, y in view.pairs()
        if x.delta.moved_fraction is not None and y.delta.moved_fraction is not None
    ]
    if name == "delta" and moved:
        share_whole = sum(m[1] or 0 for m in moved) / len(moved)
        share_other = sum(m[2] or 0 for m in moved) / len(moved)
        text += f"; {share(share_other)} of it moves in an update, not {share(share_whole)}"
        data.update(moved=share_other, moved_whole=share_whole)
    return Change("precision-lost", other.id, text, data)


def bound_left(view: View) -> Iterator[Change]:
    """Delta lies beyond the bound that the code declares where it does not in the whole run."""
    for whole, other in view.pairs():
        a, b = whole.delta, other.delta
        if not a.beyond and b.beyond:
            text = (
                f"{several(b.beyond, 'element')} of delta beyond the bound {number(b.bound)}, "
                f"the largest {b.max_abs:.6g}"
            )
            yield Change("bound-left", other.id, text, {"beyond": b.beyond, "max_abs": b.max_abs})
            return


def not_finite(view: View) -> Iterator[Change]:
    """There is NaN or Inf where there is none in the whole run."""
    for whole, other in view.pairs():
        for name in ("delta", "gradient"):
            a, b = getattr(whole, name), getattr(other, name)
            bad = (b.nan or 0) + (b.inf or 0)
            if bad and not (a.nan or 0) + (a.inf or 0):
                what = "NaN" if b.nan else "Inf"
                text = f"{name} holds {several(bad, what)}"
                yield Change("not-finite", other.id, text, {"where": name, "count": bad})
                return


def refused(view: View) -> Iterator[Change]:
    """The update returns something else."""
    changed = [
        (x, y)
        for x, y in view.pairs()
        if x.update.returned != y.update.returned and y.update.raised is None
    ]
    if not changed:
        return
    whole, other = changed[0]
    text = f"the update returns {other.update.returned}, not {whole.update.returned}"
    if len(changed) > 1:
        text += f", in {several(len(changed), 'call')}"
    data = {"returned": other.update.returned, "calls": [y.id for _, y in changed]}
    yield Change("refused", other.id, text, data)


def _list(names: list[str]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _matches(pattern: str) -> Callable[[str], bool]:
    found = re.compile(pattern)
    return lambda field: found.match(field) is not None


_TENSOR = r"tensors\.(before|after)\."
_OF_DELTA = r"(delta|gradient)(\.(is_leaf|grad_fn|retains_grad|has_grad|requires_grad|is_view))?$"
_OF_GRAPH = r"(perturbed_input|input)\.(grad_fn|is_leaf|requires_grad|retains_grad|has_grad)$"
_NO_GRADIENT = r"gradient\.(present|reason)"

RULES: tuple[tuple[Rule, Callable[[str], bool]], ...] = (
    (leaf_lost, _matches(rf"{_TENSOR}{_OF_DELTA}|{_NO_GRADIENT}|graph\.delta")),
    (requires_grad_lost, _matches(rf"{_TENSOR}{_OF_DELTA}|{_NO_GRADIENT}")),
    (gradient_leaks, _matches("filled")),
    (reaches, _matches(r"backward_reaches|graph\.perturbed_input")),
    (graph_deeper, _matches(rf"graph\.|{_TENSOR}{_OF_GRAPH}")),
    (memory, _matches("live_bytes")),
    (
        storage_shared,
        _matches(rf"shared|storages|{_TENSOR}\w+\.(storage|storage_offset|version|is_view)$"),
    ),
    (dtypes, _matches(rf"{_TENSOR}\w+\.(dtype|nbytes)$|storages\.\w+\.nbytes")),
    (bound_left, _matches(r"delta\.(beyond|at_bound)")),
    (not_finite, _matches(r"(delta|gradient)\.(nan|inf)|unknown")),
    (refused, _matches(r"update\.returned")),
    (values, _matches(r"delta|gradient|effect|bits|unknown|update\.learning_rate")),
)
"""The rules in the order in which their changes are told."""
