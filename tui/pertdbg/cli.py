"""The command line: a request becomes one call into the program, a mistake becomes one line."""

from __future__ import annotations

import functools
import itertools
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pertdbg.commands import adapters as adapters_command
from pertdbg.commands import recordings, scenarios
from pertdbg.commands.ablate import ablate
from pertdbg.commands.check import check
from pertdbg.errors import PertdbgError
from pertdbg.scriptcommand import (
    TakesScript,
    given_script,
    ranks_option,
    reach_options,
    script_options,
    stop_when_option,
)

if TYPE_CHECKING:
    from pertdbg.conditions import Condition
    from pertdbg.session import Session
    from pertdbg.target import Script

_FACTS = click.Choice(["core", "all"])
_STEPS = click.IntRange(min=1)
_FILE = click.Path(path_type=Path)
_OWN = {"-h", "--help", "--version", "--debug"}


class _DefaultToApp(click.Group):
    """``pertdbg [TARGET]`` opens the app; every other first word is a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the hidden command in front of a target, and of nothing at all."""
        first = next((i for i, arg in enumerate(args) if arg not in _OWN), len(args))
        if not _OWN & set(args[:first]) - {"--debug"} and (
            first == len(args) or args[first] not in self.commands
        ):
            args = [*args[:first], "open", *args[first:]]
        return super().parse_args(ctx, args)


@click.group(cls=_DefaultToApp, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pertdbg", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error of pertdbg.")
def cli(debug: bool) -> None:
    """See what an adversarial perturbation does, one update at a time, forward and back.

    \b
    pertdbg                    the default scenario in the app
    pertdbg NAME|FILE.toml     a scenario that ships, or your own
    pertdbg SCRIPT.py [ARGS]   your script, as `python SCRIPT.py ARGS` runs it; or -m MODULE
    pertdbg FILE.pertdbg       a recording, again and again, without torch; or a folder of ranks
    pertdbg --follow FILE      a recording that another process is writing
    """  # noqa: D301 - what follows the escape keeps its lines in click's help
    del debug  # `main` looks for the flag itself, since it counts where parsing fails too


@cli.command("open", hidden=True, cls=TakesScript)
@click.argument("target", default="sift")
@click.argument("more", nargs=-1)
@click.option("--follow", is_flag=True, help="TARGET is a recording that is being written.")
@click.option("--steps", type=_STEPS, help="Number of update calls, creation included.")
@click.option("--facts", type=_FACTS, default="all", show_default=True, help="How much to record.")
@script_options
@stop_when_option
@ranks_option
@click.pass_context
def open_(
    ctx: click.Context,
    target: str,
    more: tuple[str, ...],
    follow: bool,
    steps: int | None,
    facts: Any,
    python: str | None,
    adapters: tuple[Path, ...],
    stop_when: tuple[Condition, ...],
    ranks: int | None,
) -> None:
    """Open TARGET in the app: a scenario (name or .toml), a script or recordings (.pertdbg).

    Several recordings, or a folder of them, are the ranks of one run.
    """
    from pertdbg.launch import live_ranks, live_script, live_session, run_app

    given = given_script(ctx)
    if given is None:
        _only_for_scripts(python, adapters, ranks)
    script = None if given is None else _script(given, python, steps)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise PertdbgError(
            "the app needs a terminal on stdin and stdout; "
            "without one use `pertdbg record` and `pertdbg show`"
        )
    if script is not None:
        start = live_script if ranks is None else functools.partial(live_ranks, ranks=ranks)
        session = start(
            script, adapters=adapters, facts=facts, command=_command(), stop_when=stop_when
        )
        raise SystemExit(run_app(session))
    recorded = _recorded(target, more, follow=follow)
    if recorded is not None:
        recorded.stop_when(stop_when)
        if steps is not None:
            raise PertdbgError("--steps is for a scenario; a recording has the calls that it has")
        raise SystemExit(run_app(recorded))
    session = live_session(
        _target(target), steps=steps, facts=facts, command=_command(), stop_when=stop_when
    )
    raise SystemExit(run_app(session))


def _recorded(target: str, more: Sequence[str], *, follow: bool) -> Session | None:
    """Open what was or is being recorded; None where the target is something to run."""
    from pertdbg.ranks import follow as follow_recording
    from pertdbg.ranks import open_ranks
    from pertdbg.session import Session

    paths = [Path(target), *map(Path, more)]
    if follow:
        if more:
            raise PertdbgError("--follow takes one recording, or one folder of them")
        return follow_recording(paths[0])
    if more or paths[0].is_dir():
        wrong = [path for path in paths if not path.is_dir() and path.suffix != ".pertdbg"]
        if wrong:
            raise PertdbgError(f"{wrong[0]}: several targets are recordings (.pertdbg) of one run")
        return open_ranks(paths)
    path = _target(target)
    return Session.open(path) if path.suffix == ".pertdbg" else None


def _which_tensors(ctx: click.Context, option: click.Parameter, value: str) -> str:
    every, _, number = value.partition(":")
    if value in ("none", "last", "all") or (every == "every" and number.isdecimal()):
        return value
    raise click.BadParameter(f"{value!r} is none of none, last, every:N, all", ctx, option)


def _tensor_budget(ctx: click.Context, option: click.Parameter, value: str | None) -> int | None:
    from pertdbg.recording import budget

    try:
        return None if value is None else budget.parse(value)
    except PertdbgError as error:
        raise click.BadParameter(str(error), ctx, option) from error


@cli.command(cls=TakesScript)
@click.argument("target", default="sift")
@click.option("-o", "--output", type=_FILE, help="Where to write; NAME.pertdbg if not given.")
@click.option("--steps", type=_STEPS, help="Number of update calls, creation included.")
@click.option("--facts", type=_FACTS, default="all", show_default=True, help="How much to record.")
@click.option(
    "--durable",
    type=click.Choice(["kill", "power"]),
    default="kill",
    show_default=True,
    help="What a record outlives: the target's end; or also a power failure, which loses at most "
    "the last 0.05 s and one flush.",
)
@click.option(
    "--tensors",
    default="none",
    show_default=True,
    metavar="none|last|every:N|all",
    callback=_which_tensors,
    help="Of which calls to store the tensors themselves.",
)
@click.option(
    "--tensor-budget",
    metavar="SIZE",
    callback=_tensor_budget,
    help="Room that stored tensors may take, such as 500MB or 1.5GiB; 2GB if not given. Of the "
    "calls between, some go then; the first, the last and those around faults stay.",
)
@click.option("--lines", is_flag=True, help="Record each call from inside, line by line.")
@script_options
@stop_when_option
@reach_options
@click.pass_context
def record(
    ctx: click.Context,
    target: str,
    output: Path | None,
    steps: int | None,
    facts: Any,
    durable: Any,
    tensors: str,
    tensor_budget: int | None,
    lines: bool,
    python: str | None,
    adapters: tuple[Path, ...],
    stop_when: tuple[Condition, ...],
    control: str | None,
    wait: bool,
    ranks: int | None,
) -> None:
    """Run a scenario or a script without a screen and record it.

    The exit status is the target's own. A scenario: the recording's path is the last line on
    stdout. A script: `record [OPTIONS] SCRIPT ARGS` or `record [OPTIONS] -m MODULE ARGS`; this
    process becomes `python SCRIPT ARGS`, and the path is the last line on stderr. Many ranks,
    by --ranks or under torchrun: a recording each, in a folder.
    """
    from pertdbg.launch import Reach, record_scenario, record_script
    from pertdbg.recording.budget import DEFAULT

    if tensor_budget is not None and tensors == "none":
        raise PertdbgError("--tensor-budget goes with --tensors last, every:N or all")
    if wait and control is None:
        raise PertdbgError("--wait is for --control NAME: without it no app can come")
    shared = {
        "facts": facts,
        "durable": durable,
        "tensors": tensors,
        "tensor_budget": tensor_budget or DEFAULT,
        "lines": lines,
        "command": _command(),
        "stop_when": stop_when,
        "reach": Reach(control, wait, ranks),
    }
    given = given_script(ctx)
    if given is not None:
        script = _script(given, python, steps)
        record_script(script, output, adapters=adapters, **shared)
    _only_for_scripts(python, adapters, ranks)
    path = _target(target)
    if path.suffix == ".pertdbg":
        raise PertdbgError(f"{path}: is a recording already; record takes a scenario or a script")
    raise SystemExit(record_scenario(path, output, steps=steps, **shared))


@cli.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="Say what there is to attach to.")
def attach(name: str | None, listed: bool) -> None:
    """Open the app on a running target, which `record --control NAME` has started.

    Leaving the app (q) leaves the target running. Without NAME: the only one there is; where
    there are more, they are listed.
    """
    from pertdbg.controlpoint import points, state_of
    from pertdbg.launch import attached, run_app

    there = points() if name is None else []
    if listed or len(there) > 1:
        for point in there:
            click.echo(f"{point.name}  {point.holder.target}  {state_of(point)}")
    if listed:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and (name or len(there) == 1):
        raise PertdbgError("the app needs a terminal on stdin and stdout")
    raise SystemExit(run_app(attached(name)))


@cli.command()
def doctor() -> None:
    """Say how this installation stands.

    The exit status is 0 if everything that pertdbg needs is there, else 2.
    """
    from pertdbg.doctor import report

    lines, well = report()
    for line in lines:
        click.echo(line)
    raise SystemExit(0 if well else 2)


def _script(given: Sequence[str], python: str | None, steps: int | None) -> Script:
    from pertdbg.target import Script

    if steps is not None:
        raise PertdbgError("--steps is for a scenario; a script makes the updates that it makes")
    return Script.of(given, python)


def _only_for_scripts(
    python: str | None, adapters: Sequence[Path], ranks: int | None = None
) -> None:
    options = {"--python": python, "--adapter": adapters, "--ranks": ranks}
    for option in (option for option, value in options.items() if value):
        raise PertdbgError(f"{option} is for a script, SCRIPT.py or -m MODULE")


def _target(target: str) -> Path:
    """Find what a person named: a file, or a scenario that ships."""
    path = Path(target)
    if path.suffix in (".toml", ".pertdbg") or path.exists():
        if path.is_dir():
            raise PertdbgError(f"{target}: is a folder; name a script, a scenario or a recording")
        if not path.is_file():
            raise PertdbgError(f"{target}: no such file")
        return path if path.suffix == ".toml" else _as_recording(path)
    from pertdbg.scenario.library import find

    return find(target)


def _scenario(target: str) -> Path:
    path = _target(target)
    if path.suffix != ".toml":
        raise PertdbgError(f"{target}: is not a scenario, a name of one that ships or a .toml file")
    return path


def _as_recording(path: Path) -> Path:
    if path.suffix != ".pertdbg":
        raise PertdbgError(
            f"{path}: neither Python (.py) nor a scenario (.toml) nor a recording (.pertdbg), "
            "by its name"
        )
    return path


for _other in (
    *recordings.ALL,
    scenarios.scenarios,
    ablate(_scenario),
    check(_target, lambda: _command()),
    adapters_command.adapters,
):
    cli.add_command(_other)


def _command() -> str:
    return shlex.join(["pertdbg", *sys.argv[1:]])


def _debugs(words: Sequence[str]) -> bool:
    """Say whether `--debug` stands where it is ours, and not the script's."""
    return "--debug" in itertools.takewhile(_OWN.__contains__, words)


def main() -> None:
    """Run the command line; the console script and ``python -m pertdbg`` begin here."""
    try:
        cli.main(prog_name="pertdbg", standalone_mode=False)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except (PertdbgError, click.ClickException) as error:
        if _debugs(sys.argv[1:]):
            raise
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"pertdbg: {text}", err=True)
        status = 2
    except click.Abort:
        status = 130
    except BrokenPipeError:
        # The reader of our stdout has gone; nothing more can reach it, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    else:
        status = 0
    raise SystemExit(status)
