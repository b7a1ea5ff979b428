"""What a person's own code calls: record a block of it, name what to watch, stop here."""

from __future__ import annotations

import atexit
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pertdbg.agent import active
from pertdbg.agent.reraise import going_on
from pertdbg.errors import PertdbgError
from pertdbg.recording import budget

if TYPE_CHECKING:
    from pertdbg.agent.naming import Given, Named

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_asked: list[Named] = []
"""What is to be watched in every recording of this process, the newest last."""


@dataclass(frozen=True)
class Options:
    """What `record` takes beside the path; the same as on the command line."""

    facts: Literal["core", "all"] = "all"
    tensors: str = "none"
    tensor_budget: int = budget.DEFAULT
    durable: Literal["kill", "power"] = "kill"
    lines: bool = False
    adapters: tuple[str | Path, ...] = ()
    control: str | None = None


def record(
    path: str | Path,
    *,
    facts: Literal["core", "all"] = "all",
    tensors: str = "none",
    tensor_budget: int | str = budget.DEFAULT,
    durable: Literal["kill", "power"] = "kill",
    lines: bool = False,
    adapters: Iterable[str | Path] = (),
    control: str | None = None,
) -> Block:
    """Record what runs in a block, or in each call of a function.

    ``with pertdbg.record("run.pertdbg"): train()``, or ``@pertdbg.record("run.pertdbg")`` before
    a function, of which a second call then makes ``run-2.pertdbg``. Where the whole process is
    recorded already, by `pertdbg record` or in the app, the block is a part of that.

    Args:
        path: The recording to make. Of several ranks each makes its own, in a folder ``run.ranks``.
        facts: How much to record: `core` keeps flags, pointers and the cheapest numbers.
        tensors: Of which calls to store the tensors themselves: `none`, `last`, `every:N`, `all`.
        tensor_budget: Bytes that these may take, or a size such as `500MB`.
        durable: What a record outlives: the process (`kill`), or also a failure of power.
        lines: Record each call from inside, line by line.
        adapters: Files that describe perturbations of your own (TOML).
        control: Listen under this name for `pertdbg attach`.

    Raises:
        PertdbgError: An option is not one of these.
    """
    if facts not in ("core", "all"):
        raise PertdbgError(f"facts={facts!r}: is neither 'core' nor 'all'")
    if durable not in ("kill", "power"):
        raise PertdbgError(f"durable={durable!r}: is neither 'kill' nor 'power'")
    room = budget.parse(str(tensor_budget))
    own = Options(facts, tensors, room, durable, lines, tuple(adapters), control)
    return Block(Path(path), own)


class Block:
    """A block of code that is recorded while it runs."""

    def __init__(self, path: Path, options: Options) -> None:
        """Prepare; nothing is made or changed before the block begins."""
        self.path = path.absolute()
        """The recording."""
        self.calls = 0
        """Records that were written, once the block has ended."""
        self._options = options
        self._active: active.Active | None = None
        self._frame: types.FrameType | None = None

    def __enter__(self) -> Block:
        """Begin to record.

        Raises:
            PertdbgError: Another block is recorded in this process, or the recording can't be made.
        """
        from pertdbg.agent.notice import say

        with active.lock:
            other = active.current()
            if other is not None and other.whole:
                say(f"this process is recorded already, in {other.path}: the block is a part of it")
                return self
            if other is not None:
                raise PertdbgError(
                    f"a block is recorded already, in {other.path}: "
                    "there can be one at a time in a process"
                )
            self._active = self._begin()
        # Of a block that nobody leaves, as in a session typed by hand: before modules are gone.
        atexit.register(self.__exit__, None, None, None)
        finder = self._active.finder
        if finder is not None:
            self._frame = sys._getframe(1)
            finder.join(self._frame)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        """End the recording; an exception is noted in it, and goes on unchanged."""
        atexit.unregister(self.__exit__)
        now, self._active = self._active, None
        frame, self._frame = self._frame, None
        if now is None or active.current() is not now:  # a part of another one; a forked child
            return
        try:
            self._end(now, frame, error, trace)
        finally:
            with active.lock:
                active.end()

    def __call__(self, function: F) -> F:
        """Record each call of a function.

        Raises:
            PertdbgError: It is a generator or a coroutine, which runs after its call.
        """
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            name = getattr(function, "__qualname__", "it")
            raise PertdbgError(
                f"{name}: is a generator or a coroutine, which runs after it was called; "
                "use `with pertdbg.record(...)` inside"
            )

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            from pertdbg.agent.startblock import free

            try:
                with Block(free(self.path), self._options) as block:
                    result = function(*args, **kwargs)
            except BaseException as error:
                if error.__traceback__ is not None:
                    going_on(error, error.__traceback__.tb_next)
                raise
            self.calls = block.calls
            return result

        return recorded  # type: ignore[return-value]

    def _begin(self) -> active.Active:
        from pertdbg.agent.finder import watch_everything
        from pertdbg.agent.script import ScriptRun
        from pertdbg.agent.startblock import config_of

        config = config_of(self.path, self._options)
        self.path = Path(config.recording)
        run = ScriptRun(config)
        finder = None
        try:
            finder = watch_everything(run, config.adapters)
            for named in _asked:
                finder.watch(named)
        except BaseException:
            if finder is not None:
                finder.remove()
            run.end(None, "")
            run.remove()
            raise
        return active.begin(run, finder, config.recording, whole=False)

    def _end(
        self,
        now: active.Active,
        frame: types.FrameType | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        from pertdbg.agent.startblock import explain, how_it_ended

        run, finder = now.run, now.finder
        report = []
        if finder is not None:
            if frame is not None:
                finder.leave(frame, error)
            report = finder.report()
            finder.remove()
        run.matched(report)
        if error is not None and not isinstance(error, SystemExit):
            run.raised(error, trace)
        run.end(None, how_it_ended(error))
        run.remove()
        self.calls = run.calls
        if not self.calls:
            explain(report, self.path)


def watch(layer_or_class: T, adapter: Given = None) -> T:
    """Watch a layer, or every layer of a class, in this recording and in those to come.

    What fits a shipped adapter is found without this. It can stand before a class as a decorator.

    Args:
        layer_or_class: An object, or a class, whose method moves delta.
        adapter: Where things stand: None to choose among the shipped adapters, the name of one
            of them, a TOML file, or a mapping with ``method``, ``delta``, ``input``,
            ``perturbed_input`` and, where there are any, ``bound``, ``bound_kind`` and
            ``learning_rate``.

    Returns:
        What was given.

    Raises:
        PertdbgError: No adapter fits.
    """
    from pertdbg.agent.naming import named

    found = named(layer_or_class, adapter)
    _asked[:] = [*(one for one in _asked if not one.is_same(found)), found]
    now = active.current()
    if now is not None and now.finder is not None:
        now.finder.watch(found)
    return layer_or_class


def stop() -> None:
    """Stop here, if an app is there to look: a breakpoint. Else nothing happens."""
    now = active.current()
    if now is not None:
        now.run.stop_here(sys._getframe(1))
