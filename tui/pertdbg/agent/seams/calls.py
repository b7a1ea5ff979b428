"""What all seams share: counting the calls, probing them at entry and exit, making the record."""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pertdbg.agent.paused import Paused
from pertdbg.agent.probe import Entry, Observation, Roles
from pertdbg.agent.quiet import Quiet
from pertdbg.agent.seams.guard import Guard
from pertdbg.agent.seams.image import attend, without_difference
from pertdbg.agent.seams.stored import Copies, at_fault, copies, gradient_at_entry
from pertdbg.agent.storage import AFTER
from pertdbg.agent.tensors import is_tensor
from pertdbg.between import Between
from pertdbg.record import BoundKind, BoundOf, Caller, CallRecord, Raised, Unknown, UpdateFacts
from pertdbg.recording.parts import LayerSource

if TYPE_CHECKING:
    import torch

    from pertdbg.agent.between.seats import Opening
    from pertdbg.agent.lines.call import CallLines
    from pertdbg.agent.run import Run


@dataclass
class Counted:
    """What is counted of one layer, or of one loop."""

    name: str
    of: Callable[[], Any] = lambda: None
    """The layer, if it is still alive."""
    call: int = 0
    batch: int = 0
    step: int = 0
    backwards: int | None = None
    """Backward passes started up to the end of the last call."""
    input: weakref.ref[Any] | None = None
    """The input that the perturbed input was made from."""


@dataclass(frozen=True)
class Scene:
    """What stands in the roles at one moment, and what of it could not be had."""

    roles: Roles = field(default_factory=Roles)
    unknown: tuple[Unknown, ...] = ()
    image: bool = False
    """Delta is the perturbed input minus the input, computed by us: the perturbed input plays its
    part as a tensor, and the gradient is that of the perturbed input."""


@dataclass(frozen=True)
class Numbers:
    """The numbers that the code declares."""

    bound: float | None = None
    bound_kind: BoundKind | None = None
    bound_norm: float | None = None
    """A limit of an L2 norm, rather than of each element."""
    bound_of: BoundOf | None = None
    learning_rate: float | None = None
    unknown: tuple[Unknown, ...] = ()


@dataclass
class Call:
    """One call under way. `entry` holds live tensors and is let go when the call ends."""

    counted: Counted
    caller: Caller | None
    numbers: Numbers
    had_delta: bool
    backwards: int | None
    entry: Entry | None
    unknown: tuple[Unknown, ...]
    image: bool
    copies: Copies = field(default_factory=dict)
    """Tensors at entry, where they are to be stored."""
    opening: Opening | None = None
    """What it found of what ran before it."""
    lines: CallLines | None = None
    """What its lines did, where they are gone through."""
    gradient: Any = None
    """The gradient at entry, where an app may ask for it when the call ends."""


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    returned: Any = None
    error: BaseException | None = None
    line: int | None = None
    """Line of the observed code that raised."""
    first_line: int | None = None
    """Line that stands for the call where nothing was raised."""

    def raised(self) -> Raised | None:
        """Give the exception as facts."""
        if self.error is None:
            return None
        return Raised(type(self.error).__name__, _text(self.error), self.line)


@dataclass
class Calls:
    """The calls of one run, over all seams."""

    run: Run
    counted: dict[str, Counted] = field(default_factory=dict)
    """By name, which is unique in a run."""
    loops: dict[Any, Counted] = field(default_factory=dict)
    """By the plan of a loop."""
    _inside: set[int] = field(default_factory=set)
    """Threads that are inside an observed method."""

    @property
    def open(self) -> bool:
        """Whether a call that begins now on this thread is to be observed.

        A method may call its parent's: then the outermost call is the one that counts.
        """
        return self.run.recording and threading.get_ident() not in self._inside

    def inside(self, inside: bool) -> None:
        """Note that this thread enters or leaves an observed method."""
        change = self._inside.add if inside else self._inside.discard
        change(threading.get_ident())

    def guarded(self, doing: str) -> Guard:
        """Give a context in which a failure of ours ends the recording, not the target."""
        return Guard(self.run, doing)

    def counting(self, name: str, source: LayerSource) -> Counted:
        """Give what is counted under a name; a new name is added to the recording's layers."""
        known = self.counted.get(name)
        if known is None:
            known = self.counted[name] = Counted(name)
        self.run.add_layer(source)
        return known

    def free_name(self, wanted: str) -> str:
        """Give the name that is wanted if no other layer has it, else ``wanted#2`` and so on."""
        name, number = wanted, 1
        while name in self.counted:
            number += 1
            name = f"{wanted}#{number}"
        return name

    def begin(
        self,
        counted: Counted,
        scene: Scene,
        numbers: Numbers,
        caller: Caller | None,
        gradient: Any = None,
        names: Mapping[str, Any] = MappingProxyType({}),
    ) -> Call:
        """Note what is there before the body of the call runs.

        Args:
            counted: The layer or loop.
            scene: What stands in the roles.
            numbers: What the code declares.
            caller: Who called.
            gradient: The gradient of delta where it is not in delta's own `.grad`.
            names: Attributes of the layer, or locals of the loop's function.
        """
        started, roles = self.run.backwards.started, scene.roles
        known = counted.backwards
        since = None if started is None or known is None else started - known
        entry = self.run.probe.enter(
            roles,
            bound=numbers.bound,
            bound_kind=None if numbers.bound is None else numbers.bound_kind,
            bound_norm=numbers.bound_norm,
            bound_of=numbers.bound_of,
            backwards=since,
            input_replaced=counted.input is not None and counted.input() is not roles.input,
        )
        had_delta = roles.delta is not None
        unknown = scene.unknown + numbers.unknown
        call = Call(counted, caller, numbers, had_delta, since, entry, unknown, scene.image)
        of = roles.perturbed_input if scene.image else roles.delta
        if scene.image or gradient is not None:
            self.attend(call, of, gradient)
        else:
            self._hold(call, of, gradient)
        if self.run.wants_tensors(counted.name, counted.call + 1):
            call.copies, unknown = copies({"gradient": gradient_at_entry(of, gradient)})
            call.unknown += unknown
        call.opening = self.run.flow.opened(
            counted.name, roles, image=scene.image, gradient=gradient, names=names
        )
        return call

    def lines(self) -> CallLines | None:
        """Give what goes through the lines of the call that is made now; None if none is to."""
        if not self.run.wants_lines():
            return None
        from pertdbg.agent.lines.call import CallLines

        return CallLines(self.run, core=self.run.core)

    def attend(self, call: Call, of: object, gradient: Any) -> None:
        """Say which gradient the call found: this one, else the one in the tensor's `.grad`."""
        if call.entry is not None:
            attend(call.entry, of, gradient, call.backwards, self.run.probe)
        self._hold(call, of, gradient)

    def _hold(self, call: Call, of: object, gradient: Any) -> None:
        """Hold the gradient until the call ends: a person, or a fault that shows, may need it."""
        run, counted = self.run, call.counted
        if run.may_stop or run.wants_tensors(counted.name, counted.call + 1, fault=True):
            call.gradient = gradient_at_entry(of, gradient)

    def limit(self, call: Call, norm: float | torch.Tensor, of: BoundOf) -> None:
        """Say what limits the norm of delta, where that is known only when the call ends."""
        if call.entry is not None:
            call.entry.delta.bound_norm, call.entry.delta.bound_of = norm, of

    def finish(
        self,
        call: Call,
        scene: Scene,
        outcome: Outcome,
        names: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Note what is left after the call, and record it."""
        try:
            with self.run.lock:
                self._finish(call, scene, outcome, names)
        finally:
            call.entry = call.gradient = None

    def _finish(self, call: Call, scene: Scene, outcome: Outcome, names: Mapping[str, Any]) -> None:
        entry, run, counted = call.entry, self.run, call.counted
        if entry is None or not run.recording:
            return
        roles = scene.roles
        update = UpdateFacts(
            created=not call.had_delta and roles.delta is not None,
            returned=_returned(outcome.returned),
            raised=outcome.raised(),
            learning_rate=call.numbers.learning_rate,
        )
        _count(counted, update, had_delta=call.had_delta)
        pictures = functools.partial(run.pictures, run.next_id())
        seen = run.probe.leave(entry, roles, pictures=pictures)
        if call.image or scene.image:
            seen = without_difference(seen)
        counted.backwards = run.backwards.started
        counted.input = weakref.ref(roles.input) if is_tensor(roles.input) else None
        left = {role: getattr(roles, role) for role in AFTER}
        if run.wants_tensors(
            counted.name, counted.call, fault=at_fault(update, seen.gradient, seen.delta)
        ):
            copied, unknown = copies({**_as_found(call, seen), **left})
            call.copies.update(copied)
            call.unknown += unknown
        between = run.flow.finished(
            counted.name,
            call.opening,
            roles,
            owner=counted.of,
            image=scene.image,
            rate=call.numbers.learning_rate,
            names=names,
        )
        record = self._record(call, update, seen, scene.unknown, outcome, between)
        # In the order in which they are stored for a person, where there may be no room for all.
        there = {"delta": roles.delta, "gradient": call.gradient, **left}
        paused = Paused(there, counted.of)
        inside = None if call.lines is None else call.lines.inside(roles, seen)
        run.record(record, seen.picture, call.copies, paused, inside)

    def _record(
        self,
        call: Call,
        update: UpdateFacts,
        seen: Observation,
        unknown: tuple[Unknown, ...],
        outcome: Outcome,
        between: Between | None,
    ) -> CallRecord:
        counted = call.counted
        return CallRecord(
            id=self.run.next_id(),
            call=counted.call,
            batch=counted.batch,
            step=counted.step,
            layer=counted.name,
            rank=self.run.rank,
            source_line=outcome.line or outcome.first_line,
            update=update,
            gradient=seen.gradient,
            delta=seen.delta,
            effect=seen.effect,
            tensors=seen.tensors,
            storages=seen.storages,
            shared=seen.shared,
            backward_reaches=seen.backward_reaches,
            graph=seen.graph,
            unknown=call.unknown + unknown + seen.unknown,
            caller=call.caller,
            time=self.run.seconds(),
            between=between,
        )


def caller_of(frame: types.FrameType | None) -> Caller | None:
    """Give the place at which a frame stands."""
    return None if frame is None else Caller(frame.f_code.co_filename, frame.f_lineno)


def _as_found(call: Call, seen: Observation) -> dict[str, Any]:
    """Give the gradient that a call found, where it is not stored yet and was not written to."""
    facts = seen.tensors.before.gradient
    if "gradient" in call.copies or call.gradient is None or facts is None:
        return {}
    with Quiet():
        same = getattr(call.gradient, "_version", None) == facts.version
    return {"gradient": call.gradient} if same else {}


def _returned(result: Any) -> bool | str | None:
    return result if isinstance(result, bool) or result is None else type(result).__name__


def _count(counted: Counted, update: UpdateFacts, *, had_delta: bool) -> None:
    counted.call += 1
    if update.created:
        counted.batch, counted.step = counted.batch + 1, 0
    elif had_delta:
        counted.step += 1


def _text(error: BaseException) -> str:
    """Give an exception's message; a `__str__` of the target's may fail."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - as Python's own traceback printing does
        return "<exception str() failed>"
