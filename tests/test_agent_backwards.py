"""Counting backward passes leaves no trace in what the target sees."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest
import torch
from torch.autograd import Variable

from pertdbg.agent.backwards import BackwardCounter


@pytest.fixture
def counter() -> Iterator[BackwardCounter]:
    engine = Variable._execution_engine
    counting = BackwardCounter()
    counting.install()
    yield counting
    counting.remove()
    assert Variable._execution_engine is engine


def loss() -> torch.Tensor:
    return torch.ones(3, requires_grad=True).square().sum()


def test_each_way_to_start_a_backward_counts_once(counter: BackwardCounter) -> None:
    assert counter.started == 0
    loss().backward()  # type: ignore[no-untyped-call]
    assert counter.started == 1
    torch.autograd.backward([loss(), loss()])
    assert counter.started == 2
    leaf = torch.ones(2, requires_grad=True)
    torch.autograd.grad(leaf.sum(), leaf)
    assert counter.started == 3


def test_nothing_is_counted_before_it_is_installed() -> None:
    assert BackwardCounter().started is None


def test_the_traceback_of_a_failing_backward_is_the_one_without_us() -> None:
    def failing() -> str:
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        try:
            value.backward()  # type: ignore[no-untyped-call]
        except RuntimeError:
            return traceback.format_exc()
        return "nothing was raised"

    plain = failing()
    counting = BackwardCounter()
    counting.install()
    try:
        assert failing() == plain
    finally:
        counting.remove()
    assert "a second time" in plain


def test_the_engines_other_methods_work_under_it(counter: BackwardCounter) -> None:
    ran = []

    class Marks(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(ctx: object, *grads: torch.Tensor) -> torch.Tensor:
            Variable._execution_engine.queue_callback(lambda: ran.append(True))
            return grads[0]

    Marks.apply(torch.ones(2, requires_grad=True)).sum().backward()  # type: ignore[no-untyped-call]
    assert ran == [True]
