"""The command that lists how loops are found in a script."""

from __future__ import annotations

import click


@click.command()
def adapters() -> None:
    """List the kinds of loop that are found in a script by themselves.

    They are tried in this order. A script in which none matches is told why not at its end.
    """
    from pertdbg.adapters import shipped

    rows = [(str(adapter["name"]), str(adapter["title"])) for adapter in shipped()]
    width = max(len(name) for name, _ in rows)
    for name, title in rows:
        click.echo(f"{name:{width}}  {title}")
