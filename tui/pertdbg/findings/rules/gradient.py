"""The gradient at delta: there, finite, and large enough to steer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pertdbg.findings.rule import Closing, Found, Past, ending, rule
from pertdbg.findings.rules.common import finite, missed_none, moved, untouched
from pertdbg.output.words import number, share, type_name
from pertdbg.record import GUARD, CallRecord, GradientFacts

_MOST = 0.5
"""Share of the rows that must lie below the guard, and of the learning rate that is lost."""

_STILL = 4
"""Updates in a row that leave delta untouched before it is said."""

_CLOSE = 0.05
"""Relative difference up to which a step is taken for the one that a formula gives."""

_TWO_STEPS = "the sizes of two steps"
_GUARDS = re.compile(
    r"[+]\s*(?P<after>[\d.]+e-\d+|0?\.0+\d+)(?!\s*[*@/\d])"
    r"|(?<![*@/\w.])(?<![*@/] )(?P<before>[\d.]+e-\d+|0?\.0+\d+)\s*[+]"
    r"|(?:add|clamp|clamp_min|clip|max|maximum)\((?:[^()]*[,=]\s*)?"
    r"(?P<least>[\d.]+e-\d+|0?\.0+\d+)\)"
)
"""A small constant beside a plus, or as a least value; not one that is a factor."""

_OFF = "does not require grad"


@rule("grad-missing")
def missing(call: CallRecord, past: Past) -> Found | None:
    """The update found no gradient in delta although it wants one.

    It wants one where it fails on None, or where backward passes ran and delta did not move. An
    update that handles a missing gradient, or that moves delta without one, is left alone.
    Source: the rule of autograd that only leaves that require grad, and tensors that retain it,
    get a `.grad` (https://pytorch.org/docs/stable/generated/torch.Tensor.grad.html).
    """
    gradient = call.gradient
    reason = gradient.reason
    if gradient.present or reason not in _WHY or not _wanted(call):
        return None
    return Found(
        f"delta.grad is None when the update reads it: {_WHY[reason]}. {_end(call)}",
        evidence=("gradient.present", "gradient.reason", *_PROOF[reason], "update.raised.message"),
        reason=reason,
        remedy=_REPAIR[reason],
    )


@ending("grad-missing")
def refused_backward(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The script ended because a backward had nothing to differentiate, and delta asked for none.

    Source: torch raises "element 0 of tensors does not require grad and does not have a grad_fn"
    where nothing behind the loss requires grad.
    """
    raised, delta = closing.raised, call.tensors.after.delta
    if raised is None or not closing.last or delta is None or delta.requires_grad is not False:
        return None
    if raised.type != "RuntimeError" or _OFF not in raised.message:
        return None
    return Found(
        "this update left delta without requires_grad, so the next backward had nothing to "
        f"differentiate: {raised.type}. No gradient can reach delta.",
        evidence=("tensors.after.delta.requires_grad", "tensors.after.perturbed_input.grad_fn"),
        values={"raised.message": raised.message[:300]},
        reason="requires-grad-off",
        remedy=_REPAIR["requires-grad-off"],
    )


@rule("grad-nonfinite", flags=("gradient_nan > 0", "gradient_inf > 0", "gradient_norm = 9e999"))
def nonfinite(call: CallRecord, past: Past) -> Found | None:
    """NaN or infinities stand in the gradient.

    Source: a norm over such a gradient is not finite, so that one element stops every row of an
    update that asks for a finite norm, and spoils every row of one that does not. Where it came
    from is told by what was finite before it: what the model gave, the loss, or both.
    """
    gradient = call.gradient
    if not gradient.present or not (gradient.nan or gradient.inf):
        return None
    origin = _origin(call)
    return Found(
        f"the gradient at delta holds {_bad(gradient)}{_so(call)}. "
        f"One such element makes the norm of the whole gradient useless.{_ORIGINS[origin]}",
        evidence=("gradient.nan", "gradient.inf", "gradient.norm", "update.returned"),
        values={"origin": origin} if origin else {},
        reason="elements",
    )


@rule("grad-nonfinite", flags=("gradient_norm_in_dtype = 9e999", "nan_mask > 0"))
def overflow(call: CallRecord, past: Past) -> Found | None:
    """Every element is finite, but their norm overflows the gradient's dtype, and that shows.

    It shows where the update then declines, does not move delta, or spoils it; a step by sign
    never asks for the norm. Source: float16 ends at 65504, float32 at 3.4e38.
    """
    gradient = call.gradient
    if not gradient.present or gradient.nan or gradient.inf or not finite(gradient.norm):
        return None
    if gradient.norm_in_dtype is None or finite(gradient.norm_in_dtype):
        return None
    if call.update.returned is not False and moved(call) is not False and not call.delta.nan:
        return None
    facts = call.tensors.before.gradient
    dtype = "its dtype" if facts is None else type_name(facts.dtype)
    return Found(
        f"every element of the gradient is finite, but its norm {number(gradient.norm)} overflows "
        f"{dtype}{_so(call)}. The test of the norm takes a good gradient for a broken one.",
        evidence=(
            *("gradient.norm", "gradient.norm_in_dtype", "gradient.nan", "gradient.inf"),
            "tensors.before.gradient.dtype",
        ),
        reason="norm-overflow",
        remedy="Take the norm in float32 (grad.float().norm()), or scale the loss down.",
    )


@rule("update-refused")
def refused(call: CallRecord, past: Past) -> Found | None:
    """The update returned False and left delta as it was."""
    if call.update.returned is not False or call.update.created or moved(call):
        return None
    return Found(
        f"the update returned False and left delta as it was{_why_refused(call)}. "
        "The next forward gives the same values again, and nothing else says so.",
        evidence=("update.returned", "delta.moved_fraction", "gradient.norm_in_dtype"),
    )


@rule("update-refused", flags=("gradient_nan > 0", "gradient_inf > 0", "nan_mask > 0"))
def skipped(call: CallRecord, past: Past) -> Found | None:
    """The update did not say that it declined, but did not touch delta although it had a gradient.

    Only where the gradient or its norm is not finite: elsewhere delta may stand still at its
    bound. A step that adds nothing, such as the sign of NaN, is none that was skipped.
    """
    gradient = call.gradient
    if call.update.returned is False or call.update.raised or not gradient.present:
        return None
    if moved(call) is not False or finite(gradient.norm_in_dtype) or gradient.norm_in_dtype is None:
        return None
    if call.delta.nan or call.delta.inf or not untouched(call):
        return None
    return Found(
        f"the update left delta as it was{_why_refused(call)}, without saying so. "
        "The next forward gives the same values again.",
        evidence=("update.returned", "delta.moved_fraction", "gradient.norm_in_dtype"),
    )


@rule("update-refused", flags=("delta_moved_fraction = 0 AND gradient_norm > 0",))
def thrown_away(call: CallRecord, past: Past) -> Found | None:
    """Since it was created, delta has not been touched by several updates that had a gradient.

    An update that waits for some gradients before it moves is none: it moves in the end. Delta that
    stands still at its bound is written again, and is not meant. Named at the first of the updates.
    Source: an operation out of place (`delta.add(step)`) leaves its operand as it was.
    """
    calls = [call, *[earlier for n in range(1, _STILL) if (earlier := past.back(n)) is not None]]
    if call.step != _STILL or len(calls) < _STILL or not all(map(_ignored, calls)):
        return None
    first = calls[-1]
    return Found(
        f"delta is not touched by this update and the {_STILL - 1} after it, although each had a "
        f"gradient (norm {number(first.gradient.norm)}) and none said that it declined. "
        "The step is computed and thrown away.",
        evidence=("delta.moved_fraction", "gradient.norm", "update.returned"),
        reason="thrown-away",
        remedy="Write the result back: delta.add_(step) under no_grad, or delta = delta + step.",
        call=first,
    )


@rule("grad-zero", flags=("gradient_norm = 0",))
def zero(call: CallRecord, past: Past) -> Found | None:
    """The gradient at delta is exactly zero everywhere.

    At the first step that is a fault of the loss or of the start; after steps with a gradient it
    may be that nothing is left to gain, and is only noted. Source: a normalised step of a zero
    gradient is zero, and returns as if it had moved delta.
    """
    gradient = call.gradient
    if not gradient.present or gradient.norm != 0 or call.update.raised:
        return None
    before = past.previous
    steered = call.step > 1 and before is not None and bool(before.gradient.norm)
    stays = "" if moved(call) else ", so the update leaves delta where it is"
    return Found(
        f"the gradient at delta is exactly zero in every element{stays}. The loss is flat there: "
        "saturated, clamped, or at its minimum.",
        evidence=("gradient.norm", "gradient.max_abs", "gradient.zero_fraction", "delta.moved_max"),
        severity="note" if steered else None,
    )


@rule("guard-dominates", flags=("gradient_guard_fraction > 0.5",))
def guard(call: CallRecord, past: Past) -> Iterator[Found]:
    """Most rows of the gradient lie below the guard 1e-6, and the step shows that it is there.

    The step lr * g / (1e-6 + max|g|) is then far below lr. That the code has such a guard follows
    from the step itself, where the learning rate is known, or from two steps that have the form;
    else from a small constant beside a plus, or as a least value, in the source of the update.
    Rows without any gradient do not count. Source: measured steps, 50 % of lr at a row maximum of
    1e-6, 9 % at 1e-7, 1 % at 1e-8.
    """
    if not _below_guard(call):
        return
    known = _guarded(call, past)
    if known is None:
        return
    if known == _TWO_STEPS and past.previous is not None:
        call = past.previous
    gradient = call.gradient
    assert gradient.guard_fraction is not None  # noqa: S101 - `_below_guard`
    rows = share(gradient.guard_fraction)
    yield Found(
        f"{rows} of the rows have their largest gradient below the guard {GUARD:.0e} that is added "
        f"in the denominator (largest of all {number(gradient.max_abs)}), so the step is "
        f"{number(call.delta.moved_max)}{_of_rate(call)}. The guard, not the gradient, sets it.",
        evidence=(
            *("gradient.guard_fraction", "gradient.max_abs", "delta.moved_max"),
            "update.learning_rate",
        ),
        values={"known from": known},
        call=call,
    )


_WHY = {
    "nonleaf": "delta is the result of an operation, not a leaf, so backward put none there",
    "requires-grad-off": "delta does not require grad, so backward passed it by",
    "no-backward": "no backward ran since the last update, which used the gradient up",
}
_PROOF: dict[str, tuple[str, ...]] = {
    "nonleaf": ("tensors.before.delta.is_leaf", "tensors.before.delta.grad_fn"),
    "requires-grad-off": ("tensors.before.delta.requires_grad",),
    "no-backward": ("gradient.backwards", "tensors.before.delta.is_leaf"),
}
_REPAIR = {
    "nonleaf": "Do every operation on delta first, and end with .detach().requires_grad_(True).",
    "requires-grad-off": "Leave delta with requires_grad_(True): pass the flag that asks for it, "
    "or set it at the end of the update.",
    "no-backward": "Run a forward and a backward before each update.",
}


_ORIGINS = {
    None: "",
    "model": " What the model gave for the perturbed input was not finite already.",
    "loss": " What the model gave was finite and the loss was not: the loss function made it.",
    "forward": " The loss was not finite already when the backward began.",
    "backward": " The loss was finite, so the backward made it: some operation between delta and "
    "the loss has no finite derivative there, such as a root or a logarithm at 0.",
}
"""What is known of where NaN or an infinity in the gradient came from."""


def _origin(call: CallRecord) -> str | None:
    """Say what brought a gradient that is not finite; None where that was not seen."""
    between = call.between
    if between is None or between.kept_gradient:  # the sum may hold what an earlier one left
        return None
    passes = [each for each in between.backwards if each.reaches_delta and each.finite is not None]
    if not passes:
        return None
    spoiled = next((each for each in passes if not each.finite), None)
    if spoiled is None:
        return "backward"
    return {None: "forward", True: "loss", False: "model"}[spoiled.output_finite]


def _ignored(call: CallRecord) -> bool:
    gradient, update = call.gradient, call.update
    if update.created or update.raised or update.returned is False or not gradient.present:
        return False
    usable = finite(gradient.norm_in_dtype) and bool(gradient.norm_in_dtype)
    return usable and moved(call) is False and untouched(call)


def _wanted(call: CallRecord) -> bool:
    raised = call.update.raised
    if raised is not None:
        off = raised.type == "RuntimeError" and _OFF in raised.message
        return missed_none(raised) or (off and call.gradient.reason == "requires-grad-off")
    ran = bool(call.gradient.backwards) and call.gradient.reason != "no-backward"
    return ran and not call.update.created and moved(call) is False


def _end(call: CallRecord) -> str:
    raised = call.update.raised
    if raised is None:
        return "The update leaves delta as it is and says nothing."
    return f"The update raised {raised.type}."


def _bad(gradient: GradientFacts) -> str:
    parts = [f"{n:,} {name}" for n, name in ((gradient.nan, "NaN"), (gradient.inf, "Inf")) if n]
    return " and ".join(parts)


def _so(call: CallRecord) -> str:
    if call.update.returned is False:
        return "; the update declined"
    if call.delta.nan or call.delta.inf:
        return "; it went into delta"
    return "; delta did not move" if moved(call) is False else ""


def _why_refused(call: CallRecord) -> str:
    gradient = call.gradient
    if gradient.nan or gradient.inf:
        origin = _origin(call)
        came = "" if origin is None else f", brought by the {origin}"
        return f": the gradient holds {_bad(gradient)}{came}"
    if gradient.norm_in_dtype is not None and not finite(gradient.norm_in_dtype):
        return f": the gradient's norm {number(gradient.norm)} overflows its dtype"
    if not gradient.present:
        return ": there was no gradient"
    return f"; the gradient's norm is {number(gradient.norm)}"


def _below_guard(call: CallRecord) -> bool:
    gradient, step = call.gradient, call.delta.moved_max
    if not gradient.present or call.update.raised or not gradient.max_abs or not step:
        return False
    return gradient.guard_fraction is not None and gradient.guard_fraction > _MOST


def _guarded(call: CallRecord, past: Past) -> str | None:
    """Say how it is known that the step was divided by the guard and the gradient; None if not."""
    rate, step, largest = call.update.learning_rate, call.delta.moved_max, call.gradient.max_abs
    assert step is not None and largest is not None  # noqa: S101, PT018 - `_below_guard`
    if rate:
        expected = rate * largest / (GUARD + largest)
        return "the size of the step" if _near(step, expected) else None
    before = past.previous
    if before is not None and _below_guard(before):
        return _TWO_STEPS if _same_form(before, call) else None
    source = past.source.source if past.source else None
    by_sign = "sign(" in (source or "")
    return "the source of the update" if _has_guard(source) and not by_sign else None


def _same_form(one: CallRecord, other: CallRecord) -> bool:
    rates, plain = [], []
    for call in (one, other):
        step, largest = call.delta.moved_max or 0.0, call.gradient.max_abs or 1.0
        rates.append(step * (GUARD + largest) / largest)
        plain.append(step / largest)
    return _near(*rates) and not _near(*plain)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other))


def _has_guard(source: str | None) -> bool:
    for found in _GUARDS.finditer(source or ""):
        text = found["after"] or found["before"] or found["least"]
        try:
            if GUARD / 2 <= float(text) <= 1e-3:
                return True
        except ValueError:
            continue
    return False


def _of_rate(call: CallRecord) -> str:
    rate, step = call.update.learning_rate, call.delta.moved_max
    if not rate or step is None:
        return " at most"
    return f" at most, {share(min(step / rate, 1.0))} of the learning rate {number(rate)}"
