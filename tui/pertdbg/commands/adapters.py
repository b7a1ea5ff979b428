"""The command that lists how loops are found in a script."""

from __future__ import annotations

from pathlib import Path

import click

from pertdbg.errors import PertdbgError

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("target", type=_FILE, required=False)
@click.option(
    "--adapter", "own", type=_FILE, multiple=True, help="One of your own; may be repeated."
)
def adapters(target: Path | None, own: tuple[Path, ...]) -> None:
    """List the kinds of loop that are found in a script by themselves.

    With TARGET, say which of them match it and why not the others: a script (.py), which is read
    and not run, or a recording, which knows what matched as it ran.
    """
    from pertdbg.adapters import shipped

    if target is not None:
        from pertdbg.output.matches import of_target

        for line in of_target(target, own):
            click.echo(line)
        return
    if own:
        raise PertdbgError("--adapter goes with a script")
    rows = [(str(adapter["name"]), str(adapter["title"])) for adapter in shipped()]
    width = max(len(name) for name, _ in rows)
    for name, title in rows:
        click.echo(f"{name:{width}}  {title}")
