"""Memory: who shares it, and who writes into it."""

from __future__ import annotations

from pertdbg.findings.model import Place
from pertdbg.findings.rule import Closing, Found, Past, ending, rule
from pertdbg.findings.rules.common import same_tensor
from pertdbg.record import CallRecord, TensorFacts

_LEAF = "leaf Variable that requires grad"


@rule("storage-shared")
def written(call: CallRecord, past: Past) -> Found | None:
    """Input and perturbed input (or delta) are one storage, and it has been written to.

    Two names for one storage do no harm as long as nobody writes, such as at a start without
    noise. Source: `detach` gives a view (https://pytorch.org/docs/stable/generated/
    torch.Tensor.detach.html); measured, what is added in place to it is added to the input.
    """
    pair = next((p for p in call.shared if p in _PAIRS), None)
    if pair is None or not _was_written(call, past.previous):
        return None
    other = pair[1] if pair[0] == "input" else pair[0]
    return Found(
        f"input and {other.replace('_', ' ')} share one storage, and it was written in place "
        f"(version {_version(call)}). What is meant for the one changes the other as well.",
        evidence=(
            *("shared", "tensors.before.input.version", "tensors.after.input.version"),
            "tensors.after.input.storage",
        ),
    )


@rule("input-modified")
def modified(call: CallRecord, past: Past) -> Found | None:
    """The stored input was written to: inside the update, or as the storage of another tensor.

    A buffer that a new batch is copied into is written between calls and shares with nothing, and
    is left alone. Source: the version counter, which every in-place write raises.
    """
    before, after = call.tensors.before.input, call.tensors.after.input
    inside = _written(before, after)
    last = past.previous
    outside = (
        last is not None
        and any(pair in _PAIRS for pair in last.shared)
        and _written(last.tensors.after.input, before)
    )
    if not inside and not outside:
        return None
    where = "this update" if inside else "something between this call and the one before"
    return Found(
        f"{where} wrote into the stored input, although no new batch came. Each step starts from a "
        "changed input, so the distance to the real one grows unseen.",
        evidence=(
            *("tensors.before.input.version", "tensors.after.input.version"),
            "tensors.after.input.data_ptr",
        ),
    )


@rule("leaf-inplace")
def leaf(call: CallRecord, past: Past) -> Found | None:
    """The update changed a leaf that requires grad in place, which autograd refuses.

    Source: torch raises "a leaf Variable that requires grad is being used in an in-place
    operation", and "a view of a leaf Variable ...".
    """
    raised = call.update.raised
    if raised is None or _LEAF not in raised.message:
        return None
    return Found(
        f"the update changes {_what(raised.message)} in place while autograd records, which raised "
        f"{raised.type}. Autograd could not know the value that its gradient belongs to.",
        evidence=(
            *("tensors.before.delta.is_leaf", "tensors.before.delta.requires_grad"),
            *("tensors.before.delta.version", "update.raised.message"),
        ),
    )


@ending("leaf-inplace")
def leaf_at_end(call: CallRecord, past: Past, closing: Closing) -> Found | None:
    """The script ended because it changed a leaf that requires grad in place."""
    raised = closing.raised
    if raised is None or not closing.last or _LEAF not in raised.message or call.update.raised:
        return None
    return Found(
        f"after this call the script changed {_what(raised.message)} in place while autograd "
        f"recorded, and ended with {raised.type}.",
        evidence=("tensors.after.delta.is_leaf", "tensors.after.delta.requires_grad"),
        values={"raised.message": raised.message[:300]},
        place=place_of(raised),
    )


def place_of(raised: object) -> Place | None:
    """Give the line of the script that an exception came from: the innermost frame known."""
    frames = getattr(raised, "frames", ())
    return Place(frames[-1].file, frames[-1].line) if frames else None


_PAIRS = (
    ("input", "perturbed_input"),
    ("perturbed_input", "input"),
    ("input", "delta"),
    ("delta", "input"),
)


def _was_written(call: CallRecord, last: CallRecord | None) -> bool:
    before, after = call.tensors.before.input, call.tensors.after.input
    if _written(before, after):
        return True
    return last is not None and _written(last.tensors.after.input, before)


def _written(then: TensorFacts | None, now: TensorFacts | None) -> bool:
    if then is None or now is None or not same_tensor(then, now):
        return False
    return then.version is not None and now.version is not None and now.version > then.version


def _version(call: CallRecord) -> str:
    before, after = call.tensors.before.input, call.tensors.after.input
    was = "?" if before is None else before.version
    return f"{was} at entry, {'?' if after is None else after.version} at exit"


def _what(message: str) -> str:
    return (
        "a view of a leaf that requires grad"
        if "view of" in message
        else "a leaf that requires grad"
    )
