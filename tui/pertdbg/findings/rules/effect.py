"""What of delta arrives in the perturbed input."""

from __future__ import annotations

from pertdbg.between import Between
from pertdbg.findings.rule import Closing, Found, Past, ending, rule
from pertdbg.findings.rules.common import UNITS, moved, unit
from pertdbg.output.words import number, share, type_name
from pertdbg.record import CallRecord

_FOLLOWS = 0.5
"""Share of the moved elements that must arrive in the perturbed input."""

_SOME = 0.1
"""Least share of delta's elements that a step moves."""

_REACH = 8
"""A step below so many unit roundoffs is rounded away in inputs of about this size."""

_NEARLY = 0.9
"""Share of delta that must have moved where all that is known of the rest is that half stayed."""

_SMALL = "float16", "bfloat16"
"""Types of whose rounding a sum without a name is looked at for."""

_SHORT = tuple(
    f"delta_moved_fraction >= {_NEARLY} AND delta_moved_max <= {_REACH * UNITS[name]!r}"
    for name in _SMALL
)

_NO_WEIGHT = "no weight was moved"


@rule(
    "update-lost-in-rounding",
    flags=("effect_changed_fraction < 0.5 * delta_moved_fraction", "effect_visible_fraction < 0.5"),
)
def lost(call: CallRecord, past: Past) -> Found | None:
    """Delta moved, but less than half of its moved elements show in the perturbed input.

    Only where the step is so small that the dtype of the perturbed input can have rounded it away
    (a clamp to a valid range hides steps too), and where it is a step: what is left of one at the
    end of a search moves a few elements by a rounding of delta's own. Source: a sum x + d is x
    where |d| is less than half the spacing of the numbers at x; measured at steps of 1e-4 around 1:
    12 % of the elements follow in float16, 2 % in bfloat16.
    """
    delta, effect = call.delta, call.effect
    perturbed = call.tensors.after.perturbed_input
    if perturbed is None or call.update.created or not moved(call) or delta.moved_max is None:
        return None
    changed, share_moved = effect.changed_fraction, delta.moved_fraction or 0.0
    if changed is None or changed >= _FOLLOWS * share_moved:
        return None
    if delta.moved_max > _REACH * unit(perturbed) or _comes_to_rest(call, share_moved):
        return None
    turned = (
        "" if effect.cosine is None else f", and what moved has cosine {effect.cosine:.2f} to it"
    )
    return Found(
        f"delta moved in {share(share_moved)} of its elements by up to {number(delta.moved_max)}, "
        f"but only {share(changed)} of the perturbed input changed{turned}: "
        f"{type_name(perturbed.dtype)} rounds the step away. The loss hardly sees the update.",
        evidence=(
            *("delta.moved_fraction", "delta.moved_max", "effect.changed_fraction"),
            *("effect.cosine", "tensors.after.perturbed_input.dtype"),
        ),
    )


def _comes_to_rest(call: CallRecord, share_moved: float) -> bool:
    step, largest = call.delta.moved_max or 0.0, call.delta.max_abs or 0.0
    return share_moved < _SOME or step < unit(call.tensors.after.delta) * largest


@rule("update-lost-in-rounding", flags=_SHORT)
def lost_on_the_way(call: CallRecord, past: Past) -> Found | None:
    """All of delta moved, but most of what a module was then given is what it was given before.

    For loops that keep no perturbed input: there the sum of input and delta is seen where a module
    takes it. It is named at the call that moved delta. Only where the step is so small that the
    type of that sum can have rounded it away, as above.
    """
    return None if past.previous is None else _on_the_way(call.between, past.previous)


@ending("update-lost-in-rounding")
def lost_at_the_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The same of the pass after the last call."""
    return _on_the_way(closing.between, call)


def _on_the_way(between: Between | None, at: CallRecord) -> Found | None:
    delta = at.delta
    if between is None or between.unmoved not in _SMALL or at.update.created:
        return None
    if at.tensors.after.perturbed_input is not None or at.update.raised or not delta.moved_max:
        return None
    if delta.moved_max > _REACH * UNITS[between.unmoved] or (delta.moved_fraction or 0) < _NEARLY:
        return None
    if _comes_to_rest(at, _NEARLY):
        return None
    return Found(
        f"delta moved in {share(delta.moved_fraction)} of its elements by up to "
        f"{number(delta.moved_max)}, but at least half of the {between.unmoved} numbers that the "
        "model was then given are the same as before: their type rounds the step away. "
        "The loss hardly sees the update.",
        evidence=("delta.moved_fraction", "delta.moved_max"),
        values={"between.unmoved": between.unmoved},
        call=at,
    )


@rule("not-perturbed")
def no_weight(call: CallRecord, past: Past) -> Found | None:
    """An attack on weights moved none of them: no name matched, or none had a gradient."""
    if call.reason("delta") != _NO_WEIGHT or call.update.raised:
        return None
    return Found(
        "the attack moved no weight: none matched its name, or none that did had a gradient. "
        "The adversarial pass is the clean pass once more.",
        evidence=("unknown", "tensors.before.delta"),
        reason="no-weight",
        remedy="Compare the name that the attack looks for with model.named_parameters(), and run "
        "backward before it.",
    )


@rule("not-perturbed", flags=("effect_visible_fraction = 0",))
def invisible(call: CallRecord, past: Past) -> Found | None:
    """The perturbed input equals the input although delta is not zero.

    Not where both are one storage (that is named by itself), nor where rounding explains it.
    """
    perturbed, largest = call.tensors.after.perturbed_input, call.delta.max_abs
    if perturbed is None or call.effect.visible_fraction != 0 or not largest or call.update.raised:
        return None
    if ("input", "perturbed_input") in call.shared or largest <= _REACH * unit(perturbed):
        return None
    return Found(
        f"the perturbed input equals the input in every element although |delta| is up to "
        f"{number(largest)}. The model sees nothing of the perturbation.",
        evidence=("effect.visible_fraction", "effect.gap_max", "delta.max_abs"),
        reason="equal",
    )


@rule("update-lost-in-rounding", flags=("effect_visible_fraction = 0",))
def lost_whole(call: CallRecord, past: Past) -> Found | None:
    """Delta is so small that not one element of it shows: the dtype rounds all of it away."""
    perturbed, largest = call.tensors.after.perturbed_input, call.delta.max_abs
    if perturbed is None or call.effect.visible_fraction != 0 or not largest or call.update.raised:
        return None
    if ("input", "perturbed_input") in call.shared or largest > _REACH * unit(perturbed):
        return None
    return Found(
        f"|delta| is up to {number(largest)}, and not one element of the perturbed input differs "
        f"from the input: {type_name(perturbed.dtype)} rounds all of it away. "
        "The model sees nothing of the perturbation.",
        evidence=(
            *("delta.max_abs", "effect.visible_fraction", "tensors.after.perturbed_input.dtype"),
        ),
    )


@rule("not-perturbed", flags=("delta_max_abs = 0",))
def no_budget(call: CallRecord, past: Past) -> Found | None:
    """Delta is zero everywhere after an update that had a gradient to follow.

    A zero start is none: it needs an update that was neither refused nor without a gradient. Nor is
    the difference of two names for one storage, which is named by itself.
    """
    if call.delta.max_abs != 0 or call.update.created or call.update.raised:
        return None
    if ("input", "perturbed_input") in call.shared:
        return None
    gradient = call.gradient
    if call.update.returned is False or not gradient.present or not gradient.norm:
        return None
    if gradient.nan or gradient.inf or call.delta.nan:
        return None
    return Found(
        f"delta is zero in every element after an update with a gradient of norm "
        f"{number(gradient.norm)}: a budget, a mask or a step of zero takes all of it. "
        "The model sees nothing of the perturbation.",
        evidence=("delta.max_abs", "gradient.norm", "delta.bound", "update.learning_rate"),
        reason="zero",
    )
