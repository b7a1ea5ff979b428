"""Attacks on weights: an object whose method moves parameters, and another that puts them back.

There is no delta: it is the parameter minus the copy that the object keeps, or minus the
parameter before the call. Several parameters count as one long vector.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pertdbg.agent.adapter import Missing, thing_in
from pertdbg.agent.base import dtype_of, grad_of, shape_of
from pertdbg.agent.probe import Roles
from pertdbg.agent.seams.calls import Call, Calls, Counted, Numbers, Outcome, Scene, caller_of
from pertdbg.agent.seams.denominators import is_guard
from pertdbg.agent.seams.flow import own_nodes
from pertdbg.agent.seams.image import quietly
from pertdbg.agent.seams.locals import read_locals
from pertdbg.agent.seams.plans import Findings
from pertdbg.agent.seams.scenes import first_number, image_scene, numbers_of
from pertdbg.agent.seams.source import body_of, name_of_code, source_of
from pertdbg.agent.seams.spec import Spec, roots
from pertdbg.agent.tensors import is_tensor
from pertdbg.record import Unknown

Tensors = dict[str, Any]


@dataclass(frozen=True)
class Attack:
    """What is known of the method that moves weights."""

    spec: Spec
    code: types.CodeType


class AttackCall:
    """One call of the attacking method."""

    def __init__(self, attack: Attack, calls: Calls, findings: Findings) -> None:
        self._attack, self._calls, self._findings = attack, calls, findings
        self._parameters: Tensors = {}
        self._gradients: Tensors = {}
        self._copies: Tensors = {}
        self._call: Call | None = None
        self.by_line = False
        """Its lines are gone through."""

    def begin(self, frame: types.FrameType) -> bool:
        """Note what is there before the weights move; says whether this is an attack."""
        scope = self._scope(frame)
        model = _model(self._attack.spec, scope)
        if model is None:
            return False
        self._parameters = dict(_parameters(model))
        self._gradients = {name: grad_of(p) for name, p in self._parameters.items()}
        self._copies = _copied(self._attack.spec, scope, self._parameters)
        numbers = numbers_of(self._attack.spec, scope)
        scene = self._scene(scope, numbers)
        if scene.roles.delta is not None and not _moved(scene):
            scene = Scene()
        counted = self._known(scope)
        self._call = self._calls.begin(counted, scene, numbers, caller_of(frame.f_back))
        self._calls.inside(True)
        lines = self._call.lines = self._calls.lines()
        if lines is not None:
            self.by_line = True
            lines.begin(self._call.entry)
            lines.start(frame=frame)
        return True

    def line(self, frame: types.FrameType) -> None:
        """A line is about to run, where lines are gone through."""
        if self._call is not None and self._call.lines is not None:
            self._call.lines.lines.line(frame)

    def end(self, frame: types.FrameType, value: Any, error: BaseException | None) -> None:
        """The method returned, or raised: see what has moved."""
        call, self._call = self._call, None
        self._calls.inside(False)
        if call is None:
            return
        if call.lines is not None:
            call.lines.lines.leave(None if error is None else type(error).__name__)
            call.lines.stop(error)
        with self._calls.guarded("recording an attack on weights"):
            self._finish(frame, call, value, error)
        if call.lines is not None:
            call.lines.close()
        self._parameters, self._gradients, self._copies = {}, {}, {}

    def _finish(
        self, frame: types.FrameType, call: Call, value: Any, error: BaseException | None
    ) -> None:
        scope = self._scope(frame)
        scene = self._scene(scope, call.numbers)
        moved = self._kept(scope)
        gradient = _joined([self._gradients.get(name) for name in moved])
        self._calls.attend(call, scene.roles.perturbed_input, gradient)
        self._limit(call, scope, scene)
        if not moved:
            why = "no weight was moved"
            scene = Scene(unknown=(Unknown("delta", why), Unknown("gradient", why)))
        line = None if error is None else frame.f_lineno
        first = self._attack.code.co_firstlineno
        self._calls.finish(call, scene, Outcome(value, error, line, first))

    def _scene(self, scope: Mapping[str, Any], numbers: Numbers) -> Scene:
        kept = self._kept(scope)
        if not kept:
            return Scene()
        perturbed = _joined([self._parameters[name] for name in kept])
        clean = _joined(list(kept.values()))
        if perturbed is None or clean is None:
            why = "weights of several dtypes or devices"
            return Scene(unknown=(Unknown("delta", why),))
        scene = image_scene(perturbed, clean, numbers.bound)
        if len(kept) == 1:
            return scene
        why = f"{len(kept)} weights as one vector: {', '.join(sorted(kept))}"[:200]
        return Scene(scene.roles, (*scene.unknown, Unknown("tensors", why)), scene.image)

    def _limit(self, call: Call, scope: Mapping[str, Any], scene: Scene) -> None:
        """Say what limits the norm of delta in this call: it may go with that of the weights."""
        spec, clean = self._attack.spec, scene.roles.input
        share, _ = first_number(spec.relative_bound, scope)
        if share is not None and is_tensor(clean):
            self._calls.limit(call, quietly(lambda: abs(share) * _size(clean)), "whole")
        elif spec.norm == "l2" and len(self._kept(scope)) == 1:  # each weight has its own limit
            bound, _ = first_number(_limits(spec, self._attack.code), scope)
            if bound is not None:
                self._calls.limit(call, bound, "whole")

    def _kept(self, scope: Mapping[str, Any]) -> Tensors:
        return self._copies or _backup(scope, self._attack.spec, self._parameters)

    def _scope(self, frame: types.FrameType) -> Mapping[str, Any]:
        own = frame.f_code.co_varnames[:1]
        names = roots(self._attack.spec.expressions()).union(own)
        scope = read_locals(frame, names, traced=True)
        return {**scope, "self": scope.get(own[0])} if own else scope

    def _known(self, scope: Mapping[str, Any]) -> Counted:
        owner = type(scope.get("self"))
        wanted = f"{owner.__name__}.{self._attack.code.co_name}"
        known = self._calls.loops.get((self._attack, owner))
        if known is None:
            name = self._calls.free_name(wanted or name_of_code(self._attack.code))
            known = self._calls.counting(name, source_of(name, self._attack.code))
            self._calls.loops[self._attack, owner] = known
        self._findings.hit(self._attack.spec.name, known.name)
        return known


def _model(spec: Spec, scope: Mapping[str, Any]) -> Any:
    for expression in spec.model:
        try:
            value = thing_in(expression, scope)
        except Missing:
            continue
        if issubclass(type(value), torch.nn.Module):
            return value
    return None


def _parameters(model: Any) -> Iterator[tuple[str, Any]]:
    """Give the parameters by path as `named_parameters` does, without running the module's code."""
    seen: set[int] = set()
    waiting = [("", model)]
    while waiting:
        prefix, module = waiting.pop()
        tables = object.__getattribute__(module, "__dict__")
        for name, parameter in tables.get("_parameters", {}).items():
            if is_tensor(parameter) and id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{prefix}{name}", parameter
        for name, child in tables.get("_modules", {}).items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                waiting.append((f"{prefix}{name}.", child))


def _backup(scope: Mapping[str, Any], spec: Spec, parameters: Tensors) -> Tensors:
    """Give the copies of weights that the object keeps: a mapping from names of weights."""
    held = getattr(scope.get("self"), "__dict__", {})
    for key, table in held.items():
        if type(table) is not dict or "grad" in key or key in spec.methods:
            continue
        kept = {name: copy for name, copy in table.items() if _is_copy(copy, parameters.get(name))}
        if kept:
            return kept
    return {}


def _is_copy(copy: Any, parameter: Any) -> bool:
    return is_tensor(copy) and is_tensor(parameter) and shape_of(copy) == shape_of(parameter)


def _copied(spec: Spec, scope: Mapping[str, Any], parameters: Tensors) -> Tensors:
    """Copy what an argument says is going to be moved, where the object keeps no copy."""
    for expression in spec.step:
        try:
            step = thing_in(expression, scope)
        except Missing:
            continue
        if isinstance(step, dict):
            return {
                name: quietly(functools.partial(torch.clone, parameters[name]))
                for name in step
                if name in parameters
            }
    return {}


def _joined(tensors: list[Any]) -> Any:
    """Give one tensor as it is, and several as one vector; None if one is missing or unlike."""
    if len(tensors) == 1:
        return tensors[0]
    if not tensors or not all(is_tensor(tensor) for tensor in tensors):
        return None
    if len({(dtype_of(tensor), tensor.device) for tensor in tensors}) > 1:
        return None
    return quietly(lambda: torch.cat([torch.reshape(tensor, (-1,)) for tensor in tensors]))


@functools.lru_cache(maxsize=64)
def _limits(spec: Spec, code: types.CodeType) -> tuple[str, ...]:
    """Give what the adapter takes for a limit, without what only guards a denominator."""
    body = body_of(code)
    nodes = [] if body is None else list(own_nodes(body))
    return tuple(bound for bound in spec.bound if not is_guard(bound, nodes))


def _size(weights: torch.Tensor) -> torch.Tensor:
    """Give the L2 norm in float64; it stays on its device."""
    wide = torch.complex128 if dtype_of(weights).is_complex else torch.float64
    size: torch.Tensor = torch.linalg.vector_norm(weights, dtype=wide)
    return size


def _moved(scene: Scene) -> bool:
    roles: Roles = scene.roles
    return bool(quietly(lambda: torch.count_nonzero(roles.delta).item()))
