"""What an operation or a line did, in words: from the facts that were observed, never from source.

The texts are as hostile as the recording that they come from; who shows them takes care of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pertdbg.output.words import number, share

if TYPE_CHECKING:
    from pertdbg.event import LineEvent, LineTensor, Operation

_CLAMPS = ("clamp", "clip", "hardtanh", "relu6")
_READS = ("grad",)
_CHOOSING = ("where",)
"""Operations whose first tensor says only where the values come from."""


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
        yield _ran(found)
    elif found.input is None:
        yield f"new tensor {_kind(found.output)}{_in(found.output)}"
    elif found.op in _READS:
        yield f"{_kind(found.output)}{_norm(found.output)}"
    elif found.same_tensor:
        yield from _of_itself(found, found.input, found.output)
    else:
        yield from _of_another(found, found.input, found.output)


def _ran(found: Operation) -> str:
    """Say of an operation that gave nothing where it began, if it is a backward."""
    behind = None if found.input is None else found.input.grad_fn
    return f"ran through the graph behind {behind}" if behind and found.op == "backward" else "ran"


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
    if found.in_place:
        yield f"written to a tensor that it was given{_in(after)}"
    elif found.same_storage:
        yield f"same storage{f' {after.storage}' if after.storage else ''}"
    elif found.same_storage is False:
        yield f"new storage {after.storage}" if after.storage else "new storage"
    if before.dtype != after.dtype and found.op not in _CHOOSING:
        yield f"{before.dtype} to {after.dtype}"
    if before.shape != after.shape:
        yield f"shape {_shape(before)} to {_shape(after)}"
    yield from _counted(found)
    if found.same_storage:
        yield from _flags(before, after)
        if found.op == "detach" and not before.requires_grad:
            yield "nothing to cut off"
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
    told: set[str] = set()
    for name, tensor in event.tensors.items():
        twin = next((each for each in tensor.same if each in told), None)
        known = [each for each in tensor.same if each in told or each not in event.made]
        if name in event.made and known:
            yield f"{name} is the same tensor as {', '.join(known)}"
        elif twin is not None:
            yield f"{name} changed with {twin}, the same tensor"
        else:
            yield f"{name} {_became(tensor, made=name in event.made)}"
        told.add(name)
    if event.gone:
        yield f"no tensor any more: {', '.join(event.gone)}"
    if event.gradients != event.gradients_before:
        yield _MODES[event.gradients]
    if event.over:
        times = Counter(event.over)
        over = (f"{name} {n} times" if n > 1 else name for name, n in times.items())
        yield f"stepped over {', '.join(over)}"


_MODES = {
    "on": "operations are recorded for a backward again",
    "off": "operations are not recorded for a backward from here",
    "inference": "inference mode from here",
}


def _became(tensor: LineTensor, *, made: bool) -> str:
    shared = [f"shared with {', '.join(tensor.shares)}"] if tensor.shares else []
    version = [f"version {tensor.version}"] if tensor.version else []
    what = f"{_role(tensor)} {_kind(tensor)}{_in(tensor)}"
    if made:
        return ", ".join([f"is {what}", *shared, *version])
    gradient = []
    if tensor.requires_grad and tensor.has_grad is not None:
        gradient = [".grad there" if tensor.has_grad else "no .grad"]
    return f"changed: {', '.join([*version, *gradient, what, *shared])}"


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
