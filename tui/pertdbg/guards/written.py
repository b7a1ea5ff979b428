"""Functions as they are written in a file: found by their place, whether they were imported or not.

For a script the guards are found by the process that asks, from the text alone; the script's own
process compiles the text without them. A function that Python made from a file and the one that is
found here are the same tree, so that the number of a node means the same in both.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.guards.model import Guard
from pertdbg.guards.remove import rewrite
from pertdbg.guards.source import NoSource, first_line_of, functions_in
from pertdbg.guards.syntax import FunctionNode, dotted

MODULE = "<module>"
"""Name of what stands outside of every function of a file."""


@dataclass(frozen=True)
class Written:
    """A function, or the code of a file outside of all functions, as it is written."""

    node: FunctionNode
    lines: list[str]
    """All lines of its file."""
    classes: tuple[str, ...]
    """Names of the classes that it is defined in, the outermost first."""
    name: str
    """Its name behind those of its classes."""
    file: str

    @property
    def key(self) -> tuple[str, int, str]:
        """What tells it from all others."""
        return self.file, self.node.lineno, self.name


def written_at(file: str, line: int, siblings: Collection[str] = ()) -> list[Written]:
    """Find the function at a place, and what it calls in its file.

    That is methods that it calls on its first argument or ``super()``, functions that it calls by
    name, and so on from those.

    Args:
        file: The file.
        line: First line of the function, decorators included; 1 where no function begins means
            the code outside of all functions.
        siblings: Methods that belong to it, if its class has them, though it does not call them.

    Raises:
        NoSource: The file can't be read or is no Python.
    """
    tree, lines = _parsed(file)
    known = {
        first_line_of(node): Written(node, lines, classes, ".".join((*classes, node.name)), file)
        for node, classes in functions_in(tree)
    }
    first = known.get(line) or Written(_as_function(tree)[0], lines, (), MODULE, file)
    found = [first]
    for source in found:  # grows as it goes
        wanted = _called(source)
        for other in known.values():
            sibling = other.classes == first.classes != () and other.node.name in siblings
            meant = sibling or (other.classes, other.node.name) in wanted
            if meant and not any(_holds(outer, other) for outer in found):
                found.append(other)
    return [first, *sorted(found[1:], key=lambda other: other.node.lineno)]


def without(
    text: str, file: str, guards: Iterable[Guard], lines: Mapping[int, str] | None = None
) -> ast.Module:
    """Give the tree of a file without some guards, and with some of its lines changed.

    Args:
        text: The file's text.
        file: What it is called.
        guards: Guards that stand in it, as found in the text as it is.
        lines: New text for lines, by number. Guards and lines can't be mixed in one function.

    Raises:
        PertdbgError: What is left is no Python, or the guards do not stand in it.
    """
    changed = text.splitlines(keepends=True)
    for number, line in (lines or {}).items():
        changed[number - 1] = line.rstrip("\n") + "\n"
    try:
        tree = ast.parse("".join(changed))
    except SyntaxError as error:
        raise PertdbgError(f"{file}:{error.lineno}: after the change: {error.msg}") from error
    by_function: dict[str, list[Guard]] = {}
    for guard in guards:
        by_function.setdefault(guard.function, []).append(guard)
    for name, mine in by_function.items():
        _take_out(tree, name, mine)
    return ast.fix_missing_locations(tree)


def _take_out(tree: ast.Module, name: str, guards: list[Guard]) -> None:
    if name == MODULE:
        function, definitions = _as_function(tree)
        rewrite(function, guards)
        tree.body = [definitions.get(id(node), node) for node in function.body]
        return
    line = guards[0].line
    for node, classes in functions_in(tree):
        named = ".".join((*classes, node.name)) == name
        if named and first_line_of(node) <= line <= (node.end_lineno or line):
            rewrite(node, guards)
            return
    raise PertdbgError(f"line {line}: {name} does not stand here; the file has changed")


def _called(source: Written) -> set[tuple[tuple[str, ...], str]]:
    """Give the classes and names of what a function calls, as far as its text tells."""
    arguments = source.node.args.posonlyargs + source.node.args.args
    owner = arguments[0].arg if arguments and source.classes else ""
    called: set[tuple[tuple[str, ...], str]] = set()
    for node in ast.walk(source.node):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            called.add(((), node.func.id))
        elif isinstance(node.func, ast.Attribute) and dotted(node.func.value) == owner != "":
            called.add((source.classes, node.func.attr))
    return called


def _holds(outer: Written, inner: Written) -> bool:
    """Whether a function is another one or stands in it; its guards have been found then."""
    return any(node is inner.node for node in ast.walk(outer.node))


def _parsed(file: str) -> tuple[ast.Module, list[str]]:
    try:
        text = Path(file).read_text(encoding="utf-8")
        return ast.parse(text), text.splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise NoSource(f"there is no source to be had of {file}: {error}") from error
    except SyntaxError as error:
        raise NoSource(f"{file}:{error.lineno}: {error.msg}") from error


def _as_function(tree: ast.Module) -> tuple[FunctionNode, dict[int, ast.stmt]]:
    """Put a function around the code of a file, which is then read as all others are.

    Functions and classes have places of their own: a statement that does nothing stands for each.

    Returns:
        The function, and by the `id` of such a statement what it stands for.
    """
    function = ast.parse("def _(): pass").body[0]
    if not isinstance(function, ast.FunctionDef):
        raise TypeError("the text above is a function")
    definitions: dict[int, ast.stmt] = {}
    function.body = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stand_in = ast.copy_location(ast.Pass(), node)
            definitions[id(stand_in)] = node
            function.body.append(stand_in)
        else:
            function.body.append(node)
    return function, definitions
