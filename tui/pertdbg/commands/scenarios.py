"""Commands on scenarios: what there is, a file to start from, and what each guard is for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from pertdbg.errors import PertdbgError


@click.group(invoke_without_command=True)
@click.pass_context
def scenarios(ctx: click.Context) -> None:
    """List and show the scenarios that ship; start one of your own."""
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
def show(name: str) -> None:
    """Print the file of a scenario, to read or to start your own from."""
    from pertdbg.scenario.library import find

    click.echo(find(name).read_text(), nl=False)


@scenarios.command("new")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--class", "place", required=True, help="The layer: FILE.py:CLASS, beside FILE.")
def new(file: Path, place: str) -> None:
    """Write a scenario for a layer of yours, to complete by hand."""
    from pertdbg.scenario.new import scenario_for

    text = scenario_for(place, file.absolute().parent)
    try:
        with file.open("x") as out:
            out.write(text)
    except FileExistsError:
        raise PertdbgError(f"{file} exists already: choose another name") from None
    except OSError as error:
        raise PertdbgError(f"cannot write {file}: {error.strerror}") from None
    click.echo(file)


@scenarios.command("schema")
def schema() -> None:
    """Print the JSON schema of scenario files, for editors that check TOML."""
    import json

    from pertdbg.scenario.model import Scenario

    click.echo(json.dumps(Scenario.model_json_schema(), indent=2))


def ablate(find: Callable[[str], Path]) -> click.Command:
    """Make the command `ablate`; `find` turns what a person names into a scenario's file."""

    @click.command("ablate")
    @click.argument("target", default="sift")
    @click.option("--pairs", is_flag=True, help="Each pair of guards too.")
    @click.option("--explain", is_flag=True, help="The answer in words; takes out pairs too.")
    @click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
    @click.option("--steps", type=click.IntRange(min=1), help="Number of update calls.")
    @click.option("--jobs", type=click.IntRange(min=1), help="Runs at once.")
    def command(
        target: str,
        pairs: bool,
        explain: bool,
        as_json: bool,
        steps: int | None,
        jobs: int | None,
    ) -> None:
        """Take each guard out of a scenario's update in turn, and say what changed.

        Each run is a process of its own; no file is changed.
        """
        from pertdbg.ablation.ablate import ablate as take_out
        from pertdbg.ablation.ablate import silent
        from pertdbg.output import ablation
        from pertdbg.output.lines import write_lines

        report = take_out(
            find(target),
            steps=steps,
            pairs=pairs or explain,
            jobs=jobs,
            progress=_progress if sys.stderr.isatty() else silent,
            conditions=explain or as_json,
        )
        form = ablation.explain if explain else ablation.table
        write_lines(ablation.json_lines(report) if as_json else form(report), sys.stdout)

    return command


def _progress(done: int, total: int) -> None:
    """Draw the bar on standard error; gone when all runs are done."""
    filled = 40 * done // total
    bar = f"\r\x1b[K[{'#' * filled}{'-' * (40 - filled)}] {done} of {total} runs"
    sys.stderr.write("\r\x1b[K" if done == total else bar)
    sys.stderr.flush()
