"""Recordings with the insides of calls, written by the real recorder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

from _app import SOURCE
from _records import healthy
from pertdbg.event import GraphNode, GraphTree, LineEvent, LineTensor, Operation
from pertdbg.record import CallRecord
from pertdbg.recording.events import Inside
from pertdbg.recording.parts import LayerSource
from pertdbg.recording.writer import Recorder

FIRST = 31
TEXTS = [line.strip() for line in SOURCE.splitlines()]
LAYERS = ("encoder.pert", "head.pert")

GRAPH = GraphTree(
    (
        GraphNode("AddBackward0", inputs=(1, 2)),
        GraphNode("MulBackward0", saved=(("self", (4, 16, 64), 16384),), inputs=(2,)),
        GraphNode("torch::autograd::AccumulateGrad", leaf="delta"),
    ),
    complete=True,
)
"""A sum of delta and of something made of it."""


def tensor(storage: str, norm: float, **given: object) -> LineTensor:
    facts = LineTensor(
        (4, 16, 64), "float32", "cpu", True, True, None, False, 0, storage, norm, norm
    )
    return replace(facts, **given)  # type: ignore[arg-type]


def event(line: int, *, depth: int = 0, **given: object) -> LineEvent:
    """A line of `SOURCE`, or of a function that it calls."""
    text = TEXTS[line - FIRST] if depth == 0 else f"x = helper({line})"
    name = "Layer.update_delta" if depth == 0 else "helper"
    return replace(LineEvent(line, text, name, depth), **given)  # type: ignore[arg-type]


def inside(ident: int) -> Inside:
    """Four lines, between the second and third of which a function of two lines is run."""
    grad = tensor("F", 0.001 * ident, requires_grad=False)
    old, new = (
        tensor("D", 1.0 + ident),
        tensor("B", 2.0 + ident, grad_fn="AddBackward0", leaf=False),
    )
    added = Operation("add", old, new, same_tensor=False, same_storage=False)
    events = (
        event(33, tensors={"grad": grad}, made=("grad",)),
        event(5, depth=1, tensors={"x": tensor("Q", 5.0)}, made=("x",)),
        event(6, depth=1, tensors={"x": tensor("R", 6.0)}, made=("x",)),
        event(34, tensors={"self.delta": new}, made=("self.delta",), operations=(added,)),
        event(35),
    )
    return Inside(events, graphs={"delta": GRAPH})


def several(n: int, seed: int = 0) -> list[CallRecord]:
    """Calls of two layers in turn, in training steps of three calls each, some with a NaN."""
    random, found = Random(seed), []
    for ident in range(1, n + 1):
        call = (ident + 1) // 2
        record = healthy(ident, layer=LAYERS[(ident - 1) % 2], call=call)
        record = replace(record, batch=(call - 1) // 3 + 1, step=(call - 1) % 3)
        if random.random() < 0.1:
            gradient = replace(record.gradient, nan=1)
            record = replace(record, gradient=gradient)
        found.append(record)
    return found


def record_inside(
    path: Path,
    records: Iterable[CallRecord],
    *,
    without: Iterable[int] = (),
    under_way: int = 0,
    layers: Iterable[LayerSource] = (),
) -> Path:
    """Write calls with their insides.

    Args:
        path: The recording.
        records: The calls.
        without: Calls of which no inside is kept.
        under_way: So many lines of a further call, which did not come to its end.
        layers: The layers; two of one class, if not given.
    """
    recorder = Recorder(path, {"title": "a title", "about": "what to look for"})
    for name in LAYERS:
        recorder.add_layer(LayerSource(name, "Layer", "/home/me/layer.py", FIRST, SOURCE))
    for layer in layers:
        recorder.add_layer(layer)
    last = 0
    for last, record in enumerate(records, 1):  # noqa: B007 - used after the loop
        kept = None if record.id in without else inside(record.id)
        recorder.write(record, None, kept)
    if under_way:
        whole = inside(last + 1)
        recorder.events(last + 1, replace(whole, events=whole.events[:under_way], graphs={}))
    recorder.close()
    return path
