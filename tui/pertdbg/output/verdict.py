"""What a record says, in a sentence for each panel; every word follows from its facts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from pertdbg.output.words import number, role, several, share, type_name, why
from pertdbg.record import GUARD, CallRecord, DeltaFacts, TensorFacts

Level = Literal["ok", "note", "warn", "bad"]
"""As expected; worth knowing; likely not what is wanted; a fault."""

DOMINATES = 0.5
"""Share of rows below the guard above which the guard, not the gradient, sets most steps."""

FOLLOWS = 0.5
"""Share of the moved elements that must arrive in the perturbed input to say that it follows."""

_COARSE = ("float16", "bfloat16", "float8")
_ROUNDING = 1 + 1e-3
"""By how much a norm that was scaled to its bound may exceed it in a coarse dtype."""

_ROLES = ("input", "delta", "perturbed_input")
_HONEST = "compared among live tensors only"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence, and how good the news is."""

    text: str
    level: Level


def update(record: CallRecord) -> Verdict:
    """Say what the update did."""
    done = record.update
    if done.raised is not None:
        line = "" if done.raised.line is None else f" at line {done.raised.line}"
        return Verdict(f"the update raised {done.raised.type}{line}: {done.raised.message}", "bad")
    if done.created:
        return Verdict("delta was created", "ok")
    if done.returned is False:
        return Verdict(f"the update was refused (returned False){_kept(record)}", "warn")
    if _moved(record) is False:
        return Verdict(f"the update returned {done.returned}; delta did not move", "note")
    step = record.delta.moved_max
    moved = f"; delta moved by at most {number(step)}" if step is not None else ""
    return Verdict(f"the update returned {done.returned}{moved}", "ok")


def gradient(record: CallRecord) -> Verdict:
    """Say whether there is a gradient, and whether the update can use it."""
    found = record.gradient
    if not found.present:
        return _no_gradient(record)
    if found.nan or found.inf:
        return _not_finite(record)
    if found.norm is None:
        return Verdict(f"gradient there, its norm unknown: {why(record, 'gradient.norm')}", "warn")
    if not math.isfinite(found.norm):
        return Verdict(f"gradient norm is {number(found.norm)}{_outcome(record)}", "bad")
    return _finite(record, found.norm)


def delta(record: CallRecord) -> Verdict:
    """Say how delta stands to its bound, and whether its step arrived in the perturbed input."""
    found = record.delta
    if record.tensors.after.delta is None:
        reason = record.reason("tensors.after.delta") or record.reason("delta")
        return Verdict(f"delta unknown: {reason}" if reason else "there is no delta", "note")
    if found.nan or found.inf:
        return Verdict(f"delta holds {_bad_count(found.nan, found.inf)}", "bad")
    if found.norm is None and found.max_abs is None:
        return Verdict(f"delta's values unknown: {why(record, 'delta.max_abs')}", "warn")
    if record.update.created:
        return _created(record)
    return _bound_broken(record) or _still(record) or _not_followed(record) or _within(record)


def leaf(record: CallRecord) -> Verdict:
    """Say whether a backward will fill delta.grad, and why."""
    found = record.tensors.after.delta
    if found is None:
        reason = record.reason("tensors.after.delta")
        return Verdict(f"delta unknown: {reason}" if reason else "there is no delta", "note")
    if found.is_leaf is None or found.requires_grad is None:
        reason = why(record, "tensors.after.delta.is_leaf", "tensors.after.delta.requires_grad")
        return Verdict(f"whether delta is a leaf is unknown: {reason}", "warn")
    if not found.is_leaf:
        return _not_leaf(found)
    if not found.requires_grad:
        text = "delta is a leaf, but requires_grad is off: backward will not fill delta.grad"
        return Verdict(text, "warn")
    return _leaf(record, found)


def storage(record: CallRecord) -> Verdict:
    """Say which of input, delta and perturbed input share memory at exit."""
    if record.shared:
        pairs = [_pair(record, *pair) for pair in record.shared[:2]]
        rest = len(record.shared) - len(pairs)
        more = f"; {several(rest, 'more pair')}" if rest else ""
        return Verdict(f"{'; '.join(pairs)}{more} ({_HONEST})", "warn")
    there = [name for name in _ROLES if getattr(record.tensors.after, name) is not None]
    labels = {name: _label(record, name) for name in there}
    hidden = [name for name in there if labels[name] is None]
    if hidden:
        reason = why(record, f"tensors.after.{hidden[0]}.storage", "shared")
        names = " and ".join(role(name) for name in hidden)
        return Verdict(f"storage of {names} unknown: {reason} ({_HONEST})", "note")
    if reason_unknown := record.reason("shared"):
        return Verdict(f"who shares is unknown: {reason_unknown} ({_HONEST})", "note")
    if len(there) < 2:
        return Verdict(f"nothing to compare: {_alone(there)} ({_HONEST})", "note")
    names = ", ".join(f"{role(name)} {labels[name]}" for name in there)
    return Verdict(f"separate storages: {names} ({_HONEST})", "ok")


def _no_gradient(record: CallRecord) -> Verdict:
    reason = record.gradient.reason
    if reason == "no-delta" and record.update.created:
        return Verdict("no gradient yet: this call created delta", "ok")
    before = record.tensors.before.delta
    node = f" ({before.grad_fn})" if before is not None and before.grad_fn else ""
    words = {
        "no-delta": "no gradient: there was no delta at entry",
        "nonleaf": f"no gradient: delta was not a leaf{node}, so backward filled none",
        "requires-grad-off": "no gradient: delta's requires_grad was off",
        "no-backward": "no gradient: no backward was started since the last update",
        "not-filled": "no gradient: a backward ran, but did not fill delta.grad",
    }
    if reason in words:
        text = words[reason]
    else:
        text = f"no gradient; why is unknown: {why(record, 'gradient.reason', 'gradient')}"
    failed = record.update.raised is not None
    return Verdict(text + _outcome(record), "bad" if failed else "warn")


def _not_finite(record: CallRecord) -> Verdict:
    found = record.gradient
    return Verdict(f"gradient holds {_bad_count(found.nan, found.inf)}{_outcome(record)}", "bad")


def _finite(record: CallRecord, norm: float) -> Verdict:
    found, facts = record.gradient, record.tensors.before.gradient
    dtype = "its dtype" if facts is None else type_name(facts.dtype)
    outcome = _outcome(record)
    in_dtype = found.norm_in_dtype
    if in_dtype is not None and not math.isfinite(in_dtype):
        text = f"gradient is finite, but its norm {number(norm)} overflows {dtype}"
        return Verdict(text + outcome, "bad")
    if norm == 0:
        return Verdict(f"gradient is zero everywhere{outcome}", "warn")
    if in_dtype == 0:
        text = f"gradient norm {number(norm)} underflows to 0 in {dtype}"
        return Verdict(text + outcome, "warn")
    if found.guard_fraction is not None and found.guard_fraction > DOMINATES:
        text = f"guard {GUARD:.0e} dominates".replace("e-0", "e-")
        rows = f"{share(found.guard_fraction)} of rows lie below it"
        return Verdict(f"{text}: {rows}, norm {number(norm)}{outcome}", "warn")
    level: Level = "bad" if record.update.raised else "warn" if outcome else "ok"
    return Verdict(f"gradient norm {number(norm)}, finite{outcome}", level)


def _outcome(record: CallRecord) -> str:
    """Say, as the end of a sentence, that the update raised or refused; else nothing."""
    if record.update.raised is not None:
        return f"; the update raised {record.update.raised.type}"
    if record.update.returned is False:
        return f"; refused{_kept(record)}"
    return ""


def _kept(record: CallRecord) -> str:
    """Say what a refused update left as it was, as far as the facts prove it."""
    before, after = record.tensors.before, record.tensors.after
    kept = []
    if record.delta.moved_fraction == 0 and _same_place(before.delta, after.delta):
        kept.append("delta")
    if record.effect.changed_fraction == 0 and _same_place(
        before.perturbed_input, after.perturbed_input
    ):
        kept.append("perturbed input")
    return f": {' and '.join(kept)} left in place, unchanged" if kept else ""


def _same_place(before: TensorFacts | None, after: TensorFacts | None) -> bool:
    """Say whether the facts prove that a tensor is where it was at entry."""
    if before is None or after is None or before.storage is None:
        return False
    return replace(before, has_grad=None) == replace(after, has_grad=None)


def _moved(record: CallRecord) -> bool | None:
    moved = record.delta.moved_fraction
    return None if moved is None else moved > 0


def _bad_count(nan: int | None, inf: int | None) -> str:
    parts = [f"{count:,} {name}" for count, name in ((nan, "NaN"), (inf, "Inf")) if count]
    return " and ".join(parts)


def _elements(record: CallRecord, count: int) -> str:
    facts = record.tensors.after.delta
    if facts is None:
        return several(count, "element")
    return f"{count:,} of {several(math.prod(facts.shape), 'element')}"


def _created(record: CallRecord) -> Verdict:
    found = record.delta
    if found.bound is None:
        return Verdict(f"delta created, max {number(found.max_abs)}; {_no_bound(record)}", "ok")
    bound = f"its {_kind(found)}bound {number(found.bound)}"
    if found.beyond is None:
        reason = why(record, "delta.beyond")
        return Verdict(f"delta created; whether within {bound} is unknown: {reason}", "note")
    if found.beyond:
        return Verdict(
            f"delta created with {_elements(record, found.beyond)} beyond {bound}", "bad"
        )
    at_bound = f", {found.at_bound:,} exactly at it" if found.at_bound else ""
    word = "clamped to" if found.at_bound else "within"
    return Verdict(f"delta created, {word} {bound}{at_bound}", "ok")


def _bound_broken(record: CallRecord) -> Verdict | None:
    found = record.delta
    largest, limit = found.norm_max, found.bound_norm
    if largest is not None and limit is not None and largest > limit * _ROUNDING:
        return Verdict(f"{_no_bound(record)}, which every update should keep", "bad")
    if not found.beyond or found.bound_kind != "always":
        return None
    text = f"{_elements(record, found.beyond)} beyond bound {number(found.bound)}"
    return Verdict(f"{text}, which every update should keep", "bad")


def _still(record: CallRecord) -> Verdict | None:
    if _moved(record) is not False:
        return None
    if record.update.raised is not None:
        return Verdict("delta did not move: the update raised", "bad")
    if record.update.returned is False:
        return Verdict("delta did not move: the update was refused", "warn")
    if record.gradient.norm == 0:
        return Verdict("delta did not move: the gradient is zero", "warn")
    return Verdict("delta did not move", "warn")


def _not_followed(record: CallRecord) -> Verdict | None:
    moved, changed = record.delta.moved_fraction, record.effect.changed_fraction
    if not moved or changed is None or changed >= FOLLOWS * moved:
        return None
    text = f"{share(changed)} of the perturbed input followed"
    facts, own = record.tensors.after.perturbed_input, record.tensors.after.delta
    if facts is None or own is None or not _coarser(facts.dtype, own.dtype):
        return Verdict(f"{text}, though {share(moved)} of delta moved", "warn")
    return Verdict(f"{text}: {type_name(facts.dtype)} rounds the step away", "warn")


def _coarser(dtype: str, than: str) -> bool:
    return type_name(dtype).startswith(_COARSE) and not type_name(than).startswith(_COARSE)


def _within(record: CallRecord) -> Verdict:
    found = record.delta
    largest = f"max {number(found.max_abs)}"
    if found.bound is None:
        return Verdict(f"{largest}; {_no_bound(record)}", "ok")
    if found.beyond is None:
        reason = why(record, "delta.beyond")
        return Verdict(f"{largest}; whether within the bound is unknown: {reason}", "note")
    if found.beyond:
        text = (
            f"{_kind(found)}bound {number(found.bound)}: {_elements(record, found.beyond)} beyond"
        )
        return Verdict(f"{text} (creation is clamped, later updates are not)", "note")
    return Verdict(f"within its {_kind(found)}bound {number(found.bound)}, {largest}", "ok")


def _kind(found: DeltaFacts) -> str:
    return "creation " if found.bound_kind == "creation" else ""


def _no_bound(record: CallRecord) -> str:
    found = record.delta
    if found.bound_norm is not None and found.norm_max is not None:
        of = f" of a {found.bound_of}" if found.bound_of in ("sample", "row") else ""
        return f"L2 norm{of} up to {number(found.norm_max)}, bound {number(found.bound_norm)}"
    reason = record.reason("delta.bound")
    return f"bound unknown: {reason}" if reason else "no bound declared"


def _not_leaf(found: TensorFacts) -> Verdict:
    node = found.grad_fn or "node unknown"
    if found.retains_grad:
        text = f"delta is not a leaf ({node}), but retains its gradient: backward will fill it"
        return Verdict(text, "note")
    return Verdict(f"delta is not a leaf ({node}): backward will not fill delta.grad", "bad")


def _leaf(record: CallRecord, found: TensorFacts) -> Verdict:
    reach, perturbed = record.backward_reaches, record.tensors.after.perturbed_input
    known = record.reason("backward_reaches") is None and perturbed is not None
    if known and reach.complete and "delta" not in reach.perturbed_input:
        text = "delta is a leaf, but a backward from the perturbed input will not reach it"
        return Verdict(text, "warn")
    if found.has_grad:
        return Verdict("delta is a leaf: backward will add to what delta.grad holds", "note")
    return Verdict("delta is a leaf: backward will fill delta.grad", "ok")


def _pair(record: CallRecord, one: str, other: str) -> str:
    label = _label(record, one)
    return f"{role(one)} and {role(other)} share storage{f' {label}' if label else ''}"


def _label(record: CallRecord, name: str) -> str | None:
    held = (label for label, facts in record.storages.items() if name in facts.holds)
    return next(held, None)


def _alone(there: list[str]) -> str:
    return f"only {role(there[0])} is there" if there else "no tensor is there"
