"""Starting what the command line asked for: the app on a session, or a recorded run."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pertdbg.agent.config import Config, Durable, Facts
from pertdbg.errors import PertdbgError
from pertdbg.recording.meta import KEPT_AS

if TYPE_CHECKING:
    from pertdbg.conditions import Condition
    from pertdbg.session import Session
    from pertdbg.target import Script


@dataclass(frozen=True)
class Reach:
    """How a recorded run can be reached, and in how many processes it runs."""

    control: str | None = None
    """Name of its control point."""
    wait: bool = False
    """Stop at the first call and wait for an app."""
    ranks: int | None = None
    """Start so many ranks; None for one process, or the one rank that we are."""


def live_session(
    path: Path,
    *,
    steps: int | None,
    facts: Facts,
    command: str,
    stop_when: Sequence[Condition] = (),
) -> Session:
    """Prepare a session on a scenario, after checking its file.

    Raises:
        PertdbgError: The file has errors; the text lists them all.
    """
    from pertdbg.session import LiveSession

    config, title, about = _config(path, Path(), steps, facts, "kill", command)
    session = LiveSession(_stopping(config, stop_when), path.name, title, about)
    session.watches = _stops(path)[1]
    return session


def live_script(
    script: Script,
    *,
    adapters: Sequence[Path],
    facts: Facts,
    command: str,
    stop_when: Sequence[Condition] = (),
) -> Session:
    """Prepare a session on a script.

    Raises:
        PertdbgError: An adapter's file has errors, or the script is not stored in a file.
    """
    if script.is_piped:
        raise PertdbgError(
            f"{script.given[0]}: a script from a pipe can be recorded, but not opened in the app: "
            "its target has no standard input"
        )
    from pertdbg.session import LiveSession

    config = _script_config(script, Path(), adapters, facts, "kill", command)
    config = _stopping(config, stop_when)
    return LiveSession(config, script.name, script.name, script=script)


def live_ranks(
    script: Script,
    ranks: int,
    *,
    adapters: Sequence[Path],
    facts: Facts,
    command: str,
    stop_when: Sequence[Condition] = (),
) -> Session:
    """Prepare a session on a script that runs in many processes.

    Raises:
        PertdbgError: An adapter's file has errors, or the script is not stored in a file.
    """
    from pertdbg.liveranks import LaunchedRanks

    if script.is_piped:
        raise PertdbgError(f"{script.given[0]}: a script from a pipe can't be read by each rank")
    config = _stopping(_script_config(script, Path(), adapters, facts, "kill", command), stop_when)
    return LaunchedRanks(script, config, ranks)


def attached(name: str | None) -> Session:
    """Prepare a session on a target that runs and has a control point.

    Args:
        name: The control point; the only one if not given.

    Raises:
        PertdbgError: There is none, or an app is attached to it.
    """
    from pertdbg.attach import PointSession
    from pertdbg.controlpoint import find, points
    from pertdbg.liveranks import LiveRanks

    there = points()
    if name is None and len(there) != 1:
        if there:
            raise PertdbgError("attach to which one? `pertdbg attach NAME`")
        raise PertdbgError(
            "no running target has a control point; `pertdbg record --control NAME …` makes one"
        )
    point = there[0] if name is None else find(name)
    if point.holder.size > 1:
        return LiveRanks(point.holder.target, point, point.lock())
    if not point.seats:
        raise PertdbgError(f"{point.name}: the target is still starting; try again")
    return PointSession(point, point.lock())


def run_app(session: Session) -> int:
    """Run the app on a session until it is quit; gives the exit status of the command."""
    from pertdbg.app.app import PertdbgApp

    app = PertdbgApp(session)
    app.run()  # closes the session when it goes
    while app.wanted and app.return_code == 0:
        session = _browsed(app.wanted)
        app = PertdbgApp(session)
        app.run()
    ended = session.ended
    if ended is not None and ended.could_not_start:
        raise PertdbgError(ended.text)
    if session.left:
        print(f"pertdbg: {session.left}", file=sys.stderr)  # noqa: T201 - what a person reads
    return app.return_code or 0


def _browsed(name: str) -> Session:
    from pertdbg.scenario.library import find

    return live_session(find(name), steps=None, facts="all", command=f"pertdbg {name}")


def record_scenario(
    path: Path,
    output: Path | None,
    *,
    steps: int | None,
    facts: Facts,
    durable: Durable,
    tensors: str,
    tensor_budget: int,
    command: str,
    lines: bool = False,
    stop_when: Sequence[Condition] = (),
    reach: Reach | None = None,
) -> int:
    """Run a scenario in this process and record it; gives its exit status.

    Raises:
        PertdbgError: The scenario or the place to write is not usable; nothing has run.
    """
    from pertdbg.agent.start import run

    target = _free(path.stem) if output is None else output
    config, _, _ = _config(path, target, steps, facts, durable, command)
    config = replace(config, tensors=tensors, tensor_budget=tensor_budget, lines=lines)
    config = _stopping(config, stop_when)
    if reach is not None and reach.control is not None:
        from pertdbg.ranklaunch import at_point

        config = at_point(reach.control, config, wait=reach.wait)
    progress = _Progress() if sys.stderr.isatty() else None
    status = run(config, progress)
    gc.freeze()  # the interpreter's end need not look through all of torch for cycles
    if progress is not None:
        progress.clear()
    if target.exists():
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
    tensor_budget: int,
    command: str,
    lines: bool = False,
    stop_when: Sequence[Condition] = (),
    reach: Reach | None = None,
) -> NoReturn:
    """Become the script's target: this process goes on as Python running the script.

    With many ranks it goes on as the launcher that starts them.

    Raises:
        PertdbgError: An adapter or the place to write is not usable; nothing has run.
    """
    from pertdbg import ranklaunch

    reach = reach or Reach()
    config = _script_config(script, Path(), adapters, facts, durable, command)
    config = replace(config, tensors=tensors, tensor_budget=tensor_budget, lines=lines)
    config = _stopping(config, stop_when)
    place = ranklaunch.place_of_this_process()
    if reach.ranks is not None:
        prepared = ranklaunch.prepare(script, config, output, reach.ranks)
        if reach.control is not None:
            prepared = ranklaunch.with_point(prepared, reach.control, wait=reach.wait)
        ranklaunch.launch(prepared, reach.ranks)
    if place is not None:
        run = ranklaunch.run_of_this_launcher()
        folder = ranklaunch.folder_for(script.stem, output, run)
        path, meta = ranklaunch.free_in(folder, place.rank), place.meta(run)
    else:
        path, meta = (_free(script.stem) if output is None else output).resolve(), {}
    config = replace(config, recording=str(path), meta={**config.meta, **meta})
    if reach.control is not None:
        config = ranklaunch.at_point(reach.control, config, wait=reach.wait)
    ranklaunch.become(script, config)


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


def scenario_config(path: Path, recording: Path, *, steps: int | None, command: str) -> Config:
    """Prepare a recorded run of a scenario in another process, after checking its file.

    Raises:
        PertdbgError: The file has errors; the text lists them all.
    """
    return _config(path, recording, steps, "all", "kill", command)[0]


def _config(
    path: Path, recording: Path, steps: int | None, facts: Facts, durable: Durable, command: str
) -> tuple[Config, str, str]:
    title, about = _introduction(path)
    from pertdbg.scenario import library

    kept_as = f"scenario {path.stem}" if library.ships(path) else str(path.resolve())
    meta = {"command": command, "target": path.name, "title": title, "about": about}
    config = Config(
        recording=str(recording.resolve()),
        scenario=str(path.resolve()),
        steps=steps,
        facts=facts,
        durable=durable,
        meta={**meta, KEPT_AS: kept_as},
    )
    return _stopping(config, _stops(path)[0]), title, about


def _stops(path: Path) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    """Give the breakpoints and the watches of a scenario that is known to be valid."""
    from pertdbg.scenario import library

    breakpoints, watches = library.stops(path)
    if not breakpoints:
        return (), watches
    from pertdbg.conditions import Condition  # most scenarios have none

    return tuple(map(Condition.of, breakpoints)), watches


def _stopping(config: Config, conditions: Sequence[Condition]) -> Config:
    """Add conditions to those at which a target stops."""
    added = [condition.as_json() for condition in conditions]
    return replace(config, stop_when=[*config.stop_when, *added])


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
        meta={
            "command": command,
            "target": script.name,
            "title": script.name,
            KEPT_AS: script.kept_as,
        },
        adapters=read_adapters(adapters),
    )


def _free(stem: str) -> Path:
    """Find a name that is not taken: a recording is never written over."""
    path, number = Path(f"{stem}.pertdbg"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}.pertdbg")
    return path
