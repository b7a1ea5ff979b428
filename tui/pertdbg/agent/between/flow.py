"""The journal of what happens between the calls, and what is told of it."""

from __future__ import annotations

import dataclasses
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from pertdbg.agent.adapter import Adapter
from pertdbg.agent.base import grad_of, shape_of
from pertdbg.agent.between.engine import BackwardCalls
from pertdbg.agent.between.events import Backward, Entry, Left, Pass
from pertdbg.agent.between.modes import Modes, Optimizers
from pertdbg.agent.between.modules import ModuleCalls
from pertdbg.agent.between.padding import Padding
from pertdbg.agent.between.seats import (
    Opening,
    Seat,
    expected,
    input_since,
    is_plain,
    keep,
    moved_too,
    opened,
    step_ratio,
)
from pertdbg.agent.between.steps import OptimizersMade, OptimizerSteps
from pertdbg.agent.between.summary import Interval, is_alive
from pertdbg.agent.between.telling import weak, words
from pertdbg.agent.names import names as parameter_names
from pertdbg.agent.probe import Roles
from pertdbg.agent.quiet import Quiet, Ungraded, leave_all
from pertdbg.agent.seams.tracing import Chosen, Tracing, tracing
from pertdbg.agent.tensors import is_tensor, reads_grad
from pertdbg.between import Between

if TYPE_CHECKING:
    from pertdbg.agent.between.events import Ref

_ENTRIES = 4096
"""Entries of the journal; older ones are forgotten."""
_KEPT = 64
"""Graphs whose life is followed."""


class Flow:
    """What is followed between the calls of one run. Begins with `choose` or `install`."""

    def __init__(self) -> None:
        self.off: str | None = "nothing was followed"
        """Why nothing is followed; None where it is."""
        self.thread = threading.get_ident()
        self.journal: deque[Entry] = deque(maxlen=_ENTRIES)
        self.classes: dict[type, Adapter] = {}
        """The classes of layers."""
        self.open: Pass | None = None
        """The module under way that no other module called."""
        self.passes_since_backward: list[Pass] = []
        self.kept: list[Backward] = []
        """Passes through the engine whose graphs were kept."""
        self.modes, self.optimizers, self.padding = Modes(), Optimizers(), Padding()
        self._clock = 0
        self._clean: tuple[Ref, Any] | None = None
        self._tracing: Tracing | None = None
        self._modules = ModuleCalls(self)
        self._codes = self._followed()
        self.finishes: deque[tuple[int, str]] = deque(maxlen=_ENTRIES)
        """Where in the journal calls ended, and whose they were."""
        self.subjects: deque[Ref] = deque(maxlen=_KEPT)
        """Tensors that calls found in the part of delta, newest last."""
        self.seats: dict[str, Seat] = {}
        """By the name of the layer or loop."""

    def install(self) -> None:
        """Follow, where no finder does it."""
        self._tracing = tracing(self.choose)
        if self._tracing.install() is None:
            self.begin()

    def begin(self) -> None:
        """Follow from now on, on this thread; somebody asks `choose`."""
        self.off, self.thread = None, threading.get_ident()

    def remove(self) -> None:
        """Follow nothing any more."""
        self.off = "removed"
        if self._tracing is not None:
            self._tracing.remove()
            self._tracing = None

    def choose(self, frame: types.FrameType) -> Chosen | None:
        """Say whether a function is one of torch's that are followed."""
        return self._codes.get(frame.f_code)

    def watch(self, cls: type, adapter: Adapter) -> None:
        """Note a class of layers."""
        self.classes[cls] = adapter
        self._modules.renew()

    def fail(self, error: BaseException) -> None:
        """Give up: the records go on without what runs between them."""
        self.off = f"error: {words(error)}"
        self.journal.clear()
        self.kept.clear()
        self.open, self._clean = None, None
        self.passes_since_backward = []

    def safely(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do something unseen; a failure ends what is followed, not the target."""
        if self.off is not None:
            return None
        try:
            with Quiet(), Ungraded():
                return do(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever fails in us must not fail the target
            self.fail(error)
            return None
        except BaseException as error:  # Ctrl-C
            leave_all(error)
            raise

    def tick(self) -> int:
        """Give the next place in the journal."""
        self._clock += 1
        return self._clock

    def open_pass(self, passed: Pass) -> None:
        """A module begins that no other module called."""
        self.open = passed
        self.journal.append(passed)
        self.passes_since_backward = [*self.passes_since_backward[-_KEPT:], passed]

    def close_pass(self, passed: Pass) -> None:
        """It has ended."""
        passed.closed = self.tick()
        if self.open is passed:
            self.open = None

    def keep_clean(self, passed: Pass) -> None:
        """Keep what a pass without a perturbation gave."""
        self._clean = passed.module, passed.output

    def clean_output(self, passed: Pass) -> torch.Tensor | None:
        """Give what the module gave without a perturbation, for a pass that drew numbers."""
        perturbed = bool(passed.answers) or (passed.fed is not None and passed.fed.carries)
        if self._clean is None or not passed.random or not perturbed or passed.output is None:
            return None
        module, output = self._clean
        alike = output is not None and shape_of(passed.output) == shape_of(output)
        return output if alike and module() is passed.module() else None

    def add_backward(self, backward: Backward) -> None:
        """A pass through the engine begins."""
        self.journal.append(backward)
        for passed in self.passes_since_backward:
            passed.watched, passed.output = [], None
        self.passes_since_backward = [self.open] if self.open is not None else []
        if backward.graph is not None:
            alive = [each for each in self.kept if each.graph is not None and each.graph()]
            self.kept = [*alive[-_KEPT:], backward]

    def close_backward(self, backward: Backward, error: BaseException | None) -> None:
        """It has ended."""
        backward.raised = words(error)

    def stepped(self) -> None:
        """Training goes on: an optimizer moves."""
        by_layers: dict[frozenset[str], list[str]] = {}
        for name, layers in self.modes.left():
            by_layers.setdefault(layers, []).append(name)
        for layers, names in by_layers.items():
            self.journal.append(Left(self.tick(), tuple(names), layers))

    def entered(self, modules: Iterable[Any]) -> None:
        """A function whose loops are followed begins, with these modules at hand."""
        for module in modules:
            self.modes.before(module)

    def left(self, layers: Iterable[str]) -> None:
        """It has ended; these loops ran."""
        for layer in layers:
            self.modes.during(layer)

    def opened(
        self,
        layer: str,
        roles: Roles,
        *,
        image: bool = False,
        gradient: Any = None,
        names: Mapping[str, Any] = MappingProxyType({}),
    ) -> Opening | None:
        """Note what a call finds, before its body runs.

        Args:
            layer: Name of the layer or loop.
            roles: What stands in the roles.
            image: Delta was computed by us, and the perturbed input plays its part.
            gradient: The gradient of delta where it is not in its own `.grad`.
            names: Attributes or locals under which copies of delta may be kept.
        """
        if self.open is not None:
            self.open.held_call = True
        subject = roles.perturbed_input if image else roles.delta
        found: Opening | None = self.safely(self._opened, layer, roles, subject, gradient, names)
        return found

    def finished(
        self,
        layer: str,
        opening: Opening | None,
        roles: Roles,
        *,
        owner: Callable[[], Any] = lambda: None,
        image: bool = False,
        rate: float | None = None,
        names: Mapping[str, Any] = MappingProxyType({}),
    ) -> Between | None:
        """Say what happened up to the end of a call; begins the next interval.

        Args:
            layer: Name of the layer or loop.
            opening: What the call found.
            roles: What stands in the roles now.
            owner: Gives the layer, where there is one and it is alive.
            image: Delta was computed by us.
            rate: The learning rate that the code declares.
            names: Attributes or locals under which copies of delta may be kept.
        """
        subject = roles.perturbed_input if image else roles.delta
        self._seat(layer).owner = owner
        found: Between | None = self.safely(
            self._finished, layer, opening or Opening(), roles, subject, rate, names, image
        )
        return found

    def closing(self) -> dict[str, Between]:
        """Say what happened after the last call of each layer, what matters most first."""
        found = [(name, self.safely(self._closed, name, seat)) for name, seat in self.seats.items()]
        told = [(layer, between) for layer, between in found if between is not None]
        return dict(sorted(told, key=lambda pair: not _says_much(pair[1])))

    def _opened(
        self, layer: str, roles: Roles, subject: Any, gradient: Any, names: Mapping[str, Any]
    ) -> Opening:
        seat = self._seat(layer)
        interval = Interval(self, seat, layer, subject if is_tensor(subject) else None)
        interval.own()
        if is_tensor(subject):
            self.subjects.append(weak(subject))
        if roles.delta is not None:
            self.modes.during(layer)
        found = opened(seat, roles, subject, gradient, names, scaled=interval.scaled())
        found.kept_gradient, found.written = interval.first_seen()
        return found

    def _finished(
        self,
        layer: str,
        opening: Opening,
        roles: Roles,
        subject: Any,
        rate: float | None,
        names: Mapping[str, Any],
        image: bool,
    ) -> Between:
        seat = self._seat(layer)
        found = None if opening.subject is None else opening.subject()
        interval = Interval(self, seat, layer, found)
        between = interval.facts(parameter_names.parameter, seat.owner())
        seat.given = interval.given()
        interval.own()
        plain = False
        if interval.scaled():
            ratio, before = step_ratio(opening, subject), seat.ratio
            plain, seat.ratio = is_plain(ratio, rate, before), ratio
        snapshots = moved_too(opening, subject, names)
        # A loop has no roles before its delta is made.
        given = input_since(seat, roles.input) if opening.input is None else opening.input
        # A delta may be made before its batch is there: the newest ids are then those of another.
        since = self.finishes[-1][0] if opening.subject is None and self.finishes else 0
        padding = self.padding.perturbed(roles.delta, since)
        self._keep(seat, opening, roles, subject, image)
        self.finishes.append((seat.upto, layer))
        return dataclasses.replace(
            between,
            input=given,
            padding=padding,
            kept_gradient=opening.kept_gradient,
            written=opening.written,
            snapshots=snapshots,
            plain_step=plain,
        )

    def _keep(self, seat: Seat, opening: Opening, roles: Roles, subject: Any, image: bool) -> None:
        same = opening.subject is not None and opening.subject() is subject
        left = is_tensor(subject) and reads_grad(subject) and grad_of(subject) is not None
        seat.found_gradient = opening.has_gradient and same and left
        seat.delta = weak(subject) if is_tensor(subject) else None
        seat.input, seat.perturbed = keep(roles.input), expected(roles, image=image)
        seat.upto = self.tick()

    def _closed(self, layer: str, seat: Seat) -> Between:
        subject = None if seat.delta is None else seat.delta()
        interval = Interval(self, seat, layer, subject)
        interval.own()
        between = interval.facts(parameter_names.parameter, seat.owner())
        kept_gradient, written = interval.first_seen()
        alive = [each for each in self.kept if layer in each.owners and is_alive(each)]
        return dataclasses.replace(
            between, retained=len(alive) > 1, kept_gradient=kept_gradient, written=written
        )

    def _seat(self, layer: str) -> Seat:
        return self.seats.setdefault(layer, Seat())

    def _followed(self) -> Mapping[types.CodeType, Chosen]:
        from torch.autograd import graph

        optimizer: Any = torch.optim.Optimizer
        step = optimizer.profile_hook_step(lambda _: None)
        functions: list[tuple[Any, Chosen]] = [
            (torch.nn.Module._call_impl, self._modules),
            (getattr(graph, "_engine_run_backward", None), BackwardCalls(self)),
            (optimizer.__init__, OptimizersMade(self)),
            (step, OptimizerSteps(self)),
        ]
        codes = ((getattr(f, "__code__", None), chosen) for f, chosen in functions)
        return {code: chosen for code, chosen in codes if code is not None}


def _says_much(between: Between) -> bool:
    """Say whether something failed, or was left."""
    failed = any(each.raised for each in between.backwards)
    failed = failed or (between.taken is not None and between.taken.raised is not None)
    return failed or between.stale or between.retained or bool(between.left_on)
