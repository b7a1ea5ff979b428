"""Leaf panel: which tensor is a leaf, and whether a backward will fill the delta's gradient."""

from __future__ import annotations

from collections.abc import Callable

from pertdbg.app.lines import Line, Piece, table, wrap
from pertdbg.app.numbers import count, yes
from pertdbg.app.panels.facts import verdict
from pertdbg.output import verdict as words
from pertdbg.output.safe import printable
from pertdbg.output.words import type_name
from pertdbg.record import CallRecord, GraphFacts, TensorFacts

_ARROW = "→"
_NARROW = 50
"""Width below which facts stand under each other, where the height allows it."""


def _node(facts: TensorFacts) -> str:
    if facts.grad_fn is None:
        return "-"
    return printable(facts.grad_fn).removesuffix("0").removesuffix("Backward")


def _grad(facts: TensorFacts) -> str:
    if facts.has_grad is None:
        return "not kept" if facts.is_leaf is False and not facts.retains_grad else "?"
    return "set" if facts.has_grad else "none"


def _version(facts: TensorFacts) -> str:
    return "?" if facts.version is None else str(facts.version)


_FACTS: tuple[tuple[str, str, Callable[[TensorFacts], str]], ...] = (
    ("leaf", "leaf", lambda facts: yes(facts.is_leaf)),
    ("req", "req grad", lambda facts: yes(facts.requires_grad)),
    ("grad_fn", "grad_fn", _node),
    (".grad", ".grad", _grad),
    ("ret", "ret grad", lambda facts: yes(facts.retains_grad)),
    ("ver", "version", _version),
    ("tangent", "tangent", lambda facts: yes(facts.has_tangent)),
)
"""Short name, full name and text of each fact, the most telling first."""

_NODE, _TANGENT = 2, 6


def leaf(record: CallRecord, width: int, height: int) -> list[Line]:
    """Draw the panel: verdict, a table of the tensors, and what a backward would fill."""
    lines = verdict(words.leaf(record), width)
    roles = _roles(record)
    order = _order(record)
    if not roles:
        return lines + _unknown(record, width)
    if width < _NARROW and height - len(lines) > 6:
        lines += _facts_down(roles, order, width)
    else:
        lines += _roles_down(roles, order, width)
    lines += _kinds(roles, width) + _unknown(record, width)
    return lines + wrap(_reach(record), width, "dim")


def _roles(record: CallRecord) -> dict[str, tuple[TensorFacts | None, TensorFacts]]:
    """Give each tensor at entry (None if it was not there) and as it is now."""
    before, after = record.tensors.before, record.tensors.after
    both = {
        "delta": (before.delta, after.delta),
        "input": (before.input, after.input),
        "perturbed": (before.perturbed_input, after.perturbed_input),
        "gradient": (None, before.gradient),
    }
    return {name: (old, now or old) for name, (old, now) in both.items() if now or old}  # type: ignore[misc]


def _order(record: CallRecord) -> list[int]:
    """Order the facts; a tangent is rare, and comes first where there is one."""
    order = list(range(len(_FACTS)))
    tensors = [tensor for pair in _roles(record).values() for tensor in pair]
    if any(tensor is not None and tensor.has_tangent for tensor in tensors):
        order.insert(2, order.pop(_TANGENT))
    return order


def _cell(fact: int, old: TensorFacts | None, now: TensorFacts) -> Piece:
    text = _FACTS[fact][2]
    if old is None or text(old) == text(now):
        return text(now), ""
    return f"{text(old)}{_ARROW}{text(now)}", "changed"


def _roles_down(
    roles: dict[str, tuple[TensorFacts | None, TensorFacts]], order: list[int], width: int
) -> list[Line]:
    header: list[Piece] = [("", "head"), *((_FACTS[fact][0], "head") for fact in order)]
    rows = [
        [(name, "label"), *(_cell(fact, *tensors) for fact in order)]
        for name, tensors in roles.items()
    ]
    return table([header, *rows], width, flexible=[1 + order.index(_NODE)])


def _facts_down(
    roles: dict[str, tuple[TensorFacts | None, TensorFacts]], order: list[int], width: int
) -> list[Line]:
    shown = {name: tensors for name, tensors in roles.items() if name != "gradient"}
    header: list[Piece] = [("", "head"), *((name, "head") for name in shown)]
    rows: list[list[Piece]] = [
        [(_FACTS[fact][1], "label"), *(_cell(fact, *tensors) for tensors in shown.values())]
        for fact in order
    ]
    return table([header, *rows], width, flexible=range(1, len(header)))


def _kinds(roles: dict[str, tuple[TensorFacts | None, TensorFacts]], width: int) -> list[Line]:
    """Say dtype and shape, the tensors that agree together."""
    kinds: dict[str, list[str]] = {}
    for name, (_, now) in roles.items():
        shape = "x".join(map(str, now.shape)) or "scalar"
        kinds.setdefault(f"{printable(type_name(now.dtype))} {shape}", []).append(name)
    if len(kinds) == 1:
        return [line for kind in kinds for line in wrap(f"all are {kind}", width)]
    return [line for kind in kinds for line in wrap(f"{kind}: {', '.join(kinds[kind])}", width)]


def _unknown(record: CallRecord, width: int) -> list[Line]:
    """Name the facts that could not be had, by their reason."""
    found: dict[str, list[str]] = {}
    for item in record.unknown:
        if item.field.startswith("tensors."):
            name = item.field.removeprefix("tensors.").removeprefix("after.")
            found.setdefault(item.reason, []).append(name.replace("_input", ""))
    said = (f"{', '.join(names)}: unknown ({reason})" for reason, names in found.items())
    return [line for text in said for line in wrap(printable(text), width, "dim")]


def _reach(record: CallRecord) -> str:
    reason = record.reason("backward_reaches")
    if reason is not None:
        return f"what a backward from perturbed fills: unknown ({printable(reason)})"
    reach = record.backward_reaches
    names = ", ".join(map(printable, reach.perturbed_input)) or "no leaf"
    more = "" if reach.complete else " and more (the walk stopped)"
    size = _size(record.graph.perturbed_input)
    return f"backward from perturbed fills: {names}{more}{size}"


def _size(graph: GraphFacts | None) -> str:
    if graph is None:
        return ""
    more = "" if graph.complete else " at least"
    return f"; graph behind it{more}: {count(graph.nodes)} nodes, depth {count(graph.depth)}"
