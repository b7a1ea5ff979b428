"""Following a function that runs already when somebody begins to look."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from pertdbg.agent.seams.bymonitoring import ByMonitoring
from pertdbg.agent.seams.bysettrace import BySettrace
from pertdbg.agent.seams.tracing import Active, Chosen, Tracing

WAYS: list[type[Tracing]] = [BySettrace]
if sys.version_info >= (3, 12):
    WAYS.append(ByMonitoring)


class Told:
    """Keeps what it is told of a function."""

    by_line = True

    def __init__(self, first: int) -> None:
        self.first = first
        self.said: list[Any] = []

    def begin(self, _: types.FrameType) -> Active | None:
        return self

    def line(self, frame: types.FrameType) -> None:
        self.said.append(frame.f_lineno - self.first)

    def end(self, _: types.FrameType, __: Any, error: BaseException | None) -> None:
        self.said.append(error)


def work(tracing: Tracing, error: BaseException | None) -> list[object]:
    tracing.install()
    tracing.join(sys._getframe())
    for _ in range(2):
        inner()
    tracing.leave(sys._getframe(), error)
    inner()
    tracing.remove()
    inner()
    return [sys._getframe().f_trace, sys.gettrace()]


def inner() -> int:
    return 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [None, ValueError("x")])
def test_lines_are_told_from_the_joining_on_and_no_longer_than_to_the_leaving(
    way: Any, error: BaseException | None
) -> None:
    told = Told(work.__code__.co_firstlineno)

    def choose(frame: types.FrameType) -> Chosen | None:
        return told if frame.f_code is work.__code__ else None

    for _ in range(2):  # another time, after everything was taken out
        told.said.clear()
        assert work(way(choose), error) == [None, None]
        assert told.said == [3, 4, 3, 4, 3, 5, error]


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_nobody_chose_is_not_touched(way: Any) -> None:
    assert work(way(lambda _: None), None) == [None, None]
