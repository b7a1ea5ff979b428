"""Ctrl-C that arrives while we read leaves gradients, modes and error states as they were."""

from __future__ import annotations

import _thread
import signal
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from _lines import Layer, recorded
from pertdbg.agent.probe import Probe
from pertdbg.agent.quiet import Graphless, Quiet, Refusing, Ungraded, leave_all

CONTEXTS = (Quiet, Ungraded, Graphless, Refusing)
C: Any = torch._C


class CtrlC(int):
    """Reading `now` makes a signal wait until Python looks, as the key does, at a place we choose.

    It is read without a call, behind which Python would look.
    """

    now = property(_thread.interrupt_main)


def state() -> tuple[object, ...]:
    return (
        torch.is_grad_enabled(),
        C._is_fwd_grad_enabled(),
        C._is_torch_function_enabled(),
        C._dispatch_tls_local_include_set(),
        C._dispatch_tls_local_exclude_set(),
        C._get_tracing_state(),
        _get_current_dispatch_mode(),
        np.geterr(),
    )


@pytest.fixture(autouse=True)
def _on() -> Iterator[None]:
    """Keep what one test has left off from the next."""
    yield
    C._set_grad_enabled(True)
    C._set_fwd_grad_enabled(True)


def within(cls: type, key: CtrlC | None, *, nested: bool = True) -> None:
    """Press a key at the end of a context of ours, and do what all do that let exceptions out."""
    try:
        if nested:
            with Quiet(), Ungraded(), cls():
                _ = key and key.now
        else:
            with cls():
                _ = key and key.now
    except BaseException as error:
        leave_all(error)
        raise


@contextmanager
def raising_at(code: types.CodeType, place: int) -> Iterator[None]:
    """Raise before one of the instructions of a function."""
    passed = 0

    def instruction(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == place:
            raise KeyboardInterrupt

    with (_monitored if sys.version_info >= (3, 12) else _traced)(code, instruction):
        yield


@contextmanager
def _traced(code: types.CodeType, instruction: Callable[[], None]) -> Iterator[None]:
    def inside(frame: types.FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            instruction()
        return inside

    def called(frame: types.FrameType, _: str, __: object) -> Any:
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        return inside

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _monitored(code: types.CodeType, instruction: Callable[..., None]) -> Iterator[None]:
    on: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    on.use_tool_id(4, "test")
    on.register_callback(4, on.events.INSTRUCTION, instruction)
    on.set_local_events(4, code, on.events.INSTRUCTION)
    try:
        yield
    finally:
        on.set_local_events(4, code, 0)
        on.register_callback(4, on.events.INSTRUCTION, None)
        on.free_tool_id(4)


@pytest.mark.parametrize("name", ["__enter__", "__exit__"])
@pytest.mark.parametrize("cls", CONTEXTS)
def test_ctrl_c_before_any_instruction_of_a_context_leaves_nothing_on(cls: Any, name: str) -> None:
    code, before = getattr(cls, name).__code__, state()
    for nested in (False, True):
        place, ended = 0, False
        while not ended:
            place += 1
            try:
                with raising_at(code, place):
                    within(cls, None, nested=nested)
                ended = True
            except KeyboardInterrupt:
                pass
            assert state() == before, place
        assert place > 5


@pytest.mark.parametrize("cls", CONTEXTS)
def test_ctrl_c_before_the_first_line_of_an_exit_leaves_nothing_on(cls: Any) -> None:
    before = state()
    for nested in (False, True):
        with pytest.raises(KeyboardInterrupt) as raised:
            within(cls, CtrlC(signal.SIGINT), nested=nested)
        assert raised.traceback[-1].name == "__exit__"
        assert state() == before


def test_ctrl_c_while_a_call_is_recorded_reaches_the_target_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Moving(Layer):
        def update(self) -> bool:
            self.delta = (self.delta.detach() + 1e-3).requires_grad_()
            return True

    read, key, before = Probe._numbers, CtrlC(signal.SIGINT), state()

    def numbers(*arguments: Any) -> Any:
        found = read(*arguments)
        key.now  # noqa: B018 - it is pressed
        return found

    monkeypatch.setattr(Probe, "_numbers", numbers)
    frames: list[str] = []

    def drive() -> None:
        try:
            Moving().update()
        except KeyboardInterrupt as error:
            frames.extend(entry.name for entry in traceback.extract_tb(error.__traceback__))
            assert state() == before

    recorded(Moving, drive, lines=False)
    assert frames == ["drive"]
