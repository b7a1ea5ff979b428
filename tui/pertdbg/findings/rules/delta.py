"""Delta itself: a leaf, finite, within its bound, moved by the gradient, of this batch."""

from __future__ import annotations

import math

from pertdbg.findings.rule import Closing, Found, Past, ending, rule
from pertdbg.findings.rules.common import (
    finite,
    missed_none,
    moved,
    numel,
    same_tensor,
    unit,
)
from pertdbg.output.words import number, share
from pertdbg.record import BoundOf, CallRecord, TensorFacts

_GROWN = 3.0
"""How many times larger delta must get for a first step that rescales the start."""

_SMALL = 0.5
"""Largest share of the start's norm that the step along the gradient has there."""


@rule("nonleaf-delta")
def nonleaf(call: CallRecord, past: Past) -> Found | None:
    """Delta was left as the result of an operation, and the next call suffers from it.

    That is: its gradient is missing there, or it retains its gradient and was built on the delta
    before, whose graph it drags along. A tensor that is no leaf but whose gradient comes from
    `torch.autograd.grad`, or that is made from a leaf in each step and retains its gradient, is
    left alone. It is named at the call that left it. Source: autograd keeps `.grad` of leaves only
    (https://pytorch.org/docs/stable/notes/autograd.html).
    """
    before, left = call.tensors.before.delta, past.previous
    if before is None or before.is_leaf is not False or not before.requires_grad:
        return None
    # A missing gradient is a fault only where the update failed on it or stood still for it.
    suffers = not call.gradient.present and (
        missed_none(call.update.raised) or moved(call) is False
    )
    if not suffers and not (before.retains_grad and _on_the_old(left, past.back(2))):
        return None
    at = left if left is not None and _is_nonleaf(left.tensors.after.delta) else call
    return _nonleaf(at, "after" if at is left else "before")


@ending("nonleaf-delta")
def nonleaf_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The last delta is no leaf, and the script failed on the gradient that it did not get."""
    raised = closing.raised
    if raised is None or not closing.last or not _is_nonleaf(call.tensors.after.delta):
        return None
    return _nonleaf(call, "after") if missed_none(raised) else None


@rule("delta-nonfinite", flags=("delta_nan > 0", "delta_inf > 0"))
def nonfinite(call: CallRecord, past: Past) -> Found | None:
    """NaN or infinities stand in delta.

    Source: 0/0 and inf - inf are NaN (IEEE 754), and clamp lets NaN through; from delta it goes
    into the perturbed input, the loss and every gradient after it.
    """
    delta = call.delta
    if not (delta.nan or delta.inf):
        return None
    counts = [f"{n:,} {name}" for n, name in ((delta.nan, "NaN"), (delta.inf, "Inf")) if n]
    gradient = call.gradient
    clean = gradient.present and not gradient.nan and not gradient.inf
    came = "; its gradient was finite, so the update itself made them" if clean else ""
    zeros = ""
    if clean and gradient.zero_fraction:
        zeros = (
            f" ({share(gradient.zero_fraction)} of the gradient is zero: a row of zeros has "
            "norm 0, and 0/0 is NaN)"
        )
    return Found(
        f"delta holds {' and '.join(counts)} of {numel(call.tensors.after.delta):,} "
        f"elements{came}{zeros}. They spread to every loss and gradient that comes after.",
        evidence=("delta.nan", "delta.inf", "gradient.nan", "gradient.zero_fraction"),
    )


@rule("delta-out-of-bound", flags=("delta_beyond > 0",))
def beyond(call: CallRecord, past: Past) -> Found | None:
    """Delta is larger than a bound that holds after every update, or is created beyond its bound.

    What a recomputed difference of two rounded tensors can be off by does not count. A bound that
    only the creation is clamped to may be left later. Source: the definition of the projection.
    """
    delta = call.delta
    if not delta.beyond or not delta.bound or delta.max_abs is None:
        return None
    if delta.bound_kind != "always" and not call.update.created:
        return None
    if delta.max_abs <= delta.bound + _slack(call, delta.bound):
        return None
    return Found(
        f"|delta| is up to {number(delta.max_abs)}, above the bound {number(delta.bound)} that the "
        f"code names, in {delta.beyond:,} of {numel(call.tensors.after.delta):,} elements. "
        "The attack is stronger than what it is reported as.",
        evidence=("delta.max_abs", "delta.bound", "delta.bound_kind", "delta.beyond"),
    )


@rule("delta-out-of-bound", flags=("delta_norm > 0 AND delta_bound IS NULL",))
def beyond_norm(call: CallRecord, past: Past) -> Found | None:
    """An L2 norm of delta is larger than the limit that the code sets it.

    What has the norm, a sample, a row or the whole, is what the code says. What a recomputed
    difference of rounded tensors can be off by does not count.
    """
    delta, facts = call.delta, call.tensors.after.delta
    largest, limit = delta.norm_max, delta.bound_norm
    if facts is None or largest is None or not limit or not finite(largest):
        return None
    off = math.sqrt(_length(facts.shape, delta.bound_of)) * _slack(call, limit)
    if call.update.created or largest <= limit * (1 + 1e-3) + off:
        return None
    of = {"sample": "a sample of ", "row": "a row of "}.get(delta.bound_of or "", "")
    return Found(
        f"the norm of {of}delta is up to {number(largest)}, above the limit {number(limit)} that "
        "the code names. The attack is stronger than what it is reported as.",
        evidence=("delta.norm_max", "delta.bound_norm", "delta.bound_of"),
        reason="norm",
    )


@rule("random-start-dominates", flags=("step = 1 AND delta_moved_max > 0",))
def start_dominates(call: CallRecord, past: Past) -> Found | None:
    """The first step rescales the random start: what it adds along the gradient is far smaller.

    That is: learning rate times gradient is less than half of the start, and yet delta grows to
    many times the start and moves by far more than the learning rate. So start and step were
    summed before they were normalised. Source: the usual defaults of SMART (noise 1e-5, step 1e-3,
    normalised sum), where the cosine of the new noise to the start is 0.99.
    """
    start, gradient, rate = past.previous, call.gradient, call.update.learning_rate
    if call.step != 1 or start is None or not start.update.created or call.update.raised:
        return None
    if not rate or not finite(gradient.norm) or not start.delta.norm:
        return None
    step, norm, most = call.delta.moved_max, call.delta.norm, call.delta.max_abs
    if not step or not norm or not most or gradient.norm is None or gradient.max_abs is None:
        return None
    added = rate * gradient.norm
    rescaled = norm > _GROWN * (start.delta.norm + added) and step > 2 * rate
    if not rescaled or added > _SMALL * start.delta.norm:
        return None
    return Found(
        f"the first step goes where the random start went: the gradient added {number(added)} to a "
        f"start of norm {number(start.delta.norm)}, and the sum was then scaled up to "
        f"{number(norm)}. The loss that follows measures noise, not the worst direction.",
        evidence=(
            *("gradient.norm", "update.learning_rate", "delta.norm", "delta.moved_max"),
            "previous.delta.norm",
        ),
    )


@rule("stale-delta")
def stale(call: CallRecord, past: Past) -> Found | None:
    """The input is another one than at the call before, and delta is the one made for that.

    An equal input that was computed anew is no other batch, and a delta of one row that is added
    to every batch is made to be kept. Source: an adversarial direction belongs to the inputs whose
    gradients made it.
    """
    before = past.previous
    if before is None or call.update.created or before.tensors.after.delta is None:
        return None
    delta, given = call.tensors.before.delta, call.tensors.before.input
    if not same_tensor(delta, before.tensors.after.delta) or given is None or delta is None:
        return None
    if not _another(call, before) or _is_universal(delta, given) or _made_first(before):
        return None
    return Found(
        f"the input is another one than at call {before.call}, but delta is still the one that was "
        f"made for that (created at {_made(past, call)}). Its direction belongs to other samples.",
        evidence=("between.input", "update.created", "batch", "tensors.before.input.shape"),
    )


def _slack(call: CallRecord, bound: float) -> float:
    """Give by how much rounding alone can bring delta beyond its bound.

    The bound itself is rounded in the coarsest dtype around; a difference of two tensors is off by
    the spacing of the larger one's numbers, which are taken to be up to 1, or 64 times the bound.
    """
    after = call.tensors.after
    there = [facts for facts in (after.delta, after.input, after.perturbed_input) if facts]
    coarsest = max(map(unit, there), default=0.0)
    return max(
        2 * bound * coarsest,
        unit(after.perturbed_input or after.delta) * max(1.0, 64 * bound),
    )


def _nonleaf(at: CallRecord, when: str) -> Found:
    facts: TensorFacts | None = getattr(at.tensors, when).delta
    node = facts.grad_fn if facts is not None and facts.grad_fn else "an operation"
    keeps = facts is not None and facts.retains_grad
    so = (
        "It retains its gradient, but drags the graph of the earlier steps along."
        if keeps
        else "Backward fills the gradients of leaves only, so delta.grad stays None."
    )
    path = f"tensors.{when}.delta"
    return Found(
        f"delta is left as the result of {node}, so it is not a leaf. {so}",
        evidence=(
            *(f"{path}.is_leaf", f"{path}.grad_fn", f"{path}.requires_grad"),
            *(f"{path}.retains_grad", "graph.delta.depth"),
        ),
        call=at,
    )


def _is_nonleaf(facts: TensorFacts | None) -> bool:
    return facts is not None and facts.is_leaf is False and bool(facts.requires_grad)


def _on_the_old(left: CallRecord | None, before: CallRecord | None) -> bool:
    """Say whether the delta that a call left was computed from the one that it found."""
    if left is None:
        return False
    if "before.delta" in left.backward_reaches.perturbed_input:
        return True
    now, then = left.graph.delta, None if before is None else before.graph.delta
    return now is not None and then is not None and now.depth > then.depth > 0


def _length(shape: tuple[int, ...], of: BoundOf | None) -> int:
    """Count the elements that have one norm together."""
    behind = {"sample": shape[1:], "row": shape[-1:]}.get(of or "", shape)
    return math.prod(behind if len(shape) > 1 else shape)


def _another(call: CallRecord, before: CallRecord) -> bool:
    between = getattr(call, "between", None)
    kind = getattr(between, "input", None)
    if kind is not None:
        return bool(kind == "other" or (kind == "rewritten" and not _aliased(before)))
    given, had = call.tensors.before.input, before.tensors.after.input
    return given is not None and had is not None and given.shape != had.shape


def _made_first(made: CallRecord) -> bool:
    """Say whether delta was made before its batch was there: the input was still the last one's."""
    between = made.between
    return made.update.created and between is not None and between.input == "same"


def _aliased(call: CallRecord) -> bool:
    return ("input", "perturbed_input") in call.shared


def _is_universal(delta: TensorFacts, given: TensorFacts) -> bool:
    if not delta.shape or not given.shape:
        return False
    fewer = len(delta.shape) < len(given.shape)
    return fewer or (delta.shape[0] == 1 and given.shape[0] != 1)


def _made(past: Past, call: CallRecord) -> str:
    made = past.creation
    return f"batch {call.batch}" if made is None else f"call {made.call}"
