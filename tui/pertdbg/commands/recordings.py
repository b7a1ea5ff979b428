"""Commands on recordings: look, take out, check, rescue, pack and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pertdbg.errors import PertdbgError

FILE = click.Path(path_type=Path)
_NEW = click.option("-o", "--output", type=FILE, required=True, help="The file to make.")
_LAYER = click.option("--layer", help="The layer, where several have a call of that number.")


@click.command()
@click.argument("file", type=FILE)
@click.option("--call", type=click.IntRange(min=1), help="The call to show; the last if not given.")
@_LAYER
@click.option("--rank", type=click.IntRange(min=0), help="The rank, where there are several.")
@click.option("--json", "as_json", is_flag=True, help="The record as JSON.")
def show(file: Path, call: int | None, layer: str | None, rank: int | None, as_json: bool) -> None:
    """Show one call of a recording, verdict first."""
    from pertdbg.output.show import show as show_call

    show_call(file, call=call, layer=layer, rank=rank, as_json=as_json)


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
@click.option("-o", "--output", type=FILE, help="Where to write; stdout if not given.")
def export(
    file: Path,
    form: Any,
    role: str | None,
    call: int | None,
    layer: str | None,
    output: Path | None,
) -> None:
    """Write a recording, or a tensor stored in it, for other tools and for people.

    A tensor's file is named .safetensors or .npy.
    """
    if role is not None:
        from pertdbg.output.tensorfile import export_tensor

        if output is None or form is not None:
            raise PertdbgError("--tensor takes -o FILE.safetensors or -o FILE.npy, and no --format")
        export_tensor(file, role, output, call=call, layer=layer)
        return
    if form is None or call is not None or layer is not None:
        raise PertdbgError(
            "export takes --format csv, jsonl or html; --call and --layer go with --tensor ROLE"
        )
    from pertdbg.output.export import export as export_recording

    export_recording(file, form, output)


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
@click.argument("b", type=FILE)
@click.option("--tolerance", type=float, help="Relative difference that counts as the same.")
@click.option("--json", "as_json", is_flag=True, help="The comparison as JSON.")
def diff(a: Path, b: Path, tolerance: float | None, as_json: bool) -> None:
    """Name the first call and fact in which two recordings differ.

    Addresses are compared as relations: who shares storage with whom. The exit status is 0 if
    they are the same, 1 if they differ.
    """
    from pertdbg.output.diff import diff as diff_recordings

    raise SystemExit(diff_recordings(a, b, tolerance=tolerance, as_json=as_json))


ALL = (show, export, verify, salvage, pack, diff)
