"""The seam at a module's function: it is replaced by one that tells of each call.

A function that adds noise once has no gradient and no second step: each of its calls makes a
delta, which is what it returns minus what it was given.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch.compiler import is_compiling

from pertdbg.agent.adapter import Missing, thing_in
from pertdbg.agent.base import shape_of
from pertdbg.agent.names import layer_name
from pertdbg.agent.reraise import going_on
from pertdbg.agent.seams.calls import Calls, Counted, Outcome, Scene, caller_of
from pertdbg.agent.seams.plans import Findings
from pertdbg.agent.seams.scenes import first_tensor, image_scene, numbers_of
from pertdbg.agent.seams.source import source_of
from pertdbg.agent.seams.spec import Spec
from pertdbg.agent.tensors import is_tensor

if TYPE_CHECKING:
    from pertdbg.agent.lines.call import CallLines


class Replaced:
    """One function of a module, while it is observed."""

    def __init__(
        self, module: types.ModuleType, name: str, spec: Spec, calls: Calls, findings: Findings
    ) -> None:
        """Prepare; nothing is changed before `install`."""
        self._module, self._name, self._spec = module, name, spec
        self._calls, self._findings = calls, findings
        self._original: types.FunctionType = getattr(module, name)
        self._signature = inspect.signature(self._original)
        self._replacement: Callable[..., Any] | None = None

    def install(self) -> None:
        """Put the observing function in the module."""
        original = self._original

        @functools.wraps(original)
        def observed(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # a graph with us in it would be another one
                return original(*args, **kwargs)
            lines = self._lines()
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                if lines is not None:
                    lines.stop(error)
                    lines.close()
                # A bare raise adds no entry for this frame again.
                if error.__traceback__ is not None:
                    going_on(error, error.__traceback__.tb_next)
                raise
            if lines is not None:
                lines.stop()
            if self._calls.open:
                with self._calls.guarded("observing a function"):
                    self._observe(args, kwargs, result, sys._getframe(1), lines)
            if lines is not None:
                lines.close()
            return result

        self._replacement = observed
        setattr(self._module, self._name, observed)

    def remove(self) -> None:
        """Put the module back as it was; a hook that was registered stays, and stays silent."""
        if getattr(self._module, self._name, None) is self._replacement:
            setattr(self._module, self._name, self._original)

    def _lines(self) -> CallLines | None:
        """Begin to go through the lines of the call that comes, where that is wanted."""
        if self._calls.open:
            with self._calls.guarded("going through a function"):
                lines = self._calls.lines()
                if lines is not None:
                    lines.start(self._original.__code__)
                return lines
        return None

    def _observe(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        frame: types.FrameType,
        lines: CallLines | None,
    ) -> None:
        scope = dict(self._signature.bind(*args, **kwargs).arguments)
        clean = first_tensor(self._spec.input, scope)
        if clean is None or not is_tensor(result) or result is clean:
            return
        shape = [float(size) for size in shape_of(clean)]
        scope.update(zip(("width", "length"), reversed(shape), strict=False))
        numbers = numbers_of(self._spec, scope)
        call = self._calls.begin(self._known(scope), Scene(), numbers, caller_of(frame))
        call.lines = lines
        line = self._original.__code__.co_firstlineno
        scene = image_scene(result, clean, numbers.bound)
        self._calls.finish(call, scene, Outcome(result, first_line=line))

    def _known(self, scope: Mapping[str, Any]) -> Counted:
        name = self._name
        for expression in self._spec.model:
            try:
                name = layer_name(thing_in(expression, scope))
            except Missing:
                continue
        key = self, name
        known = self._calls.loops.get(key)
        if known is None:
            free = self._calls.free_name(name)
            source = source_of(free, self._original.__code__)
            known = self._calls.loops[key] = self._calls.counting(free, source)
        self._findings.hit(self._spec.name, known.name)
        return known
