"""The command line: a request becomes one call into the program, a mistake becomes one line."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from pertdbg.errors import PertdbgError

_FACTS = click.Choice(["core", "all"])
_STEPS = click.IntRange(min=1)
_FILE = click.Path(path_type=Path)


class _DefaultToApp(click.Group):
    """``pertdbg [TARGET]`` opens the app; every other first word is a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the hidden command in front of a target, and of nothing at all."""
        own = {"--help", "--version", "--debug"}
        first = next((i for i, arg in enumerate(args) if arg not in own), len(args))
        if not own & set(args[:first]) - {"--debug"} and (
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
    pertdbg FILE.pertdbg       a recording, again and again, without torch
    """  # noqa: D301 - what follows the escape keeps its lines in click's help
    del debug  # `main` looks for the flag itself, since it counts where parsing fails too


@cli.command("open", hidden=True)
@click.argument("target", default="sift")
@click.option("--steps", type=_STEPS, help="Number of update calls, creation included.")
@click.option("--facts", type=_FACTS, default="all", show_default=True, help="How much to record.")
def open_(target: str, steps: int | None, facts: Any) -> None:
    """Open TARGET in the app: a scenario (name or .toml) or a recording (.pertdbg)."""
    from pertdbg.launch import live_session, run_app

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise PertdbgError(
            "the app needs a terminal on stdin and stdout; "
            "without one use `pertdbg record` and `pertdbg show`"
        )
    path = _target(target)
    if path.suffix == ".pertdbg":
        if steps is not None:
            raise PertdbgError("--steps is for a scenario; a recording has the calls that it has")
        from pertdbg.session import Session

        raise SystemExit(run_app(Session.open(path)))
    raise SystemExit(run_app(live_session(path, steps=steps, facts=facts, command=_command())))


@cli.command()
@click.argument("target", default="sift")
@click.option("-o", "--output", type=_FILE, help="Where to write; NAME.pertdbg if not given.")
@click.option("--steps", type=_STEPS, help="Number of update calls, creation included.")
@click.option("--facts", type=_FACTS, default="all", show_default=True, help="How much to record.")
@click.option(
    "--durable",
    type=click.Choice(["kill", "power"]),
    default="kill",
    show_default=True,
    help="What a record outlives: the target's end, or also a power failure (slower).",
)
def record(target: str, output: Path | None, steps: int | None, facts: Any, durable: Any) -> None:
    """Run a scenario without a screen and record it.

    The recording's path is the last line on stdout; the exit status is the scenario's own.
    """
    from pertdbg.launch import record_scenario

    path = _target(target)
    if path.suffix == ".pertdbg":
        raise PertdbgError(f"{path}: is a recording already; record takes a scenario")
    status = record_scenario(
        path, output, steps=steps, facts=facts, durable=durable, command=_command()
    )
    raise SystemExit(status)


@cli.command()
@click.argument("file", type=_FILE)
@click.option("--call", type=click.IntRange(min=1), help="The call to show; the last if not given.")
@click.option("--layer", help="The layer, where several have a call of that number.")
@click.option("--rank", type=click.IntRange(min=0), help="The rank, where there are several.")
@click.option("--json", "as_json", is_flag=True, help="The record as JSON.")
def show(file: Path, call: int | None, layer: str | None, rank: int | None, as_json: bool) -> None:
    """Show one call of a recording, verdict first."""
    from pertdbg.output.show import show as show_call

    show_call(file, call=call, layer=layer, rank=rank, as_json=as_json)


@cli.command()
@click.argument("file", type=_FILE)
@click.option("--format", "form", type=click.Choice(["csv", "jsonl"]), required=True)
@click.option("-o", "--output", type=_FILE, help="Where to write; stdout if not given.")
def export(file: Path, form: Any, output: Path | None) -> None:
    """Write all calls of a recording for other tools.

    csv: one row a call, every number and flag. jsonl: one record a line, as `show --json`.
    """
    from pertdbg.output.export import export as export_recording

    export_recording(file, form, output)


@cli.group(invoke_without_command=True)
@click.pass_context
def scenarios(ctx: click.Context) -> None:
    """List and show the scenarios that ship."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_)


@scenarios.command("list")
def list_() -> None:
    """List names and titles."""
    from pertdbg.scenario.library import listing

    rows = listing()
    width = max(len(name) for name, _ in rows)
    for name, title in rows:
        click.echo(f"{name:{width}}  {title}")


@scenarios.command("show")
@click.argument("name")
def show_scenario(name: str) -> None:
    """Print the file of a scenario, to read or to start your own from."""
    from pertdbg.scenario.library import find

    click.echo(find(name).read_text(), nl=False)


@scenarios.command("schema")
def schema() -> None:
    """Print the JSON schema of scenario files, for editors that check TOML."""
    import json

    from pertdbg.scenario.model import Scenario

    click.echo(json.dumps(Scenario.model_json_schema(), indent=2))


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


def _target(target: str) -> Path:
    """Find what a person named: a file, or a scenario that ships."""
    path = Path(target)
    if path.suffix == ".py" or target == "-m":
        raise PertdbgError(
            f"{target}: this version debugs scenarios (.toml) and opens recordings (.pertdbg); "
            "a script can be named from a scenario as its model or layer"
        )
    if path.suffix in (".toml", ".pertdbg") or path.exists():
        if not path.is_file():
            raise PertdbgError(f"{target}: no such file")
        return path if path.suffix == ".toml" else _as_recording(path)
    from pertdbg.scenario.library import find

    return find(target)


def _as_recording(path: Path) -> Path:
    if path.suffix != ".pertdbg":
        raise PertdbgError(
            f"{path}: neither a scenario (.toml) nor a recording (.pertdbg), by its name"
        )
    return path


def _command() -> str:
    return shlex.join(["pertdbg", *sys.argv[1:]])


def main() -> None:
    """Run the command line; the console script and ``python -m pertdbg`` begin here."""
    try:
        cli.main(prog_name="pertdbg", standalone_mode=False)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except (PertdbgError, click.ClickException) as error:
        if "--debug" in sys.argv:
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
