"""The agent in a script's target: armed before the script's first line, gone after its last."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pertdbg.agent import active
from pertdbg.agent.config import Config
from pertdbg.agent.control import LOW_DESCRIPTORS
from pertdbg.agent.finder import Finder, watch_everything
from pertdbg.agent.mainmodule import MainModule
from pertdbg.agent.notice import NOTHING, say
from pertdbg.agent.run import Run
from pertdbg.errors import PertdbgError


class ScriptRun(Run):
    """The run of a script, which loads what it likes when it likes."""

    def ready(self, torch_version: str) -> None:
        """Begin to observe, now that the script has imported torch."""
        super().ready(torch_version)
        self.loading("waiting for the first update")


def begin(text: str, known: frozenset[str]) -> Config:
    """Arm the agent for the script that Python is about to run.

    Args:
        text: The config, as JSON.
        known: Modules that were there before any of ours.
    """
    config = Config.of(text)
    _restore("PYTHONPATH", config.pythonpath)
    try:
        with _high_descriptors():
            run = ScriptRun(config)
            run.loading("starting the script")  # SQLite opens its journal at the first write
    except PertdbgError as error:
        _give_up(str(error))
    finder = watch_everything(run, config.adapters)
    active.begin(run, finder, config.recording, whole=True)
    main = MainModule(run.raised)
    main.install()
    end = _End(config, run, finder, main)
    atexit.register(end)  # the first that is registered is the last that runs
    os.register_at_fork(after_in_child=end.forget)
    if config.stdout is not None:
        _by_line(sys.stdout)
    _make_room(config.first_path, known)
    return config


class _End:
    """What is left to do when the script, its threads and its own exit functions are through."""

    def __init__(self, config: Config, run: Run, finder: Finder, main: MainModule) -> None:
        self._config, self._run, self._main = config, run, main
        self._finder: Finder | None = finder

    def forget(self) -> None:
        """In a forked child: take everything out, and say nothing at its end."""
        finder, self._finder = self._finder, None
        if finder is not None:
            finder.remove()

    def __call__(self) -> None:
        if self._finder is None:
            return
        status, text = self._main.outcome()
        report = self._finder.report()
        self._finder.remove()
        self._run.matched(report)
        self._run.end(status, text)
        for stream in (sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):  # Python tries again, and says what is wrong
                if stream is not None:
                    stream.flush()
        if self._run.calls:
            self._say_where()
        else:
            self._explain(report)

    def _say_where(self) -> None:
        if not self._config.parent:
            calls = f"{self._run.calls} call{'' if self._run.calls == 1 else 's'}"
            say(f"{calls} recorded in {self._config.recording}")

    def _explain(self, report: Sequence[Mapping[str, Any]]) -> None:
        if not self._config.parent:
            with contextlib.suppress(OSError):
                Path(self._config.recording).unlink()
        if self._main.started:
            say(explanation(report))


def explanation(
    report: Sequence[Mapping[str, Any]],
    what: str = "the script",
    how: str = "describe it with --adapter FILE",
) -> str:
    """Say why no update was seen: what was looked for, and how to name another.

    Args:
        report: What the finder reports.
        what: What ran.
        how: How to have another one looked for.
    """
    if "torch" not in sys.modules:
        return f"{NOTHING}: {what} did not import torch (in this process)"
    adapters: dict[str, list[str]] = {}
    for entry in report:
        why = entry["why_not"] or f"found {', '.join(entry['matched'])}, which was not called"
        adapters.setdefault(why, []).append(entry["adapter"])
    lines = [f"{NOTHING}: no update of a perturbation was seen. Looked for:"]
    lines += [f"  {', '.join(names)}: {why}" for why, names in adapters.items()]
    return "\n".join([*lines, f"  To have another one looked for, {how}."])


def _give_up(text: str) -> NoReturn:
    """End before the script has begun. `SystemExit` would be a fatal error at this moment."""
    say(text)
    os._exit(2)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@contextlib.contextmanager
def _high_descriptors() -> Iterator[None]:
    """Let what is opened inside have high file descriptors.

    A script that closes the low ones and opens its own in their place must not meet ours there.
    """
    taken: list[int] = []
    with contextlib.suppress(OSError):  # the limit is lower than that
        while not taken or taken[-1] < LOW_DESCRIPTORS:
            taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        taken.pop()
    try:
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)


def _by_line(stream: Any) -> None:
    """Show the output as it comes, as on a terminal: the app follows the file."""
    with contextlib.suppress(Exception):  # whatever stands there, it is the script's
        stream.reconfigure(line_buffering=True)


def _make_room(folder: str | None, known: frozenset[str]) -> None:
    """Forget those modules of ours that a file of the script's own would hide from it.

    The agent has imported much of the standard library by now. A `queue.py` beside the script
    must be found as it would be without us.
    """
    if folder is None or getattr(sys.flags, "safe_path", False):
        return
    hidden = {name for name in _tops(sys.modules.keys() - known) if _is_in(Path(folder), name)}
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[name]


def _tops(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names} - {"pertdbg"}


def _is_in(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
