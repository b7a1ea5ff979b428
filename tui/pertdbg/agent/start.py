"""Running a scenario under the agent: from the config to the target's exit status."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable
from pathlib import Path

from pertdbg.agent.config import Config
from pertdbg.agent.mainmodule import status_of
from pertdbg.agent.notice import say
from pertdbg.agent.postmortem import without_ours
from pertdbg.agent.run import Run
from pertdbg.errors import PertdbgError

Progress = Callable[[str], None]


def run(config: Config, progress: Progress | None = None) -> int:
    """Run the scenario in this process and record it.

    What the scenario raises is shown as Python shows it, without frames of ours.

    Args:
        config: What to run and where to record.
        progress: Called with a few words while loading and after each call.

    Returns:
        The exit status that the scenario would have as a script; 2 where it could not start.

    Raises:
        PertdbgError: The recording can't be made; nothing has run.
    """
    observed = Run(config, progress)
    try:
        status, text = _outcome(lambda: _perform(config, observed), observed)
        observed.end(status, text)
    finally:
        observed.remove()
    if status == 2 and observed.calls == 0:
        with contextlib.suppress(OSError):
            Path(config.recording).unlink()
    return status


def _perform(config: Config, observed: Run) -> None:
    observed.loading("importing torch")
    gc.disable()  # nothing that an import makes is garbage, and to look for it takes time
    import torch

    from pertdbg.scenario.run import prepare

    gc.enable()

    observed.ready(torch.__version__)
    observed.flow.install()
    prepared = prepare(Path(config.scenario), config.steps, observed.loading)
    observed.watch(prepared.layer_class, prepared.adapter)
    observed.loading("waiting for the first call")
    prepared.run()


def _outcome(perform: Callable[[], None], observed: Run) -> tuple[int, str]:
    """Run and tell how it ended: an exit status and the last words."""
    try:
        perform()
    except PertdbgError as error:
        say(str(error))
        return 2, str(error)
    except SystemExit as stop:
        if not isinstance(stop.code, int | None):
            sys.stderr.write(f"{stop.code}\n")
        return status_of(stop)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does at a script's end
        observed.raised(error, error.__traceback__)
        _show(error)
        return status_of(error)
    return 0, ""


def _show(error: BaseException) -> None:
    """Show the traceback through `sys.excepthook`, which the target may have set."""
    error.__traceback__ = without_ours(error.__traceback__)
    sys.excepthook(type(error), error, error.__traceback__)
