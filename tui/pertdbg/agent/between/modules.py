"""Each run of a module, told of where torch's own function calls its `forward`."""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pertdbg.agent.adapter import Adapter, Missing, stored
from pertdbg.agent.base import dtype_of, grad_fn_of, numel, requires_grad
from pertdbg.agent.between.events import Fed, Pass, Ref, Watched
from pertdbg.agent.between.graphs import reach
from pertdbg.agent.between.samples import Sample, address, at_hand, is_parameter, sample, version
from pertdbg.agent.between.telling import Told, weak, words
from pertdbg.agent.names import _tensors, _within
from pertdbg.agent.quiet import Quiet, Ungraded, leave_all
from pertdbg.agent.seams.locals import read_locals
from pertdbg.agent.tensors import is_tensor, name_of

if TYPE_CHECKING:
    from pertdbg.agent.between.flow import Flow

_NAMES = frozenset({"self", "args", "kwargs"})
_NODES = 64
"""Nodes after which a walk behind a module's input stops."""
_WALKS = 8
"""Inner modules of one pass whose inputs are looked behind."""
_COPIED = 65536
"""Elements up to which the output of a clean pass is copied, and that of a perturbed one read."""
_FAR = 1.0
"""Relative distance from which a layer's own input is another one: dropout makes less of it."""


@dataclass(slots=True)
class LayerState:
    """What is known of one layer."""

    layer: Ref
    input: Ref | None = None
    key: Sample | None = None
    """What the module outside was given when the layer took its input."""
    module: Ref | None = None
    """That module."""


class ModuleCalls:
    """Follows the method of torch that calls a module's `forward`."""

    by_line = False

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._kinds: dict[type, Adapter | str | None] = {}
        self._layers: dict[int, LayerState] = {}

    def renew(self) -> None:
        """Forget what classes are: another one is watched."""
        self._kinds.clear()

    def begin(self, frame: types.FrameType) -> Told | None:
        """A module's `forward` is about to run."""
        flow = self._flow
        if flow.off is not None or threading.get_ident() != flow.thread:
            return None
        try:
            scope = read_locals(frame, _NAMES, traced=True)
            module, inside = scope["self"], flow.open
            kind = self._kinds.get(type(module), "unknown")
            if kind == "unknown":
                kind = self._kind(type(module))
            if inside is not None and kind is None and not inside.looking:
                return None
            grad_mode = torch.is_grad_enabled()
            with Quiet(), Ungraded():
                return self._begin(module, kind, list(_given(scope)), grad_mode=grad_mode)
        except Exception as error:  # noqa: BLE001 - whatever fails in us must not fail the target
            flow.fail(error)
            return None
        except BaseException as error:  # Ctrl-C
            leave_all(error)
            raise

    def _begin(
        self, module: Any, kind: Adapter | str | None, given: list[Any], *, grad_mode: bool
    ) -> Told | None:
        inside = self._flow.open
        if kind == "embedding" and given:
            self._flow.padding.seen(module, given[0], self._flow.tick())
        if inside is None:
            return self._open(module, kind, given, grad_mode=grad_mode)
        if inside.looking:
            self._look(inside, module, given, grad_mode=grad_mode)
        if not isinstance(kind, Adapter):
            return None
        adapter = kind
        return Told(lambda value, _: self._flow.safely(self._answered, module, adapter, value))

    def _open(
        self, module: Any, kind: Adapter | str | None, given: list[Any], *, grad_mode: bool
    ) -> Told:
        flow = self._flow
        passed = Pass(weak(module), type(module).__name__[:100], flow.tick())
        passed.key = sample(given[0]) if given else None
        self._look(passed, module, given, grad_mode=grad_mode)
        if module.__dict__.get("training") is True:
            passed.random_state = torch.default_generator.get_state()
        flow.open_pass(passed)

        def end(value: Any, error: BaseException | None) -> None:
            if isinstance(kind, Adapter):
                flow.safely(self._answered, module, kind, value)
            flow.safely(self._close, passed, module, value, error)

        return Told(end)

    def _kind(self, cls: type) -> Adapter | str | None:
        """Say what a class is: an observed layer, an embedding with padding, or neither."""
        watched = (a for each, a in self._flow.classes.items() if issubclass(cls, each))
        embeds = "embedding" if issubclass(cls, torch.nn.Embedding) else None
        kind = self._kinds[cls] = next(watched, embeds)
        return kind

    def _look(self, passed: Pass, module: Any, given: list[Any], *, grad_mode: bool) -> None:
        """Look whether a module is given the perturbation, until one is that has parameters."""
        tensor = next((each for each in given if dtype_of(each).is_floating_point), None)
        if tensor is None:
            return
        known = passed.fed
        if known is None or not known.carries:
            passed.walks += 1
            fed = self._fed(module, tensor, grad_mode=grad_mode)
            answer = passed.watched[0].tensor() if passed.answers and passed.watched else None
            fed.carries = _leads_somewhere(fed) or _overlap(tensor, answer)
            if known is None or fed.carries:
                passed.fed = known = fed
                first = passed.walks == 1 and tensor is given[0]
                fed.sample = passed.key if first else sample(tensor)
            passed.looking = fed.carries or (bool(passed.answers) and passed.walks < _WALKS)
            if fed.carries:
                passed.watched += _watch(fed, tensor, answer)
        if known.tensor() is tensor and known.module_dtype is None:
            known.module_dtype = _own_dtype(module)
        if known.module_dtype is not None and known.carries:
            passed.looking = False

    def _fed(self, module: Any, tensor: Any, *, grad_mode: bool) -> Fed:
        fed = Fed(weak(tensor), name_of(dtype_of(tensor)))
        fed.module, fed.grad_mode = type(module).__name__[:100], grad_mode
        fed.autocast = _autocasts(tensor)
        node = grad_fn_of(tensor)
        leaves = reach([node], _NODES).leaves if node is not None else []
        if node is None and requires_grad(tensor):
            leaves = [tensor]
        fed.leaves = [weak(leaf) for leaf in leaves]
        return fed

    def _answered(self, module: Any, adapter: Adapter, value: Any) -> None:
        """A layer has run: see whether it took a new input, or answered with what it had."""
        flow, passed = self._flow, self._flow.open
        if passed is None or not is_tensor(value):
            return
        state, taken = self._state(module), _role(module, adapter.input)
        perturbed = _role(module, adapter.perturbed_input)
        own = passed.module() is module
        if value is not perturbed and not (value is not taken and _overlap(value, perturbed)):
            if taken is not None and (state.input is None or state.input() is not taken):
                state.input, state.key, state.module = weak(taken), passed.key, passed.module
                flow.modes.before(passed.module())
            return
        passed.answers.append(weak(module))
        passed.looking = True
        seen = sample(value)
        if seen is not None:
            passed.watched.insert(0, Watched(weak(value), version(value), seen))
        if taken is not None and (state.input is None or state.input() is taken):
            same_module = state.module is not None and state.module() is passed.module()
            if same_module and _is_other(state.key, passed.key, loosely=own):
                passed.stale.append(weak(module))

    def _state(self, module: Any) -> LayerState:
        known = self._layers.get(id(module))
        if known is None or known.layer() is not module:
            self._layers = {k: s for k, s in self._layers.items() if s.layer() is not None}
            known = self._layers[id(module)] = LayerState(weakref.ref(module))
        return known

    def _close(self, passed: Pass, module: Any, value: Any, error: BaseException | None) -> None:
        flow = self._flow
        passed.raised, passed.looking = words(error), False
        switches = flow.modes.switches(module)
        passed.random = switches.draws()
        if passed.random_state is not None and not passed.held_call:
            now = torch.default_generator.get_state()
            passed.random = passed.random or not torch.equal(now, passed.random_state)
        passed.random_state = None
        if passed.fed is not None and passed.fed.module_dtype is None:
            passed.fed.module_dtype = _first_dtype(module)
        output = _output(value)
        if passed.fed is not None and passed.fed.carries:
            passed.finite = _is_finite(output)
        if output is not None and (switches.may_draw or passed.random):
            if output.numel() <= _COPIED:
                passed.output = output.detach().clone()
            if not passed.answers and not (passed.fed and passed.fed.carries):
                flow.keep_clean(passed)
        passed.key = None
        flow.close_pass(passed)


def _given(scope: Mapping[str, Any]) -> Iterator[Any]:
    for value in (*scope.get("args", ()), *scope.get("kwargs", {}).values()):
        if is_tensor(value):
            yield value


def _leads_somewhere(fed: Fed) -> bool:
    """Say whether a tensor's graph leads to a leaf that is no parameter."""
    leaves = (ref() for ref in fed.leaves)
    return any(leaf is not None and not is_parameter(leaf) for leaf in leaves)


def _watch(fed: Fed, tensor: Any, answer: Any) -> list[Watched]:
    """Remember the values of a tensor and of the leaves behind it that are no parameters."""
    leaves = [ref() for ref in fed.leaves]
    others = [t for t in leaves if t is not None and not is_parameter(t) and t is not tensor]
    found = []
    for each in others if tensor is answer else (tensor, *others):
        seen = fed.sample if each is tensor else sample(each)
        if seen is not None:
            found.append(Watched(weak(each), version(each), seen))
    return found


def _overlap(tensor: Any, other: Any) -> bool:
    begin = address(tensor)
    return begin is not None and begin == address(other)


def _role(module: Any, name: str) -> Any:
    try:
        value = stored(module, name)
    except Missing:
        return None
    return value if is_tensor(value) else None


def _own_dtype(module: Any) -> str | None:
    """Give the type of the first floating point parameter that a module has itself."""
    for _, tensor in _tensors(module):
        if is_parameter(tensor) and dtype_of(tensor).is_floating_point:
            return name_of(dtype_of(tensor))
    return None


def _first_dtype(module: Any) -> str | None:
    return next((found for _, each in _within(module) if (found := _own_dtype(each))), None)


def _autocasts(tensor: Any) -> bool:
    return bool(torch.is_autocast_enabled(tensor.device.type))


def _is_other(known: Sample | None, now: Sample | None, *, loosely: bool) -> bool:
    """Say whether two passes were given different batches."""
    if known is None or now is None:
        return False
    if known.shape != now.shape:
        return True
    if not loosely or not now.values.is_floating_point():
        return not known.same(now)
    a, b = known.values.double(), now.values.double()
    return bool((a - b).norm() > _FAR * torch.maximum(a.norm(), b.norm()))


def _is_finite(output: Any) -> bool | None:
    """Say whether a tensor is finite; None where it is large, or that would wait for a device."""
    if not at_hand(output) or numel(output) > _COPIED:
        return None
    return bool(torch.isfinite(output).all())


def _output(value: Any) -> Any:
    """Give the floating point tensor that a module returned, or the first of several."""
    values = value.values() if isinstance(value, dict) else value
    several = values if isinstance(value, (tuple, list, dict)) else (value,)
    tensors = (each for each in several if is_tensor(each))
    return next((each for each in tensors if dtype_of(each).is_floating_point), None)
