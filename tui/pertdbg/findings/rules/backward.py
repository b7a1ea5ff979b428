"""Backward passes: what they run into, what they fill, what they leave alive."""

from __future__ import annotations

from collections.abc import Iterable

from pertdbg.between import BackwardFacts, Between
from pertdbg.findings.rule import Closing, Found, Past, ending, rule
from pertdbg.record import CallRecord

_FREED = "second time", "already been freed"


@rule("backward-twice")
def twice(call: CallRecord, past: Past) -> Found | None:
    """A backward before this call ran into a graph that an earlier one had freed.

    Source: the engine frees what a graph has saved unless it is asked to retain it
    (https://pytorch.org/docs/stable/generated/torch.autograd.backward.html), and says so.
    """
    return _twice(call.between)


@ending("backward-twice")
def twice_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The same of what ran after the last call, or of the exception that ended the script."""
    found = _twice(closing.between)
    raised = closing.raised
    if found is None and raised is not None and closing.last and _says_freed(raised.message):
        found = _freed({"raised.message": raised.message[:300]})
    return found


def _twice(between: Between | None) -> Found | None:
    passes = () if between is None else between.backwards
    failed = next((each for each in passes if _says_freed(each.raised)), None)
    return None if failed is None else _freed({"backward.raised": failed.raised})


def _freed(values: dict[str, object]) -> Found:
    return Found(
        "a backward runs into a part of the graph that an earlier backward has freed already. "
        "Two losses share that part: most often the input of the perturbation, which still "
        "carries the graph of the clean pass.",
        evidence=("backward_reaches.perturbed_input", "graph.perturbed_input.depth"),
        values=values,
    )


def _says_freed(text: str | None) -> bool:
    return text is not None and any(words in text for words in _FREED)


@rule("gradient-leaks")
def leaks(call: CallRecord, past: Past) -> Found | None:
    """The backward of the step went through the perturbed input to leaves that nobody trains.

    Leaves are the parameters before the perturbation, or a tensor of the caller's; one that an
    optimizer holds is meant to collect gradient, as in FreeLB (https://arxiv.org/abs/1909.11764).
    """
    names = () if call.between is None else call.between.leaks
    if not names:
        return None
    return Found(
        f"the backward of this step also fills the gradient of {_listed(names)}: the input that "
        "delta is added to carries a graph. No optimizer holds that, so it collects what every "
        "step of the perturbation leaves there.",
        evidence=("between.leaks", "tensors.before.input.requires_grad"),
    )


@rule("grad-accumulates")
def accumulates(call: CallRecord, past: Past) -> Found | None:
    """The gradient that the call before had found was still there when the backward added to it.

    Several backward passes for one update, as when a batch is split, are no such case: their sum
    is what that update first finds. Source: `backward` accumulates into `.grad`
    (https://pytorch.org/docs/stable/generated/torch.Tensor.backward.html).
    """
    if call.between is None or not call.between.kept_gradient:
        return None
    return Found(
        "the backward added to a gradient that the call before had already read and not cleared. "
        "So this call's gradient is a sum over steps"
        + (", and once it is NaN it stays NaN." if call.gradient.nan else "."),
        evidence=(
            "between.kept_gradient",
            "previous.tensors.after.delta.has_grad",
            "gradient.norm",
        ),
    )


@rule("graph-retained")
def retained(call: CallRecord, past: Past) -> Found | None:
    """The graph of an earlier step is alive with all that it saved, beside that of this step.

    Looked at are graphs of this layer's steps whose backward was asked to retain them and filled
    `.grad`. A graph kept for a backward to come is begun by `autograd.grad`, and is no fault while
    that may still come; see the ending.
    """
    if call.between is None or not call.between.retained:
        return None
    return _kept(("between.retained", "between.backwards"))


@ending("graph-retained")
def retained_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """Graphs of several steps were alive at the end, and no later backward went through them."""
    if closing.between is None or not closing.between.retained or not closing.finished:
        return None
    return _kept(("between.backwards",))


def _kept(evidence: tuple[str, ...]) -> Found:
    return Found(
        "the graph of an earlier step is still alive beside that of this one: retain_graph keeps "
        "its activations, and something keeps its loss. Memory grows with each step.",
        evidence=evidence,
    )


@rule("scaled-gradient")
def scaled(call: CallRecord, past: Past) -> Found | None:
    """The loss was multiplied by a loss scale, and the step is a constant times that gradient.

    A step by sign or by a normalised gradient does not depend on the scale, nor does one that
    divides by it; a factor that counts elements, as from mean to sum, is no scale. Source: a loss
    scaler's gradients must be unscaled before they are used
    (https://pytorch.org/docs/stable/notes/amp_examples.html).
    """
    between, delta = call.between, call.tensors.before.delta
    if between is None or not between.plain_step or delta is None:
        return None
    factor = next((f for f in _factors(between.backwards) if not _counts(f, delta.shape)), None)
    if factor is None:
        return None
    return Found(
        f"the loss was multiplied by {factor:g} before backward, and this update adds the "
        "gradient as it is, times its learning rate: each step is that many times as long as it "
        "should be.",
        evidence=("between.plain_step", "gradient.norm", "update.learning_rate"),
        values={"factor": factor},
    )


def _factors(passes: Iterable[BackwardFacts]) -> list[float]:
    return [each.factor for each in passes if each.factor is not None and each.reaches_delta]


def _counts(factor: float, shape: tuple[int, ...]) -> bool:
    """Say whether a factor is a number of elements of a tensor of this shape."""
    counts, product = set(map(float, shape)), 1.0
    for size in shape:
        product *= size
        counts.add(product)
    return abs(factor) in counts


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
