"""Shapes that have to fit together."""

from __future__ import annotations

import re

from pertdbg.findings.rule import Closing, Found, Past, ending, rule
from pertdbg.findings.rules.storage import place_of
from pertdbg.output.words import type_name
from pertdbg.record import CallRecord, TensorFacts

_SAID = re.compile(
    r"size of tensor a|must match the (?:existing )?size|shapes? .* (?:not aligned|mismatch)"
    r"|cannot be broadcast|not broadcastable|shape mismatch|doesn't match the broadcast shape"
    r"|shape '.*' is invalid|The expanded size"
)
_NUMBER = re.compile(r"\d+")


@rule("shape-mismatch")
def raised(call: CallRecord, past: Past) -> Found | None:
    """The update failed on shapes that do not fit, and delta and input are of such shapes.

    Where delta and input fit, it is the mask, or what else the update combines with them. Source:
    the rules of broadcasting (https://pytorch.org/docs/stable/notes/broadcasting.html).
    """
    failed = call.update.raised
    if failed is None or not _SAID.search(failed.message):
        return None
    before = call.tensors.before
    delta = before.delta or call.tensors.after.delta
    return Found(
        f"{_shapes(delta, before.input)}, so the update raised {failed.type}: "
        f"{failed.message.splitlines()[0][:160]}. {_because(delta, before.input)}",
        evidence=(
            *("tensors.before.delta.shape", "tensors.before.input.shape"),
            "update.raised.message",
        ),
    )


@rule("shape-mismatch")
def spread(call: CallRecord, past: Past) -> Found | None:
    """The perturbed input has another shape than the input: a delta of more rows spread it."""
    given, perturbed = call.tensors.after.input, call.tensors.after.perturbed_input
    if given is None or perturbed is None or given.shape == perturbed.shape:
        return None
    delta = call.tensors.after.delta
    # An input of whole numbers is looked up first, so its shape says nothing of what is perturbed.
    if call.update.raised or delta is None or not type_name(given.dtype).startswith(_FLOATS):
        return None
    if delta.shape != perturbed.shape or not fits(given.shape, perturbed.shape):
        return None
    return Found(
        f"{_shapes(delta, given)}, and broadcasting made a perturbed input of shape "
        f"{_shape(perturbed)}. Each sample is taken several times, with another perturbation.",
        evidence=(
            *("tensors.after.delta.shape", "tensors.after.input.shape"),
            "tensors.after.perturbed_input.shape",
        ),
    )


@ending("shape-mismatch")
def at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The script ended on shapes that do not fit, one of which is delta's."""
    failed, delta = closing.raised, call.tensors.after.delta
    if failed is None or not closing.last or call.update.raised or delta is None:
        return None
    sizes = {int(n) for n in _NUMBER.findall(failed.message)}
    if not _SAID.search(failed.message) or not sizes & set(delta.shape):
        return None
    return Found(
        f"after this call the script ended with {failed.type}: "
        f"{failed.message.splitlines()[0][:160]}. Delta has shape {_shape(delta)}.",
        evidence=("tensors.after.delta.shape", "tensors.after.input.shape"),
        values={"raised.message": failed.message[:300]},
        place=place_of(failed),
    )


_FLOATS = ("float", "bfloat", "complex")


def fits(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """Say whether a tensor of one shape can be added to one of another without changing that."""
    if len(small) > len(large):
        return False
    pairs = zip(reversed(small), reversed(large), strict=False)
    return all(a in (1, b) for a, b in pairs)


def _shapes(delta: TensorFacts | None, given: TensorFacts | None) -> str:
    return f"delta has shape {_shape(delta)} and the input {_shape(given)}"


def _shape(facts: TensorFacts | None) -> str:
    return "unknown" if facts is None else str(list(facts.shape))


def _because(delta: TensorFacts | None, given: TensorFacts | None) -> str:
    if delta is not None and given is not None and not fits(delta.shape, given.shape):
        return "Delta was made for an input of another shape."
    return "A mask, or what else the update combines with them, has another shape."
