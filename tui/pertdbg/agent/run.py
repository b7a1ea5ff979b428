"""One observed run of a target: its recording, its control socket and what all watches share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pertdbg.agent.backwards import BackwardCounter
from pertdbg.agent.config import Config
from pertdbg.agent.control import Control
from pertdbg.agent.notice import say
from pertdbg.agent.output import outputs
from pertdbg.record import CallRecord
from pertdbg.recording import HeatMap, LayerSource
from pertdbg.recording.writer import Recorder, RecordingFailed

if TYPE_CHECKING:
    from pertdbg.agent.adapter import Adapter
    from pertdbg.agent.tensorcopy import TensorCopy
    from pertdbg.agent.watch import Watch

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
        self._progress = progress
        self._watches: list[Watch] = []
        recorder = Recorder(
            Path(config.recording), config.meta, durable=config.durable, tensors=config.tensors
        )
        self._recorder: Recorder | None = recorder
        self._started_ns = recorder.started_ns
        self._control = (
            Control(Path(config.control), config.key, config.parent) if config.control else None
        )
        self._outputs = outputs(stdout=config.stdout, stderr=config.stderr)
        self.lock = threading.RLock()
        """Held while a call is recorded and stopped at, so that threads come one by one."""
        self.calls = 0
        """Records written; the id of the newest."""
        self.rank = 0
        self.backwards = BackwardCounter()
        os.register_at_fork(after_in_child=self.forget)

    @property
    def recording(self) -> bool:
        """Whether records are still written."""
        return self._recorder is not None

    def seconds(self) -> float:
        """Time since the run began."""
        return (time.monotonic_ns() - self._started_ns) * 1e-9

    def ready(self, torch_version: str) -> None:
        """Begin to observe, now that torch is there."""
        from pertdbg.agent.probe import Probe

        self._state(torch=torch_version)
        self.probe = Probe(facts=self._facts)
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
    ) -> None:
        """Write a record, what the target printed before it, and stop if asked to."""
        with self.lock:
            if self._recorder is None:
                return
            self.calls = record.id
            try:
                if record.id == 1:
                    self._recorder.state(state="running", loading="")
                self._copy_output(record.id)
                self._recorder.write(record, picture)
                for role, copy in tensors.items():
                    self._recorder.tensor(record.id, role, copy.dtype, copy.shape, copy.data)
            except RecordingFailed as error:
                self.failed("writing the recording", error)
                return
        self._say(f"call {record.id}")
        if self._control is not None:
            self._control.at_call(record.id)

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

    def end(self, status: int | None, text: str) -> None:
        """Write how the target ended and close the recording; the status may not be known."""
        with self.lock:
            try:
                self._copy_output(self.calls + 1)
                self._state(state="ended", exit_status=status, exit_text=text)
                if self._recorder is not None:
                    self._recorder.close()
                    self._recorder = None
            except RecordingFailed as error:
                self.failed("closing the recording", error)
        if self._control is not None:
            self._control.done(status, text)

    def forget(self) -> None:
        """In a forked child: neither record nor listen; the parent's file is left alone."""
        recorder, self._recorder = self._recorder, None
        self.lock = threading.RLock()  # another thread may have held it at the fork
        if recorder is not None:
            recorder.forget()
        if self._control is not None:
            self._control.forget()
            self._control = None

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
