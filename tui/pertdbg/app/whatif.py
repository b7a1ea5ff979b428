"""Changes to try on a target: which there are, what a run with one shows, and how it is kept.

Everything here blocks, and belongs into a thread of its own.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pertdbg.ablation.host import Runs
from pertdbg.ablation.variant import Target, Variant
from pertdbg.errors import PertdbgError
from pertdbg.guards.model import Guard
from pertdbg.recording.reader import Recording

if TYPE_CHECKING:
    from pertdbg.scenario.model import Scenario

_NUMBERS = (int, float, bool, str)


@dataclass(frozen=True)
class Number:
    """A value of a scenario that can be another one."""

    key: str
    """Dotted key of the scenario."""
    value: Any

    def other(self, text: str) -> Any:
        """Read another value from what a person typed.

        Raises:
            PertdbgError: It is of another kind.
        """
        if isinstance(self.value, str):
            return text.strip().strip("\"'")
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(self.value, float) and type(found) is int:
            found = float(found)
        if type(found) is not type(self.value):
            kinds = {bool: "true or false", int: "a whole number", float: "a number"}
            raise PertdbgError(f"{self.key} takes {kinds[type(self.value)]}")
        return found


@dataclass(frozen=True)
class Change:
    """One change, ready to be run."""

    label: str
    variant: Variant
    guard: Guard | None = None
    was: str = ""
    """The line as it is, where the change is one of a line."""


class WhatIf:
    """Runs a target whole and changed, each time up to the same call."""

    def __init__(self, target: Target, calls: int) -> None:
        """Start the process that runs the variants, and run the target whole.

        Args:
            target: The scenario or script.
            calls: Update calls of each run.

        Raises:
            PertdbgError: It can't be run, or its update has no source.
        """
        self.target, self.calls = target, calls
        self._runs = Runs(target, 1)
        try:
            (whole,) = self._runs.run([Variant(steps=calls)])
            if whole.error is not None:
                raise PertdbgError(whole.error)
            if not target.scenario:
                self._runs.discover(whole)
            self.numbers = list(_numbers(target))
        except BaseException:
            self._runs.close()
            raise

    @property
    def guards(self) -> list[Guard]:
        """The guards of the update and of what it calls."""
        return self._runs.guards

    def without(self, guard: Guard) -> Change:
        """Take a guard out."""
        label = f"without {guard.text} (line {guard.line})"
        return Change(label, Variant((guard.id,), steps=self.calls), guard)

    def value(self, number: Number, other: Any) -> Change:
        """Give a key of the scenario another value."""
        shown = json.dumps(other)
        return Change(
            f"{number.key} = {shown}", Variant(scenario={number.key: other}, steps=self.calls)
        )

    def line(self, number: int, was: str, now: str) -> Change:
        """Put another line into the update method's file."""
        label = f"line {number}: {now.strip()}"
        return Change(label, Variant(lines={number: now}, steps=self.calls), was=was)

    def run(self, change: Change) -> tuple[Recording, Recording]:
        """Run with a change; give the recording of the whole run and that of this one.

        Raises:
            PertdbgError: The change can't be made, or no call came to its end.
        """
        whole = Variant(steps=self.calls)
        seen = self._runs.run([whole, change.variant])[1]
        if seen.error is not None:
            raise PertdbgError(seen.error)
        if not seen.records:
            why = "" if seen.raised is None else f": {seen.raised.type}: {seen.raised.message}"
            raise PertdbgError(f"{change.label}: the run ends before its first call{why}")
        paths = (self._runs.recording(whole), self._runs.recording(change.variant))
        first = Recording.open(paths[0])
        try:
            return first, Recording.open(paths[1])
        except BaseException:
            first.close()
            raise

    def ended(self, change: Change) -> str:
        """Say what ended a run with a change before its last call; nothing where it ran on."""
        (seen,) = self._runs.run([change.variant])
        raised = seen.raised
        return "" if raised is None else f"{raised.type}: {raised.message}"

    def close(self) -> None:
        """End the process and remove the recordings."""
        self._runs.close()


def kept(target: Target, change: Change, base: str) -> str:
    """Write a change as a scenario that is the target but for it.

    Args:
        target: A scenario; changes of a script are no scenarios.
        change: The change.
        base: What the new file is to call the target.
    """
    title = f"{Path(target.scenario).stem}, {change.label}"
    about = f"The scenario {Path(target.scenario).stem} with one change: {change.label}."
    lines = [f"title = {_toml(title)}", f"about = {_toml(about)}", f"base = {_toml(base)}"]
    guard, variant = change.guard, change.variant
    if guard is not None:
        at = f"kind = {_toml(guard.kind)}, line = {guard.line}, file = {_toml(_name(guard.file))}"
        lines.append(f"guards_removed = [{{ {at} }}]")
    for number, now in variant.lines.items():
        said = f"line = {number}, was = {_toml(change.was.strip())}, now = {_toml(now)}"
        lines.append(f"lines = [{{ {said} }}]")
    lines += ["", "[change]", f'"loop.calls" = {variant.steps}']
    lines += [f"{_toml(key)} = {_toml(value)}" for key, value in variant.scenario.items()]
    return "\n".join(lines) + "\n"


def _name(file: str) -> str:
    return Path(file).name


def _toml(value: Any) -> str:
    """Write a value; JSON's texts, numbers and flags are TOML's too."""
    return json.dumps(value, ensure_ascii=False)


def _numbers(target: Target) -> Iterator[Number]:
    """List what a scenario says in numbers, words and flags, defaults included."""
    if not target.scenario:
        return
    from pertdbg.scenario.load import load

    scenario = load(Path(target.scenario))
    arguments = {**_defaults(scenario), **scenario.layer.arguments}
    for name, value in arguments.items():
        if type(value) in _NUMBERS:
            yield Number(f"layer.arguments.{name}", value)
    yield Number("seed", scenario.seed)
    for table in ("model", "loop"):
        for name, value in getattr(scenario, table).model_dump(exclude_none=True).items():
            if type(value) in _NUMBERS and name not in ("calls", "build"):
                yield Number(f"{table}.{name}", value)


def _defaults(scenario: Scenario) -> dict[str, Any]:
    """Read the defaults of the layer's arguments from its text; nothing is imported."""
    home, _, name = scenario.layer.class_.rpartition(":")
    path = scenario.path.parent / home
    if not home.endswith(".py"):
        import pertdbg

        parts = home.split(".")
        path = Path(pertdbg.__file__).parent.joinpath(*parts[1:]).with_suffix(".py")
        if parts[0] != "pertdbg" or not path.is_file():
            return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    made = next((cls for cls in classes if cls.name == name), None)
    for node in [] if made is None else made.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return dict(_constants(node.args))
    return {}


def _constants(arguments: ast.arguments) -> Iterator[tuple[str, Any]]:
    everyone = [*arguments.posonlyargs, *arguments.args]
    with_default = everyone[len(everyone) - len(arguments.defaults) :]
    pairs = [
        *zip(with_default, arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for argument, default in pairs:
        if isinstance(default, ast.Constant):
            yield argument.arg, default.value
