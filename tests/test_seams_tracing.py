"""Being told of chosen functions, in the way of this Python and, where it has both, the older."""

from __future__ import annotations

import contextlib
import sys
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pertdbg.agent.seams.bymonitoring import ByMonitoring
from pertdbg.agent.seams.bysettrace import BySettrace
from pertdbg.agent.seams.locals import is_method_of, read_locals
from pertdbg.agent.seams.tracing import Active, Chosen, Tracing

WAYS: list[type[Tracing]] = [BySettrace]
if sys.version_info >= (3, 12):
    WAYS.append(ByMonitoring)


class Told:
    """Keeps what it is told of a function."""

    by_line = True

    def __init__(self, code: types.CodeType) -> None:
        self.first = code.co_firstlineno
        self.said: list[Any] = []

    def begin(self, frame: types.FrameType) -> Active | None:
        self.said.append("begins")
        return self

    def line(self, frame: types.FrameType) -> None:
        self.said.append(frame.f_lineno - self.first)

    def end(self, frame: types.FrameType, value: Any, error: BaseException | None) -> None:
        self.said.append(("ends", value, type(error).__name__ if error else None))


Follow = Callable[..., Told]


@pytest.fixture(params=WAYS)
def follow(request: pytest.FixtureRequest) -> Iterator[Follow]:
    """Follow one function."""
    yield from _following(request.param)


@pytest.fixture
def follow_own() -> Iterator[Follow]:
    """Follow one function in the way of this Python."""
    yield from _following(WAYS[-1])


def _following(way: type[Tracing]) -> Iterator[Follow]:
    chosen: dict[types.CodeType, Told] = {}

    def choose(frame: types.FrameType) -> Chosen | None:
        return chosen.get(frame.f_code)

    tracing = way(choose)
    before = sys.gettrace()
    sys.settrace(None)  # a coverage tool may measure these tests
    assert tracing.install() is None

    def function(target: Callable[..., Any], kind: type[Told] = Told) -> Told:
        code = target.__code__
        return chosen.setdefault(code, kind(code))

    yield function
    tracing.remove()
    assert tracing.active == {}
    sys.settrace(before)


def looping(times: int) -> int:
    total = 0
    for number in range(times):
        total += number
    return total


def failing() -> None:
    try:
        int("x")
    except ValueError:
        recovering()
    raise KeyError("gone")


def recovering() -> str:
    try:
        int("x")
    except ValueError:
        return "well"
    return ""


def test_lines_and_the_end_of_a_followed_function_are_told(follow: Follow) -> None:
    told = follow(looping)
    assert looping(2) == 1
    assert told.said == ["begins", 1, 2, 3, 2, 3, 2, 4, ("ends", 1, None)]


def test_an_exception_that_leaves_is_told_and_one_that_is_caught_is_not(follow: Follow) -> None:
    failed, recovered = follow(failing), follow(recovering)
    with pytest.raises(KeyError):
        failing()
    assert recovering() == "well"
    assert failed.said[-1] == ("ends", None, "KeyError")
    assert recovered.said[-1] == ("ends", "well", None)


def test_functions_that_nobody_chose_are_not_told_of(follow: Follow) -> None:
    told = follow(looping)
    recovering()
    assert told.said == []


def test_no_frame_of_ours_stands_in_a_traceback(follow: Follow) -> None:
    follow(failing)
    try:
        failing()
    except KeyError as error:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names == ["test_no_frame_of_ours_stands_in_a_traceback", "failing"]


def test_calls_of_a_function_by_itself_are_told_apart(follow: Follow) -> None:
    def countdown(number: int) -> int:
        return number and countdown(number - 1)

    told = follow(countdown)
    countdown(2)
    assert told.said.count("begins") == 3
    assert sum(isinstance(said, tuple) for said in told.said) == 3


class Waits(Told):
    """Is also told when the function is suspended."""

    def suspend(self, frame: types.FrameType) -> None:
        self.said.append("waits")

    def resume(self, frame: types.FrameType) -> None:
        self.said.append("goes on")

    def forget(self) -> None:
        self.said.append("forgets")


def counting(until: int) -> Iterator[int]:
    for number in range(until):
        with contextlib.suppress(KeyError):
            yield number


def test_a_generator_that_is_suspended_has_not_ended(follow_own: Follow) -> None:
    told = follow_own(counting, Waits)
    numbers: Any = counting(2)
    assert next(numbers) == 0
    assert told.said == ["begins", 1, 2, 3, "waits"]
    assert numbers.throw(KeyError) == 1
    assert list(numbers) == []
    assert told.said[5] == "goes on"
    assert told.said.count("begins") == 1
    assert told.said[-1] == ("ends", None, None)
    failing: Any = counting(2)
    next(failing)
    with pytest.raises(ValueError, match="no"):
        failing.throw(ValueError("no"))
    assert told.said[-3:] == ["goes on", 2, ("ends", None, "ValueError")]


def test_what_follows_a_suspended_generator_goes_with_it(follow_own: Follow) -> None:
    told: list[weakref.ref[Active]] = []

    class Fresh(Waits):
        def begin(self, frame: types.FrameType) -> Active:
            active = Waits(frame.f_code)
            told.append(weakref.ref(active))
            return active

    def plain(until: int) -> Iterator[int]:
        yield from range(until)

    follow_own(plain, Fresh)
    ended, dropped = plain(2), plain(2)
    closed: Any = plain(2)
    assert list(ended) == [0, 1]
    assert next(dropped) == next(closed) == 0
    assert [each() is not None for each in told] == [False, True, True]
    del dropped
    closed.close()
    assert [each() for each in told] == [None, None, None]


def test_settrace_gives_way_to_another_tracer() -> None:
    before = sys.gettrace()
    other: Any = lambda frame, event, value: None  # noqa: E731 - a tracer of somebody else's
    sys.settrace(other)
    try:
        reason = BySettrace(lambda frame: None).install()
        assert sys.gettrace() is other
    finally:
        sys.settrace(before)
    assert reason == "another debugger or a coverage tool traces this thread"


class Thing:
    """Something that can be referred to weakly."""

    def poke(self) -> None:
        """Do nothing."""

    def both(self) -> tuple[bool, bool]:
        frame = sys._getframe()
        return is_method_of(frame, ["poke", "both"]), is_method_of(frame, ["prod"])


def test_reading_locals_keeps_nothing_alive() -> None:
    thing = Thing()
    reference, frame = weakref.ref(thing), sys._getframe()
    assert read_locals(frame, frozenset({"thing", "WAYS"})) == {"thing": thing, "WAYS": WAYS}
    del thing
    assert reference() is None


def test_a_method_is_known_by_the_methods_beside_it() -> None:
    assert Thing().both() == (True, False)
