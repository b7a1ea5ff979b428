"""The command `ablate`: what each guard of an update is for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pertdbg.errors import PertdbgError
from pertdbg.scriptcommand import adapter_option, given_behind, words_behind

if TYPE_CHECKING:
    from pertdbg.ablation.report import Report


def ablate(find: Callable[[str], Path]) -> click.Command:
    """Make the command `ablate`; `find` turns what a person names into a scenario's file."""

    @click.command("ablate")
    @words_behind
    @click.option("--pairs", is_flag=True, help="Each pair of guards too.")
    @click.option("--explain", is_flag=True, help="The answer in words; takes out pairs too.")
    @click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
    @click.option(
        "--steps",
        type=click.IntRange(min=1),
        help="Number of update calls; for a script 20 if not given.",
    )
    @click.option("--jobs", type=click.IntRange(min=1), help="Runs at once.")
    @adapter_option
    def command(
        target: str,
        arguments: tuple[str, ...],
        module: str | None,
        pairs: bool,
        explain: bool,
        as_json: bool,
        steps: int | None,
        jobs: int | None,
        adapters: tuple[Path, ...],
    ) -> None:
        """Take each guard out of an update in turn, and say what changed.

        TARGET is a scenario, or a script, whose arguments stand behind `--`. Each run is a process
        of its own; no file is changed.
        """
        from pertdbg.ablation.ablate import ablate as take_out
        from pertdbg.ablation.ablate import silent
        from pertdbg.output import ablation
        from pertdbg.output.lines import write_lines

        progress = _progress if sys.stderr.isatty() else silent
        given = given_behind(target, arguments, module)
        if given:
            report = _of_script(given, adapters, steps, jobs, pairs or explain, progress)
        else:
            if arguments or adapters:
                raise PertdbgError("arguments and --adapter are for a script, SCRIPT.py or -m")
            report = take_out(
                find(target),
                steps=steps,
                pairs=pairs or explain,
                jobs=jobs,
                progress=progress,
                conditions=explain or as_json,
            )
        form = ablation.explain if explain else ablation.table
        write_lines(ablation.json_lines(report) if as_json else form(report), sys.stdout)

    return command


def _of_script(
    given: Sequence[str],
    adapters: Sequence[Path],
    steps: int | None,
    jobs: int | None,
    pairs: bool,
    progress: Callable[[int, int], None],
) -> Report:
    from pertdbg.ablation.ablate import ablate_script
    from pertdbg.adapters import adapters as read_adapters
    from pertdbg.target import Script

    script = Script.of(given)  # says in a line what is wrong with what was named
    if script.is_piped:
        raise PertdbgError(f"{given[0]}: a script from a pipe is read once; store it in a file")
    return ablate_script(
        given,
        read_adapters(adapters),
        steps=steps,
        jobs=jobs,
        pairs=pairs,
        progress=progress,
    )


def _progress(done: int, total: int) -> None:
    """Draw the bar on standard error; gone when all runs are done."""
    filled = 40 * done // total
    bar = f"\r\x1b[K[{'#' * filled}{'-' * (40 - filled)}] {done} of {total} runs"
    sys.stderr.write("\r\x1b[K" if done == total else bar)
    sys.stderr.flush()
