"""The seam at the autograd engine."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Iterator

import pytest
import torch
from torch.autograd import Variable

from pertdbg.agent.seams.gradients import Backward, Gradients


class Ear:
    """Hears of backward passes."""

    def __init__(self) -> None:
        self.listens = True
        self.subject = torch.ones(3, requires_grad=True)
        self.heard: list[torch.Tensor | None] = []

    def hear(self, backward: Backward, frame: types.FrameType) -> None:
        self.heard.append(backward.gradient_of(self.subject, ()))


@pytest.fixture
def ear() -> Iterator[Ear]:
    ear, engine = Ear(), Variable._execution_engine
    gradients = Gradients(lambda: ear.listens, ear.hear)
    gradients.install()
    yield ear
    gradients.remove()
    assert Variable._execution_engine is engine


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


def test_nothing_stands_in_the_way_while_nobody_listens(ear: Ear) -> None:
    ear.listens = False
    run = Variable._execution_engine.run_backward
    assert isinstance(run, types.BuiltinMethodType)
    (ear.subject * 2).sum().backward()  # type: ignore[no-untyped-call]
    assert ear.heard == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10 names the frame that raised again")
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
