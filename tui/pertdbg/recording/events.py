"""The lines of a call and its graphs as the text of one row, and back again, each part checked.

Tensor facts that repeat inside a call, as the output of one operation that is the input of the
next, stand there once. A recording may come from anybody: what is not of the form that a writer
gives it is refused, so that no one later need expect it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pertdbg.event import GradMode, GraphNode, GraphTree, LineEvent, LineTensor, Operation
from pertdbg.record import Unknown
from pertdbg.recording import details
from pertdbg.recording.schema import EVENTS_LIMIT

EVENT_COUNT_LIMIT = 4000
"""Most events of one call."""

OPERATION_COUNT_LIMIT = 1000
"""Most operations of one line."""

NAMES_LIMIT = 1000
"""Most names, pairs of names or reasons of one line."""

GRAPH_ROLES = ("delta", "perturbed_input", "loss")
"""What a graph may be of; `loss` is what the last backward before the call began at."""

_FORMAT = 1
_FACTS_LIMIT = 100_000
_NODES_LIMIT = 1000
_MODES: tuple[GradMode, ...] = ("on", "off", "inference")
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Inside:
    """What was kept of the inside of a call."""

    events: tuple[LineEvent, ...] = ()
    left_out: int = 0
    """Lines that were run and not kept: there is a limit for each call."""
    graphs: Mapping[str, GraphTree] = field(default_factory=dict)
    """By role, of `GRAPH_ROLES`."""


def to_text(inside: Inside, renamed: Mapping[str, str] | None = None) -> str:
    """Give the text of a row.

    Args:
        inside: What to keep; of too many events the first ones are.
        renamed: Other labels for storages, by the labels in the events.
    """
    events, lost = inside.events, inside.left_out
    while True:
        text = _Writing(renamed or {}).text(Inside(events, lost, inside.graphs))
        if len(text) <= EVENTS_LIMIT or not events:
            return text
        keep = min(len(events) - 1, len(events) * EVENTS_LIMIT // len(text))
        lost += len(events) - keep
        events = events[:keep]


def of_text(text: str) -> Inside:
    """Read what `to_text` made.

    Raises:
        ValueError: It is not of that form.
    """
    try:
        data = json.loads(text)
        if data["format"] != _FORMAT:
            raise ValueError(f"events of format {data['format']!r}")
        facts = tuple(_facts(each) for each in _list(data["facts"], _FACTS_LIMIT))
        reading = _Reading(facts)
        events = tuple(map(reading.event, _list(data["events"], EVENT_COUNT_LIMIT)))
        graphs = {role: _graph(graph) for role, graph in data["graphs"].items()}
        if not set(graphs) <= set(GRAPH_ROLES):
            raise ValueError("a graph of no role")
        return Inside(events, _count(data["left_out"]), graphs)
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError("the events make no sense") from error


class _Writing:
    """Collects the tensor facts of one call, each once."""

    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed
        self._facts: dict[tuple[Any, ...], int] = {}

    def text(self, inside: Inside) -> str:
        events = [self._event(event) for event in inside.events]
        graphs = {role: _plain_graph(graph) for role, graph in inside.graphs.items()}
        data = {
            "format": _FORMAT,
            "facts": list(self._facts),
            "events": events,
            "left_out": inside.left_out,
            "graphs": graphs,
        }
        return json.dumps(data, separators=(",", ":"), allow_nan=False)

    def _event(self, event: LineEvent) -> list[Any]:
        return [
            event.line,
            event.source,
            event.function,
            event.depth,
            {name: self._tensor(tensor) for name, tensor in event.tensors.items()},
            event.made,
            event.gone,
            event.shared,
            [self._operation(each) for each in event.operations],
            event.over,
            event.gradients,
            event.gradients_before,
            event.raised,
            [(each.field, each.reason) for each in event.unknown],
        ]

    def _operation(self, found: Operation) -> list[Any]:
        return [
            found.op,
            self._tensor(found.input),
            self._tensor(found.output),
            found.same_tensor,
            found.same_storage,
            found.in_place,
            found.elements,
            found.changed,
            found.equal,
            _plain(found.value),
            found.raised,
        ]

    def _tensor(self, tensor: LineTensor | None) -> list[Any] | None:
        if tensor is None:
            return None
        storage = tensor.storage
        key = (
            *(tensor.shape, tensor.dtype, tensor.device, tensor.leaf, tensor.requires_grad),
            *(tensor.grad_fn, tensor.has_grad, tensor.version),
            None if storage is None else self._renamed.get(storage, storage),
            *(_plain(tensor.norm), _plain(tensor.max_abs)),
        )
        place = self._facts.setdefault(key, len(self._facts))
        return [place, tensor.shares, tensor.same]


class _Reading:
    """Puts the tensor facts of one call where they belong."""

    def __init__(self, facts: Sequence[LineTensor]) -> None:
        self._facts = facts

    def event(self, found: Any) -> LineEvent:
        line, source, function, depth, tensors, *rest = _row(found, 14)
        made, gone, shared, operations, over, mode, mode_before, raised, unknown = rest
        return LineEvent(
            line=_count(line),
            source=details.name(source),
            function=details.name(function),
            depth=_count(depth),
            tensors=self._tensors(tensors),
            made=_names(made),
            gone=_names(gone),
            shared=tuple((details.name(a), details.name(b)) for a, b in _list(shared, NAMES_LIMIT)),
            operations=tuple(map(self._operation, _list(operations, OPERATION_COUNT_LIMIT))),
            over=_names(over),
            gradients=_mode(mode),
            gradients_before=_mode(mode_before),
            raised=details.name_or_none(raised),
            unknown=tuple(
                Unknown(details.name(name), details.name(reason))
                for name, reason in _list(unknown, NAMES_LIMIT)
            ),
        )

    def _tensors(self, found: Any) -> dict[str, LineTensor]:
        if len(found) > NAMES_LIMIT:
            raise ValueError("too many names")
        tensors = {}
        for name, tensor in found.items():
            facts = self._tensor(tensor)
            if facts is None:
                raise ValueError("a name without a tensor")
            tensors[details.name(name)] = facts
        return tensors

    def _operation(self, found: Any) -> Operation:
        op, given, gave, same, stored, wrote, *rest = _row(found, 11)
        elements, changed, equal, value, raised = rest
        return Operation(
            op=details.name(op),
            input=self._tensor(given),
            output=self._tensor(gave),
            same_tensor=_or_none(_flag, same),
            same_storage=_or_none(_flag, stored),
            in_place=_flag(wrote),
            elements=_or_none(_count, elements),
            changed=_or_none(_count, changed),
            equal=_or_none(_count, equal),
            value=_or_none(_value, value),
            raised=details.name_or_none(raised),
        )

    def _tensor(self, found: Any) -> LineTensor | None:
        if found is None:
            return None
        place, shares, same = _row(found, 3)
        if not 0 <= _count(place) < len(self._facts):
            raise ValueError("no such facts")
        facts: LineTensor = self._facts[place]
        if not shares and not same:
            return facts
        front = (facts.shape, facts.dtype, facts.device, facts.leaf, facts.requires_grad)
        back = (facts.grad_fn, facts.has_grad, facts.version, facts.storage, facts.norm)
        return LineTensor(*front, *back, facts.max_abs, _names(shares), _names(same))


def _facts(found: Any) -> LineTensor:
    shape, dtype, device, leaf, requires_grad, grad_fn, *rest = _row(found, 11)
    has_grad, version, storage, norm, max_abs = rest
    return LineTensor(
        shape=_shape(shape),
        dtype=details.name(dtype),
        device=details.name(device),
        leaf=_or_none(_flag, leaf),
        requires_grad=_or_none(_flag, requires_grad),
        grad_fn=details.name_or_none(grad_fn),
        has_grad=_or_none(_flag, has_grad),
        version=_or_none(_count, version),
        storage=details.name_or_none(storage),
        norm=_or_none(_number, norm),
        max_abs=_or_none(_number, max_abs),
    )


def _plain_graph(graph: GraphTree) -> list[Any]:
    nodes = [[n.name, n.leaf, n.saved, n.freed, n.inputs] for n in graph.nodes]
    return [graph.complete, graph.reason, nodes]


def _graph(found: Any) -> GraphTree:
    complete, reason, nodes = _row(found, 3)
    read = tuple(_node(node) for node in _list(nodes, _NODES_LIMIT))
    if not all(0 <= to < len(read) for node in read for to in node.inputs) or _turns(read):
        raise ValueError("not a graph of autograd")
    return GraphTree(read, _flag(complete), details.name_or_none(reason))


def _node(found: Any) -> GraphNode:
    name, leaf, saved, freed, inputs = _row(found, 5)
    kept = [_row(each, 3) for each in _list(saved, NAMES_LIMIT)]
    return GraphNode(
        name=details.name(name),
        leaf=details.name_or_none(leaf),
        saved=tuple((details.name(n), _shape(shape), _count(size)) for n, shape, size in kept),
        freed=_flag(freed),
        inputs=tuple(_count(to) for to in _list(inputs, _NODES_LIMIT)),
    )


def _turns(nodes: Sequence[GraphNode]) -> bool:
    """Say whether a graph goes round in circles, which one of autograd can't."""
    pending = [0] * len(nodes)
    for node in nodes:
        for to in node.inputs:
            pending[to] += 1
    ready = [place for place, count in enumerate(pending) if not count]
    settled = 0
    while ready:
        settled += 1
        for to in nodes[ready.pop()].inputs:
            pending[to] -= 1
            if not pending[to]:
                ready.append(to)
    return settled < len(nodes)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return value


def _row(found: Any, size: int) -> list[Any]:
    if not isinstance(found, list) or len(found) != size:
        raise ValueError("not of its form")
    return found


def _list(found: Any, limit: int) -> list[Any]:
    if not isinstance(found, list) or len(found) > limit:
        raise ValueError("not a list, or too long")
    return found


def _names(found: Any) -> tuple[str, ...]:
    return tuple(details.name(each) for each in _list(found, NAMES_LIMIT))


def _shape(found: Any) -> tuple[int, ...]:
    return tuple(_count(size) for size in _list(found, details.DIMENSIONS_LIMIT))


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise ValueError("not a count")
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _mode(found: Any) -> GradMode:
    if found not in _MODES:
        raise ValueError("not a grad mode")
    mode: GradMode = found
    return mode


def _number(value: Any) -> float:
    found = _NUMBERS.get(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise ValueError("not a number")
    return float(found)


def _value(value: Any) -> bool | int | float | str:
    if isinstance(value, str):
        return _NUMBERS.get(value) or details.name(value)
    if not isinstance(value, (bool, int, float)):
        raise ValueError("not a value")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError("not a number of 64 bits")
    return value


def _or_none(read: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else read(value)
