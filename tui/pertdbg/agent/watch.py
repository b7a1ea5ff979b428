"""Wraps the update method of a class, so that each call leaves a record and can be stopped at."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling

from pertdbg.agent import aside
from pertdbg.agent.adapter import Absent, Adapter, Missing, number, stored
from pertdbg.agent.names import layer_name
from pertdbg.agent.probe import Roles
from pertdbg.agent.quiet import leave_all
from pertdbg.agent.reraise import going_on
from pertdbg.agent.seams.calls import (
    Call,
    Calls,
    Counted,
    Numbers,
    Outcome,
    Scene,
    caller_of,
)
from pertdbg.agent.seams.tracing import Untraced
from pertdbg.agent.written import written
from pertdbg.record import Unknown
from pertdbg.recording.parts import LayerSource

if TYPE_CHECKING:
    from pertdbg.agent.run import Run


class Watch:
    """Observes one class through an adapter."""

    def __init__(
        self,
        cls: type,
        adapter: Adapter,
        run: Run,
        calls: Calls | None = None,
        means: Callable[[object], bool] = lambda _: True,
    ) -> None:
        """Prepare to watch; nothing is changed before `install`.

        Args:
            cls: The class.
            adapter: Its method, and where its tensors and numbers stand.
            run: Takes the records.
            calls: What the run's seams share; left out where this is the only one.
            means: Says whether an object of the class is one of those to observe.

        Raises:
            Missing: The class has no such method, or it is not a plain function.
        """
        self._cls, self._adapter = cls, adapter
        self._calls, self._means = calls or Calls(run), means
        self._observer: Callable[..., Any] | None = None
        self._original = _function(cls, adapter.method)
        self.code = self._code = written(self._original)
        """The update method's own."""
        self._inherited = adapter.method not in cls.__dict__
        self._layers: dict[int, Counted] = {}

    def install(self) -> None:
        """Put the observing method in the class."""
        self._observer = self._observing()
        setattr(self._cls, self._adapter.method, self._observer)
        self._calls.run.flow.watch(self._cls, self._adapter)

    def remove(self) -> None:
        """Put the class back as it was; where somebody has wrapped ours it stays, and is silent."""
        if self._cls.__dict__.get(self._adapter.method) is not self._observer:
            return
        if self._inherited:
            delattr(self._cls, self._adapter.method)
        else:
            setattr(self._cls, self._adapter.method, self._original)

    def seen(self) -> list[str]:
        """Name the layers whose update was called."""
        return [counted.name for counted in self._layers.values()]

    def _observing(self) -> Callable[..., Any]:
        original = self._original

        @functools.wraps(original)
        def update(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # a graph with us in it would be another one
                return original(layer, *args, **kwargs)
            call = None
            try:
                before = aside.off()
                try:
                    call = self._enter(layer)
                finally:
                    aside.on(before)
            except BaseException as error:
                self._interrupted(error, call)
                raise
            try:
                result = original(layer, *args, **kwargs)
            except BaseException as error:
                if error.__traceback__ is not None:
                    going_on(error, error.__traceback__.tb_next)
                try:
                    before = aside.off()
                    try:
                        self._leave(call, layer, error=error)
                    finally:
                        aside.on(before)
                except BaseException as other:
                    self._interrupted(other, call)
                    raise
                raise
            try:
                before = aside.off()
                try:
                    self._leave(call, layer, result=result)
                finally:
                    aside.on(before)
            except BaseException as error:
                self._interrupted(error, call)
                raise
            return result

        return update

    def _enter(self, layer: Any) -> Call | None:
        """Note what is there before the body runs; None where this call is not to be observed."""
        if not self._calls.open or not self._means(layer):
            return None
        try:
            with self._calls.guarded("observing a call"):
                with Untraced():
                    call = self._begin(layer, sys._getframe(2))
                self._calls.inside(True)
                if call.lines is not None:
                    call.lines.start(self._code)
                return call
        except BaseException:  # Ctrl-C: later calls are observed all the same
            self._calls.inside(False)
            raise
        return None

    def _begin(self, layer: Any, frame: types.FrameType) -> Call:
        bound, no_bound = _number("delta.bound", self._adapter.bound, layer)
        rate, no_rate = _number("update.learning_rate", self._adapter.learning_rate, layer)
        numbers = Numbers(
            bound, self._adapter.bound_kind, learning_rate=rate, unknown=no_bound + no_rate
        )
        scene = self._scene(layer, "before")
        known, caller = self._known(layer), caller_of(frame)
        call = self._calls.begin(known, scene, numbers, caller, names=_attributes(layer))
        call.lines = self._calls.lines()
        if call.lines is not None:
            call.lines.begin(call.entry)
        return call

    def _interrupted(self, error: BaseException, call: Call | None) -> None:
        """Let Ctrl-C that arrived in here, or while the target is stopped, go on to the target."""
        leave_all(error)
        if call is not None:
            self._calls.inside(False)
        going_on(error, None)

    def _leave(
        self, call: Call | None, layer: Any, result: Any = None, error: BaseException | None = None
    ) -> None:
        if call is None:
            return
        self._calls.inside(False)
        if call.lines is not None:
            call.lines.stop(error)
        with self._calls.guarded("recording a call"):
            line = None if error is None else self._line(error)
            first = self._code.co_firstlineno
            outcome = Outcome(result, error, line, first)
            with Untraced():
                scene = self._scene(layer, "after")
                self._calls.finish(call, scene, outcome, _attributes(layer))
        if call.lines is not None:
            call.lines.close()

    def _known(self, layer: Any) -> Counted:
        """Find what is counted of this layer.

        A layer that takes the place, and so the name, of one that is gone counts on from there.
        """
        known = self._layers.get(id(layer))
        if known is None or known.of() is not layer:
            name = self._name(layer)
            known = self._calls.counting(name, self._source(name))
            known.of = _weak(layer)
            self._layers = {key: k for key, k in self._layers.items() if k is not known}
            self._layers[id(layer)] = known
        return known

    def _name(self, layer: Any) -> str:
        """Name a layer, and tell two that live together apart: `pert`, `pert#2`."""
        own = {k.name for k in self._layers.values()}
        taken = {
            name
            for name, counted in self._calls.counted.items()
            if name not in own or counted.of() is not None
        }
        path = name = layer_name(layer)
        number_ = 1
        while name in taken:
            number_ += 1
            name = f"{path}#{number_}"
        return name

    def _source(self, name: str) -> LayerSource:
        code = self._code
        try:
            text: str | None = inspect.getsource(self._original)
        except (OSError, TypeError):
            text = None
        cls = f"{self._cls.__module__}.{self._cls.__qualname__}"
        return LayerSource(name, cls, code.co_filename, code.co_firstlineno, text)

    def _scene(self, layer: Any, when: str) -> Scene:
        found, unknown = {}, []
        for role in ("delta", "input", "perturbed_input"):
            try:
                found[role] = stored(layer, getattr(self._adapter, role))
            except Absent:
                found[role] = None
            except Missing as missing:
                found[role] = None
                unknown.append(Unknown(f"tensors.{when}.{role}", str(missing)))
        return Scene(Roles(**found), tuple(unknown))

    def _line(self, error: BaseException) -> int | None:
        """Find the line of the method that raised, or that called what raised."""
        line, trace = None, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is self._code:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line


def _number(
    field: str, expression: str | None, layer: Any
) -> tuple[float | None, tuple[Unknown, ...]]:
    try:
        return number(expression, layer), ()
    except Missing as missing:
        return None, (Unknown(field, str(missing)),)


def _function(cls: type, method: str) -> types.FunctionType:
    found = getattr(cls, method, None)
    if found is None:
        raise Missing(f"{cls.__qualname__} has no method {method!r}")
    if not isinstance(found, types.FunctionType):
        raise Missing(f"{cls.__qualname__}.{method} is a {type(found).__name__}, not a function")
    return found


def _attributes(layer: object) -> Mapping[str, Any]:
    """Give what is stored in a layer, without running code of it."""
    try:
        fields = object.__getattribute__(layer, "__dict__")
    except AttributeError:  # slots
        return {}
    return fields if isinstance(fields, dict) else {}


def _weak(layer: Any) -> Callable[[], Any]:
    """Refer to a layer without keeping it alive, where its class allows that."""
    try:
        return weakref.ref(layer)
    except TypeError:  # slots without __weakref__: known by its id alone
        return lambda: None
