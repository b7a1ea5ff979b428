"""Before and after a block that is recorded: where the recording goes, and what is said of it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pertdbg.agent.config import Config
from pertdbg.agent.mainmodule import status_of
from pertdbg.agent.notice import say
from pertdbg.agent.script import explanation

if TYPE_CHECKING:
    from pertdbg.agent.api import Options


def config_of(path: Path, options: Options) -> Config:
    """Give the config of a block's recording.

    Raises:
        PertdbgError: An adapter's file has errors, or a name or a place can't be used.
    """
    from pertdbg import ranklaunch
    from pertdbg.adapters import adapters as read_adapters  # brings a TOML parser

    name = _name_of_main()
    meta: dict[str, Any] = {"command": _command(), "target": name, "title": name}
    place = ranklaunch.place_of_this_process()
    if place is not None:
        run = ranklaunch.run_of_this_launcher()
        folder = ranklaunch.folder_for(str(path.with_suffix("")), None, run)
        path, meta = ranklaunch.free_in(folder, place.rank), {**meta, **place.meta(run)}
    config = Config(
        recording=str(path),
        facts=options.facts,
        durable=options.durable,
        tensors=options.tensors,
        tensor_budget=options.tensor_budget,
        lines=options.lines,
        meta=meta,
        adapters=read_adapters([Path(file) for file in options.adapters]),
    )
    if options.control is not None:
        config = ranklaunch.at_point(options.control, config, wait=False)
    return replace(config, recording=str(path))


def free(path: Path) -> Path:
    """Give a path, or the next one that is not taken: ``run-2.pertdbg``."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return found


def how_it_ended(error: BaseException | None) -> str:
    """Give the last words of a block."""
    return "" if error is None else status_of(error)[1]


def explain(report: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Say why no update was seen, and take the empty recording away."""
    with contextlib.suppress(OSError):
        path.unlink()
    say(explanation(report, "the block", "name it with pertdbg.watch() or describe it in a file"))


def _name_of_main() -> str:
    """Name what runs: a script by its file, a notebook or an interactive session as that."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    if isinstance(file, str):
        return Path(file).name
    return "notebook" if "ipykernel" in sys.modules else "interactive"


def _command() -> str:
    return shlex.join(sys.orig_argv)
