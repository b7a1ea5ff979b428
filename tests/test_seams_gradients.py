"""The seam at the autograd engine."""

from __future__ import annotations

import traceback
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.autograd import Variable

from pertdbg.agent.seams.gradients import Backward, Passes, runs_engine
from pertdbg.agent.seams.tracing import Chosen, tracing


class Ear:
    """Hears of backward passes."""

    def __init__(self) -> None:
        self.listens = True
        self.subject = torch.ones(3, requires_grad=True)
        self.heard: list[torch.Tensor | None] = []

    def choose(self, frame: types.FrameType) -> Chosen | None:
        """Follow the engine alone."""
        return Passes(lambda: self.listens, self.hear) if runs_engine(frame.f_code) else None

    def hear(self, backward: Backward, frame: types.FrameType) -> None:
        self.heard.append(backward.gradient_of(self.subject, ()))


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear = Ear()
    followed = tracing(ear.choose)
    assert followed.install() is None
    yield ear
    followed.remove()


def test_the_gradient_is_heard_of_however_it_was_asked_for(ear: Ear) -> None:
    x = ear.subject
    (result,) = torch.autograd.grad((x * 2).sum(), x)
    assert ear.heard.pop() is result
    (x * 3).sum().backward()  # type: ignore[no-untyped-call]
    assert ear.heard.pop() is x.grad
    torch.autograd.backward([(x * 4).sum()], inputs=[x])
    assert ear.heard.pop() is x.grad
    other = torch.ones(3, requires_grad=True)
    found = torch.autograd.grad((x * other).sum(), [other, x])
    assert ear.heard.pop() is found[1]


def test_the_gradient_of_another_tensor_is_not_taken_for_it(ear: Ear) -> None:
    other = torch.ones(3, requires_grad=True)
    torch.autograd.grad((other * 2).sum(), other)
    assert ear.heard == [None]


def test_nothing_stands_in_the_way(ear: Ear) -> None:
    run = Variable._execution_engine.run_backward
    assert isinstance(run, types.BuiltinMethodType)
    ear.listens = False
    (ear.subject * 2).sum().backward()  # type: ignore[no-untyped-call]
    assert ear.heard == []


def test_a_hook_meets_no_frame_of_ours(ear: Ear) -> None:
    def stack(listens: bool) -> list[str]:
        met: list[str] = []
        ear.listens = listens
        y: Any = ear.subject * 2
        y.register_hook(lambda _: met.extend(traceback.format_stack()))
        y.sum().backward()
        return met

    told, plain = [stack(listens) for listens in (True, False)]
    assert ear.heard == [ear.subject.grad]
    assert told == plain
    assert "backward" in told[-2]


def test_a_pass_that_fails_is_heard_of_and_fails_as_without_us(ear: Ear) -> None:
    def fail() -> str:
        other = torch.ones(3, requires_grad=True)
        try:
            torch.autograd.grad(other.sum(), ear.subject)
        except RuntimeError:
            return traceback.format_exc()
        return "nothing was raised"

    told = fail()
    assert ear.heard == [None]
    ear.listens = False
    assert told == fail()
    assert "not have been used in the graph" in told
