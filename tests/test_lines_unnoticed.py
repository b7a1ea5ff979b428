"""Going through a call line by line changes nothing that the target could notice."""

from __future__ import annotations

import bdb
import gc
import sys
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from _lines import Layer, lines_of, recorded
from pertdbg.recording.events import Inside


def entries(error: BaseException) -> list[tuple[str, int | None, str]]:
    """Give the entries of a traceback from the first frame of `update` on."""
    found = [(e.filename, e.lineno, e.name) for e in traceback.extract_tb(error.__traceback__)]
    names = [name for _, _, name in found]
    return found[names.index("update") :]


def both(cls: type, drive: Callable[[], Any]) -> tuple[Any, Any, list[Inside]]:
    """Give what a drive comes to by itself, and recorded."""
    came: list[Any] = []
    plain = drive()
    inside = recorded(cls, lambda: came.append(drive()))
    return plain, came[0], inside


class Failing(Layer):
    def update(self) -> bool:
        self.caught = ""
        try:
            self.input.norm(p="no such")
        except RuntimeError as error:
            self.caught = repr(entries_here(error))
        self.delta.mul(torch.zeros(7)).norm(p="no such")
        return True


def entries_here(error: BaseException) -> list[tuple[str, int | None, str]]:
    return [(e.filename, e.lineno, e.name) for e in traceback.extract_tb(error.__traceback__)]


class FailingInTorch(Layer):
    def update(self) -> bool:
        self.delta.norm(p="no such")
        return True


@pytest.mark.parametrize("cls", [Failing, FailingInTorch])
def test_tracebacks_are_those_without_us(cls: Any) -> None:
    def drive() -> Any:
        layer = cls()
        try:
            layer.update()
        except RuntimeError as error:
            return entries(error), getattr(layer, "caught", None), str(error)
        return None

    plain, seen, _ = both(cls, drive)
    assert plain is not None
    assert seen == plain


class Warning_(Layer):  # noqa: N801
    def update(self) -> bool:
        made = self.delta * 2
        for _ in range(3):
            made.grad  # noqa: B018 - torch warns of it, once for each place
        return True


def test_warnings_name_the_targets_own_line_and_come_as_often() -> None:
    def drive() -> Any:
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            Warning_().update()
        return [(w.filename, w.lineno, w.category, str(w.message)[:40]) for w in caught]

    drive()  # some warnings come once in a process
    plain, seen, _ = both(Warning_, drive)
    assert len(plain) == 1
    assert seen == plain


class Logging(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class WithModes(Layer):
    def update(self) -> bool:
        inner = Logging()
        with inner:
            self.perturbed = (self.input + self.delta).norm() + torch.zeros(1)
        with torch.device("meta"):
            self.perturbed = torch.zeros(3)
        torch.set_default_device("meta")
        self.other = torch.ones(2)
        torch.set_default_device(None)
        self.seen = inner.seen
        self.stack = torch._C._len_torch_function_stack()
        return True


@pytest.mark.parametrize("device", [None, "cpu"])
def test_the_targets_own_modes_and_default_device_see_what_they_saw(device: str | None) -> None:
    def drive() -> Any:
        layer = WithModes()
        torch.set_default_device(device)
        try:
            with Logging() as outer, Dispatched() as below:
                layer.update()
        finally:
            torch.set_default_device(None)
        devices = layer.other.device.type, layer.perturbed.device.type  # type: ignore[union-attr]
        assert torch._C._len_torch_function_stack() == 0
        return layer.seen, outer.seen, below.seen, devices

    plain, seen, (inside,) = both(WithModes, drive)
    assert plain[0]
    assert seen == plain
    assert len(inside.events) > 8


class Wrapped(Tensor):
    calls: list[str]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


log: list[str] = []


class WithSubclass(Layer):
    def update(self) -> bool:
        wrapped = self.input.as_subclass(Wrapped)
        self.perturbed = (wrapped * 2).clamp(0, 1)
        return True


def test_a_subclass_sees_the_operations_that_it_saw() -> None:
    def drive() -> Any:
        log.clear()
        layer = WithSubclass()
        layer.update()
        return list(log), type(layer.perturbed)

    plain, seen, _ = both(WithSubclass, drive)
    assert plain[0]
    assert seen == plain


compilations: list[int] = []


def counting(graph: Any, _: Any) -> Any:
    compilations.append(1)
    return graph.forward


def doubled(tensor: Tensor) -> Tensor:
    return tensor * 2 + 1


class Compiled(Layer):
    function: Any = None

    def update(self) -> bool:
        self.perturbed = Compiled.function(self.input)
        self.delta = self.delta.detach()
        return True


def test_a_compiled_function_is_neither_compiled_again_nor_run_otherwise() -> None:
    Compiled.function = staticmethod(torch.compile(doubled, backend=counting, fullgraph=True))
    layer = Compiled()
    layer.update()
    before, first = len(compilations), layer.perturbed
    assert before == 1
    (inside,) = recorded(Compiled, lambda: layer.update())
    assert len(compilations) == before
    assert layer.perturbed is not first
    assert torch.equal(layer.perturbed, first)  # type: ignore[arg-type]
    assert [e.op for e in lines_of(inside)["self.delta = self.delta.detach()"].operations]
    torch._dynamo.reset()


alive: list[bool] = []


class Dying(Layer):
    def update(self) -> bool:
        first = self.input * 2
        watched = weakref.ref(first)
        first = first.float() + 1
        alive.append(watched() is not None)
        watched = weakref.ref(first)
        first = None  # type: ignore[assignment]
        alive.append(watched() is not None)
        chain = (self.input * 3).add(1).relu()
        self.storage = weakref.ref(chain.untyped_storage())
        return self.drop()

    def drop(self) -> bool:
        held = self.input * 5
        watched = weakref.ref(held)
        del held
        alive.append(watched() is not None)
        return True


def test_what_dies_within_a_line_dies_within_it() -> None:
    def drive() -> Any:
        alive.clear()
        layer = Dying()
        layer.update()
        return list(alive)

    gc.disable()
    try:
        plain, seen, _ = both(Dying, drive)
    finally:
        gc.enable()
    assert plain == [False, False, False]
    assert seen == plain


class ReadsLocals(Layer):
    def update(self) -> bool:
        first = self.input + 1
        names = locals()
        second = names["first"] * 2
        self.perturbed = second
        return "first" in names


def test_a_function_that_keeps_its_locals_finds_them() -> None:
    (inside,) = recorded(ReadsLocals, lambda: ReadsLocals().update())
    assert inside.events[-1].raised is None


class Traced(Layer):
    def update(self) -> bool:
        made = self.input + 1
        made = steps(made)
        self.perturbed = made.detach()
        return True


def steps(tensor: Tensor) -> Tensor:
    more = tensor * 2
    return more  # noqa: RET504 - a debugger has two lines to stop at


def told(drive: Callable[[], object]) -> list[tuple[str, str, int]]:
    """Give what a tracer of the target's own is told of functions of this file."""
    said: list[tuple[str, str, int]] = []

    def tracer(frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("update", "steps"):
            said.append((frame.f_code.co_name, event, frame.f_lineno))
            return tracer
        return None

    sys.settrace(tracer)
    try:
        drive()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    return said


@contextmanager
def without_tracer() -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(before)


def test_a_tracer_of_the_targets_own_is_told_what_it_was_told_and_so_are_we() -> None:
    with without_tracer():
        plain = told(lambda: Traced().update())
        said: list[Any] = []
        (inside,) = recorded(Traced, lambda: said.extend(told(lambda: Traced().update())))
    assert len(plain) > 8
    assert said == plain
    assert [e.op for e in lines_of(inside)["made = self.input + 1"].operations] == ["add"]


class Debugger(bdb.Bdb):
    """Stops at a breakpoint inside `steps`, and from there line by line in this file."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, int]] = []

    def user_line(self, frame: types.FrameType) -> None:
        here = frame.f_code.co_filename == __file__
        if here and (self.lines or frame.f_code is steps.__code__):
            self.lines.append((frame.f_code.co_name, frame.f_lineno))
            self.set_next(frame)
        else:
            self.set_continue()


def debugged() -> list[tuple[str, int]]:
    debugger = Debugger()
    debugger.set_break(__file__, steps.__code__.co_firstlineno + 1)
    layer = Traced()
    debugger.runcall(layer.update)
    debugger.clear_all_breaks()
    return debugger.lines


def test_a_debugger_stops_where_it_stopped() -> None:
    with without_tracer():
        plain = debugged()
        seen: list[Any] = []
        recorded(Traced, lambda: seen.extend(debugged()))
    assert ("steps", steps.__code__.co_firstlineno + 2) in plain
    assert seen == plain
