"""The pass of the perturbed input: whether it was used, by what, and in which mode."""

from __future__ import annotations

from collections.abc import Iterator

from pertdbg.between import Between, Taken
from pertdbg.findings.rule import Closing, Found, Past, ending, rule
from pertdbg.findings.rules.common import missed_none, moved
from pertdbg.record import CallRecord

_NOTHING = "does not require grad"
_NOT_USED = "not have been used in the graph"
_OF_TYPES = "type", "Half", "BFloat16", "Double"

_WHY = {
    "unused-in-loss": (
        "the loss of the backward does not depend on the perturbed input: no module was seen to "
        "take it",
        "Compute the perturbed pass from the perturbed tensor: the function that is called may "
        "ignore its argument.",
    ),
    "graph-cut": (
        "the perturbed input went into {module}, but no path leads from the loss back to delta: it "
        "was detached, or its values were copied",
        "Leave out the detach, no_grad or conversion between the perturbed input and the loss.",
    ),
    "grad-mode-off": (
        "gradients were switched off while the perturbed pass was computed",
        "Compute the perturbed pass inside torch.enable_grad(), or outside of no_grad.",
    ),
}


@rule("grad-missing")
def not_reached(call: CallRecord, past: Past) -> Found | None:
    """A backward ran, delta is a leaf that requires grad, and yet it got no gradient.

    The loss did not lead to delta: the pass was computed without gradients, the perturbed tensor
    went into a module and was cut off from the loss, or no module took it.
    """
    between, delta = call.between, call.tensors.before.delta
    if between is None or call.gradient.present or call.gradient.reason != "not-filled":
        return None
    if delta is None or not delta.is_leaf or not delta.requires_grad or not _is_wanted(call):
        return None
    if any(each.reaches_delta is not False for each in between.backwards if not each.raised):
        return None
    cut = past.previous is not None and _is_cut(past.previous)
    return _missing(between, cut, ("gradient.present", "gradient.reason", "between.taken"))


@ending("grad-missing")
def not_reached_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The backward after the last call had nothing to differentiate, although delta asked for it.

    Source: torch raises "element 0 of tensors does not require grad", or that a tensor was not
    used in the graph, where no path leads from the loss.
    """
    between, delta = closing.between, call.tensors.after.delta
    if between is None or delta is None or not delta.is_leaf or not delta.requires_grad:
        return None
    failed = next((each for each in between.backwards if _found_nothing(each.raised)), None)
    if failed is None or failed.reaches_delta is not False:
        return None
    found = _missing(between, _is_cut(call), ("tensors.after.delta.requires_grad",))
    return None if past.found.get("grad-missing") == call.call else found


def _missing(between: Between, cut: bool, evidence: tuple[str, ...]) -> Found:
    taken = between.taken
    raised = next((each.raised for each in between.backwards if each.raised), None)
    if taken is not None and not taken.grad_mode:
        reason = "grad-mode-off"
    else:
        reason = "unused-in-loss" if taken is None and not cut else "graph-cut"
    why, remedy = _WHY[reason]
    why = why.format(module=taken.module if taken else "the pass")
    return Found(
        f"delta gets no gradient: {why}. "
        + (
            f"The backward raised {raised.partition(':')[0]}."
            if raised
            else "delta can't be moved."
        ),
        evidence=evidence,
        values={} if taken is None else {"taken.module": taken.module, "taken.way": taken.way},
        reason=reason,
        remedy=remedy,
    )


def _is_wanted(call: CallRecord) -> bool:
    raised = call.update.raised
    if raised is not None:
        return missed_none(raised) or _found_nothing(f"{raised.type}: {raised.message}")
    return not call.update.created and moved(call) is False


def _is_cut(call: CallRecord) -> bool:
    """Say whether a call left a perturbed input that does not lead to the delta that it left."""
    delta, perturbed = call.tensors.after.delta, call.tensors.after.perturbed_input
    asks = delta is not None and delta.requires_grad is True and delta.is_leaf is True
    return asks and perturbed is not None and perturbed.requires_grad is False


def _found_nothing(text: str | None) -> bool:
    return text is not None and (_NOTHING in text or _NOT_USED in text)


@rule("dtype-mismatch")
def of_another_type(call: CallRecord, past: Past) -> Found | None:
    """A module was given the perturbed tensor in another dtype than its own, and raised."""
    return _mismatch(None if call.between is None else call.between.taken)


@ending("dtype-mismatch")
def of_another_type_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The same of the pass after the last call."""
    return _mismatch(None if closing.between is None else closing.between.taken)


def _mismatch(taken: Taken | None) -> Found | None:
    if taken is None or taken.raised is None or taken.autocast or taken.module_dtype is None:
        return None
    if taken.dtype == taken.module_dtype or not any(w in taken.raised for w in _OF_TYPES):
        return None
    return Found(
        f"the perturbed input is {taken.dtype}, but {taken.module}, which takes it, computes in "
        f"{taken.module_dtype}. It raised {taken.raised.partition(':')[0]}.",
        evidence=("tensors.after.perturbed_input.dtype", "tensors.after.input.dtype"),
        values={"taken.raised": taken.raised, "taken.module_dtype": taken.module_dtype},
    )


@rule("stale-input")
def stale(call: CallRecord, past: Past) -> Found | None:
    """The layer answered a pass with the perturbed input that it had made for another batch."""
    return _stale(call.between)


@ending("stale-input")
def stale_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The same of the passes after the last call."""
    return _stale(closing.between)


def _stale(between: Between | None) -> Found | None:
    if between is None or not between.stale:
        return None
    return Found(
        "the model was given another batch, and the layer answered with the perturbed input of "
        "the batch before, whatever it was given. What the model says there is about that batch.",
        evidence=("tensors.before.perturbed_input.shape", "effect.gap_max"),
        values={"between.stale": True},
    )


@rule("stochastic-forward")
def stochastic(call: CallRecord, past: Past) -> Found | None:
    """The loss compares a pass that draws random numbers with a clean pass of the same module.

    Two passes through dropout differ at zero perturbation: the gradient then also says how to undo
    the difference of two masks. Seen in what the loss has saved: the clean pass's output, its
    probabilities or their logarithms. Source: virtual adversarial training needs the same network
    in both passes (https://arxiv.org/abs/1704.03976, section 3.3).
    """
    if call.between is None or not call.between.stochastic:
        return None
    return Found(
        "the loss measures the distance to a clean pass, and the perturbed pass draws random "
        "numbers of its own, as dropout in training mode does. The two differ even where delta is "
        "zero, so part of this gradient is noise.",
        evidence=("between.stochastic", "gradient.norm"),
    )


@rule("padding-perturbed")
def padding(call: CallRecord, past: Past) -> Found | None:
    """Delta is not zero at positions that hold the padding index of an embedding.

    Looked at are embeddings that declare a `padding_idx` and whose newest ids have delta's shape
    but for the last dimension.
    """
    if call.between is None or not call.between.padding:
        return None
    return Found(
        "delta is not zero at padding positions of the batch, as the embedding's padding_idx names "
        "them. What is padded then takes part in the pass, and in every norm over delta.",
        evidence=("between.padding", "tensors.after.delta.shape"),
    )


@rule("mode-left-on")
def left_on(call: CallRecord, past: Past) -> Found | None:
    """Training went on with modules still switched as the perturbation had switched them.

    Seen when an optimizer that holds parameters moves: modules that were in training mode, or
    parameters that required grad, before the perturbation and do not since. It is reported at the
    call before, the last one of the perturbation.
    """
    return next(_left(call.between, past.previous), None)


@ending("mode-left-on")
def left_on_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The same after the last call."""
    return next(_left(closing.between, call), None)


def _left(between: Between | None, before: CallRecord | None) -> Iterator[Found]:
    if between is not None and between.left_on and before is not None:
        yield Found(
            "after the perturbation was made, the model stays switched "
            f"({'; '.join(between.left_on)}) and training goes on with it. It is another model "
            "than the one before the perturbation.",
            values={"between.left_on": list(between.left_on)},
            call=before,
        )
