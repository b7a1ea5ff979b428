"""Commands on scenarios: what there is, and a file to start from."""

from __future__ import annotations

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
