"""One observed run of a target: its recording, its control socket and what all watches share."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from pertdbg.agent import aside
from pertdbg.agent.backwards import BackwardCounter
from pertdbg.agent.config import Config
from pertdbg.agent.control import Control
from pertdbg.agent.group import Group
from pertdbg.agent.notice import say
from pertdbg.agent.output import outputs
from pertdbg.agent.paused import Paused
from pertdbg.agent.postmortem import describe
from pertdbg.agent.stops import Stops
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording import HeatMap, LayerSource
from pertdbg.recording.adapters import ADAPTERS
from pertdbg.recording.adapters import to_text as matches_text
from pertdbg.recording.between import CLOSING, closing_text
from pertdbg.recording.events import Inside
from pertdbg.recording.raised import RAISED, to_text
from pertdbg.recording.writer import Recorder, RecordingFailed
from pertdbg.seat import give_up
from pertdbg.wire import Frame

if TYPE_CHECKING:
    from pertdbg.agent.adapter import Adapter
    from pertdbg.agent.between.flow import Flow
    from pertdbg.agent.lines.call import LossGraph
    from pertdbg.agent.lines.lines import Lines
    from pertdbg.agent.tensorcopy import TensorCopy
    from pertdbg.agent.watch import Watch
    from pertdbg.event import LineEvent

PICTURES = frozenset({"histogram", "map"})
"""What can be asked for beside the scalars of a record."""

_SMALL = 16384
"""Up to this many elements a histogram and a map cost little, and every call gets them."""

_EVERY = 100
"""Of larger deltas every so manieth call gets them while nobody looks."""


class Run:
    """Writes the records of one target and stops it where the app asks.

    A failure of ours ends the recording, says so once on standard error and leaves the target
    as it would be without us.
    """

    def __init__(self, config: Config, progress: Callable[[str], None] | None = None) -> None:
        """Make the recording and begin to listen; imports no torch.

        Args:
            config: Where to record and where to listen.
            progress: Called with a few words while loading and after each call.

        Raises:
            PertdbgError: The recording can't be made.
        """
        self._facts = config.facts
        self.lines = config.lines
        """Each call is gone through line by line."""
        self.loss: LossGraph | None = None
        """The graph that the last backward pass went through."""
        self._progress = progress
        self._watches: list[Watch] = []
        recorder = Recorder(
            Path(config.recording),
            config.meta,
            durable=config.durable,
            tensors=config.tensors,
            budget=config.tensor_budget,
        )
        self._recorder: Recorder | None = recorder
        self._started_ns = recorder.started_ns
        self._control = _control(config)
        self._stops = Stops(config.stop_when)
        if self._control is not None:
            self._control.stop_when = self._stops.replace
            self._control.lost = functools.partial(self._stops.replace, config.stop_when)
        self._asking = 0
        """The thread that answers a question: what it calls is no part of the run."""
        self._under_way: LineEvent | None = None
        """The line, of the call under way, after which tensors were stored last."""
        self._seat = Path(config.control) if config.control and config.seat else None
        self._outputs = outputs(stdout=config.stdout, stderr=config.stderr)
        self.lock = threading.RLock()
        """Held while a call is recorded and stopped at, so that threads come one by one."""
        self.calls = 0
        """Records written; the id of the newest."""
        self.rank = int(config.meta.get("rank", 0))
        self._group = Group() if config.meta.get("world_size", 1) > 1 else None
        self.backwards = BackwardCounter(self._went_back)
        self.flow: Flow
        """What is followed between the calls, once torch is there."""
        os.register_at_fork(after_in_child=functools.partial(_forget, weakref.ref(self)))

    @property
    def recording(self) -> bool:
        """Whether records are still written, of what runs on this thread."""
        asking = self._asking and self._asking == threading.get_ident()
        return self._recorder is not None and not asking

    @property
    def may_stop(self) -> bool:
        """Whether an app is there to stop for, and to ask what there is then."""
        return self._control is not None and self._control.connected

    @property
    def core(self) -> bool:
        """Whether only the cheapest facts are wanted."""
        return self._facts == "core"

    def seconds(self) -> float:
        """Time since the run began."""
        return (time.monotonic_ns() - self._started_ns) * 1e-9

    def ready(self, torch_version: str) -> None:
        """Begin to observe, now that torch is there."""
        from pertdbg.agent.between.flow import Flow
        from pertdbg.agent.probe import Probe

        self._state(torch=torch_version)
        self.probe = Probe(facts=self._facts)
        aside.arm()
        self.flow = Flow()
        self.backwards.install()

    def watch(self, cls: type, adapter: Adapter) -> None:
        """Observe a class from now on."""
        from pertdbg.agent.watch import Watch

        watch = Watch(cls, adapter, self)
        watch.install()
        self._watches.append(watch)

    def remove(self) -> None:
        """Take everything of ours out of the target's classes and of torch."""
        for watch in self._watches:
            watch.remove()
        self._watches.clear()
        self.backwards.remove()
        if hasattr(self, "flow"):
            self.flow.remove()

    def loading(self, text: str) -> None:
        """Say what the target is doing before its first call."""
        self._say(text)
        self._state(state="loading", loading=text)
        if self._control is not None:
            self._control.tell({"now": "loading", "text": text})

    def next_id(self) -> int:
        """Give the id of the record that is being made."""
        return self.calls + 1

    def pictures(self, number: int, elements: int) -> frozenset[str]:
        """Say which pictures of a delta of this many elements to make in this call."""
        if elements <= _SMALL or number % _EVERY == 1:
            return PICTURES
        if self._control is not None and self._control.will_stop(number):
            return self._control.looking & PICTURES
        return frozenset()

    def add_layer(self, layer: LayerSource) -> None:
        """Record where a layer's update method stands."""
        with self.lock:
            if self._recorder is not None:
                self._recorder.add_layer(layer)

    def wants_tensors(self, layer: str, call: int, *, fault: bool = False) -> bool:
        """Say whether the tensors of a layer's call are to be stored; see `Recorder`."""
        recorder = self._recorder
        return recorder is not None and recorder.wants_tensors(layer, call, fault=fault)

    def record(
        self,
        record: CallRecord,
        picture: HeatMap | None,
        tensors: Mapping[str, TensorCopy] = MappingProxyType({}),
        paused: Paused | None = None,
        inside: tuple[Inside, dict[str, str]] | None = None,
    ) -> None:
        """Write a record, what the target printed before it, and stop if asked to.

        Args:
            record: The record.
            picture: The map of delta, where one was made.
            tensors: Those to store.
            paused: What can be asked for while the target is stopped there.
            inside: What its lines did, and new labels for the storages in that.
        """
        with self.lock:
            if self._recorder is None:
                return
            self.calls = record.id
            try:
                self._drop_foreign(inside)
                if record.id == 1:
                    self._recorder.state(state="running", loading="")
                self._copy_output(record.id)
                if self._group is not None and (news := self._group.news()):
                    self._recorder.state(**news)
                self._recorder.write(record, picture, *(inside or ()))
                for role, copy in tensors.items():
                    self._recorder.tensor(record.id, role, copy.dtype, copy.shape, copy.data)
            except RecordingFailed as error:
                self.failed("writing the recording", error)
                return
        self._say(f"call {record.id}")
        if self._control is None:
            self._held(record)
            return
        held, answers = functools.partial(self._held, record), None
        if paused is not None:
            answers = self._answers(record.id, paused)
        self._control.at_call(record.id, held, answers)

    def wants_lines(self) -> bool:
        """Say whether the next call is to be gone through line by line."""
        if self.lines:
            return self._recorder is not None
        return self._control is not None and self._control.will_stop(self.next_id())

    def at_line(self, lines: Lines) -> None:
        """Stop inside a call if asked to: what its lines did so far is written before."""
        control = self._control
        events, lost = lines.so_far()
        if control is None or not events or not control.steps(self.next_id()):
            return
        with self.lock:
            if self._recorder is None:
                return
            number = self.next_id()
            try:
                self._recorder.events(number, Inside(tuple(events), lost))
            except RecordingFailed as error:
                self.failed("writing the recording", error)
                return
            paused = Paused({}, frame=lines.frame, tensors=lines.tensors)
            paused.place = f" after line {events[-1].line}"
            answers = self._answers(number, paused, events[-1])
            lines.into = control.at_line(number, len(events) - 1, answers)

    def _answers(
        self, number: int, paused: Paused, event: LineEvent | None = None
    ) -> Callable[[Frame], Frame]:
        """Give what answers questions to the stopped target.

        Args:
            number: Id of the record where it is stopped.
            paused: What is there.
            event: The last line, where it is stopped inside the call.
        """
        store = functools.partial(self._store, number, event)
        return functools.partial(paused.answer, self.asking, store)

    def _store(self, number: int, event: LineEvent | None, paused: Paused, frame: Frame) -> Frame:
        """Store tensors of the stopped target."""
        from pertdbg.agent.storing import store  # brings torch

        with self.lock:
            if self._recorder is None:
                raise PertdbgError("the recording has ended")
            self._under_way = event or self._under_way
            try:
                return store(self._recorder, number, paused, frame, under_way=event is not None)
            except RecordingFailed as error:
                self.failed("writing the recording", error)
                raise

    def _drop_foreign(self, inside: tuple[Inside, Any] | None) -> None:
        """Drop tensors that were stored inside a call, if another one comes to its end before."""
        event, self._under_way = self._under_way, None
        if event is not None and self._recorder is not None:
            events = inside[0].events if inside is not None else ()
            if not any(each is event for each in events):
                self._recorder.drop_tensors(self.calls)

    def _went_back(self, roots: Any) -> None:
        """A backward pass is about to begin: see what it goes through, if that is wanted."""
        with contextlib.suppress(Exception):  # a graph that can't be had is left out
            if self._recorder is not None and self.wants_lines():
                from pertdbg.agent.lines.call import loss_graph

                self.loss = loss_graph(roots)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Leave what this thread runs inside out of the recording."""
        self._asking = threading.get_ident()
        try:
            yield
        finally:
            self._asking = 0

    def _held(self, record: CallRecord) -> list[str]:
        """Give the conditions that stop the target at this call, and mark the call."""
        held = self._stops.at(record)
        if held and self._recorder is not None and self._stops.may_mark():
            try:
                self._recorder.mark(record.id, "stopped", "; ".join(held))
            except RecordingFailed as error:
                self.failed("writing the recording", error)
        return held

    def failed(self, doing: str, error: BaseException) -> None:
        """Give up recording: the target goes on, and what is written stays readable."""
        with self.lock:
            recorder, self._recorder = self._recorder, None
            if recorder is None:
                return
        say(f"{doing} failed ({type(error).__name__}: {error}); recording ends, the target runs on")
        recorder.forget()
        if self._control is not None:
            self._control.forget()
            self._stand_up()

    def raised(self, error: BaseException | None, trace: TracebackType | None) -> None:
        """Write which exception ends the target, once it leaves its code; None: it does not."""
        with contextlib.suppress(Exception):  # whatever the target's exception is, it goes on
            text = None if error is None else to_text(describe(error, trace, self.calls))
            with self.lock:
                self._state(**{RAISED: text})

    def matched(self, report: Sequence[Mapping[str, Any]]) -> None:
        """Write which adapters matched, and why not the others."""
        with self.lock:
            self._state(**{ADAPTERS: matches_text(report)})

    def end(self, status: int | None, text: str) -> None:
        """Write how the target ended and close the recording; the status may not be known."""
        with self.lock:
            try:
                self._copy_output(self.calls + 1)
                self._close_flow()
                self._state(state="ended", exit_status=status, exit_text=text)
                if self._recorder is not None:
                    self._recorder.close()
                    self._recorder = None
            except RecordingFailed as error:
                self.failed("closing the recording", error)
        if self._control is not None:
            self._control.done(status, text)
            self._stand_up()

    def forget(self) -> None:
        """In a forked child: neither record nor listen; the parent's file is left alone."""
        recorder, self._recorder = self._recorder, None
        self.lock = threading.RLock()  # another thread may have held it at the fork
        if recorder is not None:
            recorder.forget()
        if self._control is not None:
            self._control.forget()
            self._control = None

    def _close_flow(self) -> None:
        """Write what happened after the last call of each layer, where that was followed."""
        closing = self.flow.closing() if hasattr(self, "flow") else {}
        if closing:
            self._state(**{CLOSING: closing_text(closing)})

    def stop_here(self, frame: FrameType) -> None:
        """Stop at a place that the target's own code names, if an app is there."""
        with self.lock:
            if self._control is None or not self.recording:
                return
            file = Path(frame.f_code.co_filename).name
            where = f"pertdbg.stop() at {file}:{frame.f_lineno}"
            paused = Paused({}, frame=frame, calls_us=True)
            paused.place = f" at line {frame.f_lineno}"
            self._copy_output(self.calls + 1)
            answers = self._answers(self.calls, paused)
            self._control.at_call(self.calls, lambda: [where], answers)

    def _stand_up(self) -> None:
        """Nobody listens any more: take the seat away, so that no app tries to connect."""
        if self._seat is not None:
            give_up(self._seat)

    def _say(self, text: str) -> None:
        if self._progress is not None:
            self._progress(text)

    def _state(self, **values: Any) -> None:
        if self._recorder is None:
            return
        try:
            self._recorder.state(**values)
        except RecordingFailed as error:
            self.failed("writing the recording", error)

    def _copy_output(self, number: int) -> None:
        for output in self._outputs:
            data = output.new()
            if data and self._recorder is not None:
                self._recorder.output(output.stream, number, data)


def _control(config: Config) -> Control | None:
    """Listen for an app, where one is expected or may come."""
    if config.control is None:
        return None
    folder = Path(config.control)
    try:
        return Control(folder, config.key, config.parent, began=config.began, wait=config.wait)
    except OSError as error:
        raise PertdbgError(f"can't listen for the app in {folder}: {error}") from error


def _forget(run: weakref.ref[Run]) -> None:
    """Let a run go in a forked child, if it is still there."""
    found = run()
    if found is not None:
        found.forget()
