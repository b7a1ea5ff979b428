"""What an operation or a line did, in words: from the facts that were observed, never from source.

The texts are as hostile as the recording that they come from; who shows them takes care of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pertdbg.output.words import number, share

if TYPE_CHECKING:
    from pertdbg.event import LineEvent, LineTensor, Operation

_CLAMPS = ("clamp", "clip", "hardtanh", "relu6")
_READS = ("grad",)


def of_operation(operation: Operation) -> str:
    """Say what an operation did, as "detach: same storage A, grad_fn AddBackward0 gone"."""
    return f"{_name(operation.op)}: {', '.join(_parts(operation))}"


def of_line(event: LineEvent) -> str:
    """Say what a line did to the tensors that have names."""
    return "; ".join(_of_line(event)) or "no tensor made or changed"


def _name(op: str) -> str:
    return f".{op[:-1]} =" if op.endswith("=") and op != "[]=" else op


def _parts(found: Operation) -> Iterator[str]:
    if found.raised is not None:
        yield f"raised {found.raised}"
    elif found.value is not None:
        yield str(found.value)
    elif found.output is None:
        yield "ran"
    elif found.input is None:
        yield f"new tensor {_kind(found.output)}{_in(found.output)}"
    elif found.op in _READS:
        yield f"{_kind(found.output)}{_norm(found.output)}"
    elif found.same_tensor:
        yield from _of_itself(found, found.input, found.output)
    else:
        yield from _of_another(found, found.input, found.output)


def _of_itself(found: Operation, before: LineTensor, after: LineTensor) -> Iterator[str]:
    """The operation gave the tensor that it was given."""
    wrote = before.version != after.version
    if wrote:
        yield f"written in place{_in(after)}, version {before.version} to {after.version}"
        yield from _counted(found)
    moved = before.storage != after.storage
    if moved:
        yield f"storage {before.storage or 'unknown'} to {after.storage or 'unknown'}, same tensor"
        yield from _counted(found)
    changes = [*_flags(before, after), *_gradient(before, after)]
    yield from changes
    if wrote or moved or changes:
        return
    if found.op == "grad=":
        yield "replaced" if after.has_grad else "was empty already"
    elif found.op.startswith("requires_grad"):
        yield f"same tensor, requires_grad stays {_on(after.requires_grad)}"
    elif found.in_place:
        yield "same tensor, written by a way that counts no version"
    elif found.op in _CASTS:
        yield f"already {after.dtype}, nothing done, same tensor"
    else:
        yield "nothing done, same tensor"


_CASTS = (
    *("to", "type", "float", "double", "half", "bfloat16", "type_as"),
    *("int", "long", "short", "bool", "cpu", "cuda"),
)


def _of_another(found: Operation, before: LineTensor, after: LineTensor) -> Iterator[str]:
    """The operation gave another tensor than the one that it was given."""
    if found.same_storage:
        yield f"same storage{f' {after.storage}' if after.storage else ''}"
    elif found.same_storage is False:
        yield f"new storage {after.storage}" if after.storage else "new storage"
    if before.dtype != after.dtype:
        yield f"{before.dtype} to {after.dtype}"
    if before.shape != after.shape:
        yield f"shape {_shape(before)} to {_shape(after)}"
    yield from _counted(found)
    if found.same_storage:
        yield from _flags(before, after)
    elif after.grad_fn is not None:
        yield f"recorded as {after.grad_fn}"
    elif before.requires_grad and after.requires_grad is False:
        yield "not recorded for a backward"


def _flags(before: LineTensor, after: LineTensor) -> Iterator[str]:
    """Say what became of the flags, from the one tensor to the other."""
    if before.grad_fn is not None and after.grad_fn is None:
        yield f"grad_fn {before.grad_fn} gone"
    elif before.grad_fn is None and after.grad_fn is not None and before.storage == after.storage:
        yield f"grad_fn {after.grad_fn}"
    if before.requires_grad != after.requires_grad:
        yield f"requires_grad {_on(after.requires_grad)}"


def _gradient(before: LineTensor, after: LineTensor) -> Iterator[str]:
    if before.has_grad and after.has_grad is False:
        yield ".grad gone"
    elif before.has_grad is False and after.has_grad:
        yield ".grad there"


def _counted(found: Operation) -> Iterator[str]:
    if found.changed is None or found.elements is None:
        return
    count = f"{found.changed:,} of {found.elements:,} values"
    cast = found.input is not None and found.output is not None
    if found.op.rstrip("_").startswith(_CLAMPS):
        yield f"{count} moved to the bound"
    elif cast and found.input.dtype != found.output.dtype:  # type: ignore[union-attr]
        if found.changed:
            yield f"{_share(found.changed, found.elements)} of elements rounded"
        else:
            yield "no element rounded"
        if found.changed and found.equal is not None:
            yield f"{_share(found.equal, found.elements)} to what the other tensor holds there"
    else:
        yield f"{count} changed"


def _of_line(event: LineEvent) -> Iterator[str]:
    if event.raised is not None:
        yield f"left by {event.raised}"
    for name, tensor in event.tensors.items():
        yield f"{name} {_became(tensor, made=name in event.made)}"
    if event.gone:
        yield f"no tensor any more: {', '.join(event.gone)}"
    if event.gradients != event.gradients_before:
        yield _MODES[event.gradients]
    if event.over:
        yield f"stepped over {', '.join(event.over)}"


_MODES = {
    "on": "operations are recorded for a backward again",
    "off": "operations are not recorded for a backward from here",
    "inference": "inference mode from here",
}


def _became(tensor: LineTensor, *, made: bool) -> str:
    if made and tensor.same:
        return f"is the same tensor as {', '.join(tensor.same)}"
    words = [f"{'is' if made else 'changed, now'} {_role(tensor)} {_kind(tensor)}{_in(tensor)}"]
    if tensor.shares:
        words.append(f"shared with {', '.join(tensor.shares)}")
    if tensor.version:
        words.append(f"version {tensor.version}")
    return ", ".join(words)


def _role(tensor: LineTensor) -> str:
    if tensor.leaf is None:
        return "a tensor"
    if not tensor.leaf:
        return f"made by {tensor.grad_fn}:"
    return "a leaf that a backward fills" if tensor.requires_grad else "a tensor without gradient"


def _kind(tensor: LineTensor) -> str:
    return f"{tensor.dtype}{_shape(tensor)}"


def _shape(tensor: LineTensor) -> str:
    return f"[{', '.join(map(str, tensor.shape))}]"


def _in(tensor: LineTensor) -> str:
    return f" in storage {tensor.storage}" if tensor.storage else ""


def _norm(tensor: LineTensor) -> str:
    return "" if tensor.norm is None else f", norm {number(tensor.norm)}"


def _on(flag: bool | None) -> str:
    return "unknown" if flag is None else "on" if flag else "off"


def _share(count: int, whole: int) -> str:
    return share(count / whole if whole else 0.0)
