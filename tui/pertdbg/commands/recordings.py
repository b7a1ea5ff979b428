"""Commands on recordings: look, take out, check, rescue, pack and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pertdbg.errors import PertdbgError

FILE = click.Path(path_type=Path)
_NEW = click.option("-o", "--output", type=FILE, required=True, help="The file to make.")
_RANK = click.option(
    "--rank", type=click.IntRange(min=0), help="The rank, where FILE is a folder of several."
)
_LAYER = click.option("--layer", help="The layer, where several have a call of that number.")


@click.command()
@click.argument("file", type=FILE)
@click.option("--call", type=click.IntRange(min=1), help="The call to show; the last if not given.")
@_LAYER
@_RANK
@click.option("--json", "as_json", is_flag=True, help="The record as JSON.")
@click.option("--lines", is_flag=True, help="What each line of the call did as well.")
def show(
    file: Path,
    call: int | None,
    layer: str | None,
    rank: int | None,
    as_json: bool,
    lines: bool,
) -> None:
    """Show one call of a recording, or of one in a folder of ranks, verdict first."""
    from pertdbg.output.show import show as show_call

    show_call(file, call=call, layer=layer, rank=rank, as_json=as_json, lines=lines)


@click.command()
@click.argument("file", type=FILE)
@click.argument("condition")
@click.option("--first", is_flag=True, help="Only the first.")
@click.option("--all", "every", is_flag=True, help="All of them, however many.")
@click.option("--json", "as_json", is_flag=True, help="An object a line, as JSON.")
def find(file: Path, condition: str, first: bool, every: bool, as_json: bool) -> None:
    """Find the calls at which a condition holds, in a recording or a folder of ranks.

    CONDITION is an expression over a record, such as `gradient.norm > 1e3`, `not
    tensors.after.delta.is_leaf`, `changed(delta.beyond)`, or a name such as nan-gradient. The exit
    status is 0 if there is such a call, 1 if there is none.
    """
    from pertdbg.output.held import find as find_calls

    if first and every:
        raise PertdbgError("--first and --all exclude each other")
    most = 1 if first else None if every else 20
    raise SystemExit(find_calls(file, condition, most=most, as_json=as_json))


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "html"]),
    help="csv: a row for each call. jsonl: a record a line. html: a report to read.",
)
@click.option("--tensor", "role", help="A stored tensor instead: delta, gradient, input, ...")
@click.option("--call", type=click.IntRange(min=1), help="Whose tensor; the last if not given.")
@_LAYER
@_RANK
@click.option("-o", "--output", type=FILE, help="Where to write; stdout if not given.")
def export(
    file: Path,
    form: Any,
    role: str | None,
    call: int | None,
    layer: str | None,
    rank: int | None,
    output: Path | None,
) -> None:
    """Write a recording, or a tensor stored in it, for other tools and for people.

    Of a folder of ranks, csv and jsonl take all ranks in, one after the other. A tensor's file is
    named .safetensors or .npy.
    """
    if role is not None:
        from pertdbg.output.tensorfile import export_tensor

        if output is None or form is not None:
            raise PertdbgError("--tensor takes -o FILE.safetensors or -o FILE.npy, and no --format")
        export_tensor(file, role, output, call=call, layer=layer, rank=rank)
        return
    if form is None or call is not None or layer is not None:
        raise PertdbgError(
            "export takes --format csv, jsonl or html; --call and --layer go with --tensor ROLE"
        )
    from pertdbg.output.export import export as export_recording

    export_recording(file, form, output, rank=rank)


@click.command()
@click.argument("file", type=FILE)
def verify(file: Path) -> None:
    """Check every part of a recording; 0 if it is sound, 1 if it is damaged."""
    from pertdbg.output.care import verify as verify_recording

    raise SystemExit(verify_recording(file))


@click.command()
@click.argument("file", type=FILE)
@_NEW
def salvage(file: Path, output: Path) -> None:
    """Write a new recording with all that is sound in a damaged one.

    What is missing is said, and marked in the new recording; the exit status is then 1.
    """
    from pertdbg.output.care import salvage as salvage_recording

    raise SystemExit(salvage_recording(file, output))


@click.command()
@click.argument("file", type=FILE)
@_NEW
@click.option("--tensors/--no-tensors", default=True, help="Keep stored tensors, or leave them.")
def pack(file: Path, output: Path, tensors: bool) -> None:
    """Make one compact file of a recording in any state, to send."""
    from pertdbg.output.care import pack as pack_recording

    pack_recording(file, output, tensors=tensors)


@click.command()
@click.argument("a", type=FILE)
@click.argument("b", type=FILE, required=False)
@click.option(
    "--rank",
    "ranks",
    type=click.IntRange(min=0),
    multiple=True,
    help="Of two folders of ranks, only this one; of one folder, give it twice: the two ranks.",
)
@click.option("--tolerance", type=float, help="Relative difference that counts as the same.")
@click.option("--json", "as_json", is_flag=True, help="The comparison as JSON.")
def diff(
    a: Path, b: Path | None, ranks: tuple[int, ...], tolerance: float | None, as_json: bool
) -> None:
    """Name the first call and fact in which two recordings differ.

    Addresses are compared as relations: who shares storage with whom. Folders are compared rank by
    rank. The exit status is 0 if they are the same, 1 if they differ.
    """
    from pertdbg.output.diffranks import diff as diff_recordings

    raise SystemExit(diff_recordings(a, b, ranks, tolerance=tolerance, as_json=as_json))


ALL = (show, find, export, verify, salvage, pack, diff)
