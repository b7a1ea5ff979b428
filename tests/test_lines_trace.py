"""The events of calls are those of an independent trace of the same run, line by line."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from _shapes import observed, plain
from _trace import Line, tracing
from pertdbg.agent.config import Config
from pertdbg.agent.run import Run
from pertdbg.event import LineEvent, LineTensor
from pertdbg.recording.reader import Recording
from pertdbg.scenario.library import find
from pertdbg.scenario.run import prepare

SHAPES = {
    "sift": ("Perturbing.update_delta", 10),
    "smart": ("Smoothness.forward", 5),
    "freelb": ("train", 3),
    "vat": ("VirtualLoss.forward", 7),
    "attacks": ("LinfSteps.forward", 4),
    "wrapped": ("LinfDescent.run", 4),
    "one_step_calls": ("projected_gradient_descent", 4),
    "iterate": ("perturb_iterative", 4),
}
"""Shapes of public implementations, the function whose lines are gone through, and rounds that make
20 calls."""

CALLS = 20
SCENARIOS = ("sift", "sift-bf16", "in-place-alias", "nan-gradient")


def facts_of(tensor: LineTensor) -> tuple[Any, ...]:
    """Give the facts in the form of the independent trace, without the numbers."""
    return (
        tensor.shape,
        tensor.dtype,
        tensor.leaf,
        tensor.requires_grad,
        tensor.grad_fn,
        tensor.has_grad,
        tensor.version,
    )


def numbers_agree(tensor: LineTensor, norm: float, largest: float | None) -> bool:
    """Compare a norm that was accumulated in float64 and a largest value, which is exact."""
    if math.isnan(norm):
        return tensor.norm is not None and math.isnan(tensor.norm)
    assert tensor.norm is not None
    return math.isclose(tensor.norm, norm, rel_tol=1e-6) and tensor.max_abs == largest


def agree(event: LineEvent, line: Line) -> bool:
    """Say whether an event is what the independent trace saw."""
    number, facts, made, gone, pairs = line
    return (
        event.line == number
        and event.depth == 0
        and event.tensors.keys() == facts.keys()
        and all(facts_of(event.tensors[name]) == facts[name][:-1] for name in facts)
        and (
            "empty_like(" in event.source  # memory that nobody has written to yet
            or all(numbers_agree(event.tensors[name], *facts[name][-1]) for name in facts)
        )
        and sorted(event.made) == made
        and sorted(event.gone) == gone
        and {frozenset(pair) for pair in event.shared} == pairs
    )


def follows(events: Sequence[LineEvent], traces: Sequence[Sequence[Line]]) -> None:
    """Check that events are the first lines of each trace, one trace after the other."""
    place = 0
    for trace in traces:
        before = place
        for line in trace:
            if place == len(events) or not agree(events[place], line):
                break
            place += 1
        assert place > before, (events[place], trace[0])
    assert place == len(events), events[place]


@pytest.mark.parametrize("shape", SHAPES)
def test_events_of_a_public_shape_are_those_of_an_independent_trace(shape: str) -> None:
    run = importlib.import_module(f"shapes.{shape}").run
    function, rounds = SHAPES[shape]
    seen = observed(run, rounds, lines=True)
    with tracing({function}) as trace:
        plain(run, rounds)
    calls = seen.events[:CALLS]
    assert len(calls) == CALLS
    assert all(calls)
    events = [event for call in calls for event in call]
    runs = sum(event.line == events[0].line for event in events)
    follows(events, trace.calls[:runs])


@pytest.mark.parametrize("name", SCENARIOS)
def test_events_of_the_reference_layer_are_those_of_an_independent_trace(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.pertdbg"
    agent = Run(Config(recording=str(path), scenario="", lines=True))
    prepared = prepare(find(name), CALLS)
    agent.ready(torch.__version__)
    agent.watch(prepared.layer_class, prepared.adapter)
    prepared.run()
    agent.end(0, "")
    agent.remove()
    again = prepare(find(name), CALLS)
    method = getattr(again.layer_class, again.adapter.method)
    with tracing({method.__qualname__}) as trace:
        again.run()
    with Recording.open(path) as recording:
        calls = [recording.events(record.id) for record in recording]
    assert len(calls) == CALLS
    for events, lines in zip(calls, trace.calls, strict=True):
        assert len(events) == len(lines)
        assert [agree(*pair) for pair in zip(events, lines, strict=True)] == [True] * len(lines)
