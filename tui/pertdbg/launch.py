"""Starting what the command line asked for: the app on a session, or a recorded run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pertdbg.agent.config import Config, Durable, Facts
from pertdbg.errors import PertdbgError
from pertdbg.session import LiveSession, Session

if TYPE_CHECKING:
    from pertdbg.target import Script


def live_session(path: Path, *, steps: int | None, facts: Facts, command: str) -> Session:
    """Prepare a session on a scenario, after checking its file.

    Raises:
        PertdbgError: The file has errors; the text lists them all.
    """
    config, title, about = _config(path, Path(), steps, facts, "kill", command)
    return LiveSession(config, path.name, title, about)


def live_script(script: Script, *, adapters: Sequence[Path], facts: Facts, command: str) -> Session:
    """Prepare a session on a script.

    Raises:
        PertdbgError: An adapter's file has errors, or the script is not stored in a file.
    """
    if script.is_piped:
        raise PertdbgError(
            f"{script.given[0]}: a script from a pipe can be recorded, but not opened in the app: "
            "its target has no standard input"
        )
    config = _script_config(script, Path(), adapters, facts, "kill", command)
    return LiveSession(config, script.name, script.name, script=script)


def run_app(session: Session) -> int:
    """Run the app on a session until it is quit; gives the exit status of the command."""
    from pertdbg.app.app import PertdbgApp

    app = PertdbgApp(session)
    app.run()  # closes the session when it goes
    ended = session.ended
    if ended is not None and ended.could_not_start:
        raise PertdbgError(ended.text)
    return app.return_code or 0


def record_scenario(
    path: Path,
    output: Path | None,
    *,
    steps: int | None,
    facts: Facts,
    durable: Durable,
    tensors: str,
    command: str,
) -> int:
    """Run a scenario in this process and record it; gives its exit status.

    Raises:
        PertdbgError: The scenario or the place to write is not usable; nothing has run.
    """
    from pertdbg.agent.start import run

    target = _free(path.stem) if output is None else output
    config, _, _ = _config(path, target, steps, facts, durable, command)
    config = replace(config, tensors=tensors)
    progress = _Progress() if sys.stderr.isatty() else None
    status = run(config, progress)
    if progress is not None:
        progress.clear()
    print(target.resolve(), flush=True)  # noqa: T201 - the contract of `record`
    return status


def record_script(
    script: Script,
    output: Path | None,
    *,
    adapters: Sequence[Path],
    facts: Facts,
    durable: Durable,
    tensors: str,
    command: str,
) -> NoReturn:
    """Become the script's target: this process goes on as Python running the script.

    Raises:
        PertdbgError: An adapter or the place to write is not usable; nothing has run.
    """
    path = _free(script.stem) if output is None else output
    config = _script_config(script, path, adapters, facts, durable, command)
    config = replace(config, tensors=tensors)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(script.python, script.command(), script.environment(config))  # noqa: S606
    except OSError as error:
        raise PertdbgError(f"{script.python}: can't be run: {error.strerror}") from error


class _Progress:
    """One line on the terminal that says how far a recorded run is."""

    def __call__(self, text: str) -> None:
        """Replace the line."""
        sys.stderr.write(f"\r\x1b[Kpertdbg: {text}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _config(
    path: Path, recording: Path, steps: int | None, facts: Facts, durable: Durable, command: str
) -> tuple[Config, str, str]:
    title, about = _introduction(path)
    meta = {"command": command, "target": path.name, "title": title, "about": about}
    config = Config(
        recording=str(recording.resolve()),
        scenario=str(path.resolve()),
        steps=steps,
        facts=facts,
        durable=durable,
        meta=meta,
    )
    return config, title, about


def _introduction(path: Path) -> tuple[str, str]:
    """Give title and `about` of a scenario, after checking the file of one that doesn't ship."""
    from pertdbg.scenario import library

    if library.ships(path):
        return library.introduction(path)
    from pertdbg.scenario.load import load  # brings pydantic: half of the time to the first frame

    scenario = load(path)
    return scenario.title, scenario.about


def _script_config(
    script: Script,
    recording: Path,
    adapters: Sequence[Path],
    facts: Facts,
    durable: Durable,
    command: str,
) -> Config:
    from pertdbg.adapters import adapters as read_adapters  # brings a TOML parser

    return Config(
        recording=str(recording.resolve()),
        facts=facts,
        durable=durable,
        meta={"command": command, "target": script.name, "title": script.name},
        adapters=read_adapters(adapters),
    )


def _free(stem: str) -> Path:
    """Find a name that is not taken: a recording is never written over."""
    path, number = Path(f"{stem}.pertdbg"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}.pertdbg")
    return path
