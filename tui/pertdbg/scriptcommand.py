"""Commands whose target may be a script: which words are ours, and which are the script's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pertdbg.conditions import Condition

F = TypeVar("F", bound=Callable[..., Any])

_GIVEN = "pertdbg.given"
"""Key of the context's notes: the script, or `-m` and the module, and what stands behind it."""


class TakesScript(click.Command):
    """A command whose target may be a script: our options end there, and the script's begin."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut the command line at the script, if it names one."""
        place = self._place_of_target(ctx, args)
        if place is not None and _begins_script(args[place]):
            ctx.meta[_GIVEN] = args[place:]
            ours = args[:place] if args[place - 1 : place] != ["--"] else args[: place - 1]
            args = [*ours, "--", args[place]]
        return super().parse_args(ctx, args)

    def _place_of_target(self, ctx: click.Context, args: list[str]) -> int | None:
        valued = {
            word
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag
            for word in option.opts
        }
        place = 0
        while place < len(args):
            word = args[place]
            if word == "--":
                return place + 1 if place + 1 < len(args) else None
            if word == "-" or not word.startswith("-") or word.startswith("-m"):
                return place
            place += 2 if word in valued else 1
        return None


def given_script(ctx: click.Context) -> Sequence[str] | None:
    """Give the script, or `-m` and the module, and its arguments; None if there is no script."""
    given: list[str] | None = ctx.meta.get(_GIVEN)
    return given


def script_options(command: F) -> F:
    """Add the options that only a script takes."""
    return adapter_option(python_option(command))


def python_option(command: F) -> F:
    """Add the option that names the interpreter."""
    return click.option("--python", metavar="PATH", help="The interpreter; for a script.")(command)


def adapter_option(command: F) -> F:
    """Add the option that names adapters."""
    return click.option(
        "--adapter",
        "adapters",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="FILE",
        help="Describes a perturbation of your own (TOML); for a script, may be repeated.",
    )(command)


def words_behind(command: F) -> F:
    """Add TARGET, what stands behind it, and `-m`, where a script's arguments follow `--`."""
    target = click.argument("target", default="sift")
    arguments = click.argument("arguments", nargs=-1)
    module = click.option("-m", "module", metavar="MODULE", help="A module in the place of TARGET.")
    return target(arguments(module(command)))


def given_behind(target: str, arguments: Sequence[str], module: str | None) -> list[str]:
    """Give what stands behind ``python`` on a command line; nothing where it is no script.

    For the commands whose words are those of `words_behind`.
    """
    from pertdbg.target import is_script

    if module is not None:
        named = click.get_current_context().get_parameter_source("target")
        behind = [target] if named is click.core.ParameterSource.COMMANDLINE else []
        return ["-m", module, *behind, *arguments]
    return [target, *arguments] if is_script(target) else []


def stop_when_option(command: F) -> F:
    """Add the option that names conditions at which to stop."""
    return click.option(
        "--stop-when",
        "stop_when",
        multiple=True,
        metavar="EXPR",
        callback=_conditions,
        help="Stop where this holds: gradient.norm > 1e3, nan-gradient, 'changed(delta.beyond); "
        "after 3 hits; skip 2; layer NAME; rank 0'. A recorded run marks the calls. "
        "May be repeated.",
    )(command)


def _conditions(
    ctx: click.Context, option: click.Parameter, lines: tuple[str, ...]
) -> tuple[Condition, ...]:
    del ctx, option  # the error names the expression
    if not lines:
        return ()
    from pertdbg.conditions import Condition  # most runs have none

    return tuple(map(Condition.of, lines))


def reach_options(command: F) -> F:
    """Add the options of a recorded run that can be attached to, or has many ranks."""
    control = click.option(
        "--control", metavar="NAME", help="Let `pertdbg attach NAME` open the app on it."
    )
    wait = click.option(
        "--wait", is_flag=True, help="With --control: stop at the first call for the app."
    )
    return control(wait(ranks_option(command)))


def ranks_option(command: F) -> F:
    """Add the option that runs a script in many processes."""
    return click.option(
        "--ranks",
        type=click.IntRange(min=1),
        metavar="N",
        help="Run a script in N processes, by torch.distributed.run; a recording each.",
    )(command)


def _begins_script(word: str) -> bool:
    from pertdbg.target import is_script

    return word.startswith("-m") or is_script(word)
