"""The command `check`: what is wrong with a loop, at which call, and what repairs it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pertdbg.errors import PertdbgError
from pertdbg.scriptcommand import adapter_option, given_behind, python_option, words_behind

if TYPE_CHECKING:
    from pertdbg.findings.report import Report

_FORMS = ("text", "json", "sarif", "github")


def check(find: Callable[[str], Path], command_line: Callable[[], str]) -> click.Command:
    """Make the command `check`.

    Args:
        find: Turns what a person names into a scenario's or a recording's file.
        command_line: Gives the command line, for the recording.
    """

    @click.command("check")
    @words_behind
    @click.option(
        "--format",
        "form",
        type=click.Choice(_FORMS),
        default="text",
        show_default=True,
        help="With json or sarif, stdout holds that alone.",
    )
    @click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "never"]),
        default="warning",
        show_default=True,
        help="Least severity that makes the exit status 1.",
    )
    @click.option("--steps", type=click.IntRange(min=1), help="Update calls; for a scenario.")
    @click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Keep the recording here."
    )
    @python_option
    @adapter_option
    @click.option("--explain", metavar="KIND", help="Show the page of a kind of finding instead.")
    def command(target: str, arguments: tuple[str, ...], **options: Any) -> None:
        """Run TARGET, or read a recording of it, and name what is wrong.

        TARGET is a script, a scenario, a recording, or a folder with those of all ranks. Behind
        `--` stand a script's arguments. The exit status is 0 if nothing is found, 1 if something
        is, 2 if TARGET could not be run or nothing was recorded. A scenario that says what is to
        be observed gives 0 where that was observed.
        """
        from pertdbg.output.lines import write_lines

        if options["explain"] is not None:
            from pertdbg.findings.pages import page

            write_lines(page(options["explain"]).splitlines(), sys.stdout)
            return
        report = _report(target, arguments, find, command_line(), options)
        write_lines(_written(report, options["form"]), sys.stdout)
        raise SystemExit(report.status(options["fail_on"]))

    return command


def _report(
    target: str,
    arguments: Sequence[str],
    find: Callable[[str], Path],
    command_line: str,
    options: dict[str, Any],
) -> Report:
    given = given_behind(target, arguments, options["module"])
    # A folder is one of recordings here, whatever else is in it.
    if options["module"] is not None or (given and not Path(target).is_dir()):
        if options["steps"] is not None:
            raise PertdbgError(
                "--steps is for a scenario; a script makes the updates that it makes"
            )
        return _of_script(given, command_line, options)
    if options["python"] is not None or options["adapters"]:
        raise PertdbgError("--python and --adapter are for a script, SCRIPT.py or -m MODULE")
    paths = [Path(target), *map(Path, arguments)]
    if len(paths) > 1 or paths[0].is_dir():
        wrong = [path for path in paths if not path.is_dir() and path.suffix != ".pertdbg"]
        if wrong:
            raise PertdbgError(
                f"{wrong[0]}: no recording (.pertdbg); a script's arguments stand behind `--`"
            )
        return _of_recordings(paths, target, options)
    path = find(target)
    if path.suffix == ".pertdbg":
        return _of_recordings([path], target, options)
    return _of_scenario(path, target, command_line, options)


def _of_script(given: Sequence[str], command_line: str, options: dict[str, Any]) -> Report:
    from pertdbg.findings.recorded import run_script
    from pertdbg.target import Script

    script = Script.of(given, options["python"])
    with _Place(options["output"]) as place:
        ran = run_script(
            script,
            place.recording,
            adapters=options["adapters"],
            command=command_line,
            aside=options["form"] in ("json", "sarif"),
        )
        return _of_run(ran.recording, script.name, ran.exit_status)


def _of_scenario(path: Path, target: str, command_line: str, options: dict[str, Any]) -> Report:
    from pertdbg.findings.recorded import run_scenario
    from pertdbg.recording.reader import Recording
    from pertdbg.scenario.expect import evaluate
    from pertdbg.scenario.load import load

    with _Place(options["output"]) as place:
        ran = run_scenario(path, place.recording, steps=options["steps"], command=command_line)
        expectations = load(path).expect
        outcomes = None
        if expectations and options["steps"] is None and place.recording.exists():
            with Recording.open(place.recording) as recording:
                outcomes = evaluate(expectations, recording)
        return _of_run(ran.recording, target, ran.exit_status, outcomes)


def _of_run(recording: Path, target: str, exit_status: int, outcomes: Any = None) -> Report:
    from pertdbg.findings.engine import check_paths
    from pertdbg.findings.report import Report

    if not recording.exists():
        raise PertdbgError(f"{target}: could not be run, or nothing was recorded")
    checked = check_paths([recording])
    if not checked.calls:
        raise PertdbgError(f"{target}: no update of a perturbation was seen, so nothing is checked")
    return Report(target, checked.findings, checked.calls, exit_status, outcomes, checked.problems)


def _of_recordings(paths: Sequence[Path], target: str, options: dict[str, Any]) -> Report:
    from pertdbg.findings.engine import check_paths
    from pertdbg.findings.report import Report

    if options["steps"] is not None or options["output"] is not None:
        raise PertdbgError("--steps and -o are for what is run; a recording is there already")
    checked = check_paths(paths)
    statuses = [meta.exit_status for meta in checked.metas]
    worst = max((status for status in statuses if status is not None), default=None)
    return Report(target, checked.findings, checked.calls, worst, None, checked.problems)


class _Place:
    """Where a run is recorded: in a private folder that goes again, or where a person wants it."""

    def __init__(self, output: Path | None) -> None:
        self._output = output
        self._folder = tempfile.TemporaryDirectory(prefix="pertdbg-check-")
        self.recording = Path(self._folder.name) / "checked.pertdbg"

    def __enter__(self) -> _Place:
        if self._output is not None and self._output.exists():
            self._folder.cleanup()
            raise PertdbgError(f"{self._output} exists already: choose another name")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._output is not None and self.recording.exists():
                _keep(self.recording, self._output)
        finally:
            self._folder.cleanup()


def _keep(recording: Path, output: Path) -> None:
    import shutil

    try:
        shutil.copyfile(recording, output)
    except OSError as error:
        raise PertdbgError(f"cannot write {output}: {error.strerror}") from error


def _written(report: Report, form: str) -> list[str]:
    if form == "sarif":
        from pertdbg.output.sarif import as_sarif

        return as_sarif(report)
    from pertdbg.output import findings

    return {"json": findings.as_json, "github": findings.as_github, "text": findings.as_text}[form](
        report
    )
