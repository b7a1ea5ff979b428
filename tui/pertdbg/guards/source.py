"""The source of a function: its text, its place in the file, its syntax tree."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.guards.syntax import FunctionNode, dotted


class NoSource(PertdbgError):
    """The source of a function can't be had; the text says why and what to do."""


@dataclass(frozen=True)
class FunctionSource:
    """A function that runs, and what it was made from."""

    function: types.FunctionType
    node: FunctionNode
    lines: list[str]
    """All lines of its file."""
    classes: tuple[str, ...]
    """Names of the classes that it is defined in, the outermost first."""
    wrappers: tuple[Any, ...] = ()
    """What decorators have put around it, the outermost first."""

    @property
    def name(self) -> str:
        """Its qualified name."""
        return self.function.__qualname__

    @property
    def file(self) -> str:
        """The file, or what Python calls it: a cell of a notebook has a name of its own."""
        return self.function.__code__.co_filename


def source_of(thing: Callable[..., Any] | property, name: str = "") -> FunctionSource:
    """Find the source of a function or method, through decorators and descriptors.

    Args:
        thing: A function, method, property, static or class method, or a partial of one.
        name: What to call it in an error.

    Raises:
        NoSource: It is not written in Python, or Python did not keep its text.
    """
    wrappers, inner = _unwrap(thing)
    name = name or getattr(inner, "__qualname__", repr(inner))
    if not isinstance(inner, types.FunctionType):
        raise NoSource(f"{name} is a {type(inner).__name__}, which has no Python source")
    lines = lines_of(inner)
    if not lines:
        raise NoSource(
            f"there is no source for {name}: Python kept none for {inner.__code__.co_filename!r}; "
            "code that is run from a text must be written to a file first"
        )
    found = function_at("".join(lines), inner)
    if found is None:
        raise NoSource(
            f"{inner.__code__.co_filename}:{inner.__code__.co_firstlineno}: {name} does not stand "
            "here; the file has changed since it was imported, or the function is a lambda"
        )
    return FunctionSource(inner, found[0], lines, found[1], wrappers)


def lines_of(function: types.FunctionType) -> list[str]:
    """Give the lines of the file (or notebook cell) of a function; none where there are none."""
    return linecache.getlines(function.__code__.co_filename, function.__globals__)


def function_at(
    text: str, function: types.FunctionType
) -> tuple[FunctionNode, tuple[str, ...]] | None:
    """Find a function's tree, and the classes around it, in the text of its file."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise NoSource(f"{function.__code__.co_filename}:{error.lineno}: {error.msg}") from error
    code = function.__code__
    for node, classes in functions_in(tree):
        first = first_line_of(node)
        arguments = tuple(arg.arg for arg in (*node.args.posonlyargs, *node.args.args))
        names = code.co_varnames[: code.co_argcount]
        if (node.name, first) == (code.co_name, code.co_firstlineno) and len(arguments) == len(
            names
        ):
            return node, classes
    return None


def first_line_of(node: FunctionNode) -> int:
    """Give the line at which Python says that a function begins: that of its first decorator."""
    return min([node.lineno, *(part.lineno for part in node.decorator_list)])


def functions_in(
    node: ast.AST, classes: tuple[str, ...] = ()
) -> Iterator[tuple[FunctionNode, tuple[str, ...]]]:
    """Give each function in a tree with the names of the classes around it, the outermost first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child, classes
        inside = (*classes, child.name) if isinstance(child, ast.ClassDef) else classes
        yield from functions_in(child, inside)


def _unwrap(thing: Any) -> tuple[tuple[Any, ...], Any]:
    """Go to the innermost function; give what is around it too."""
    wrappers: list[Any] = []
    while True:
        if isinstance(thing, property):
            inner: Any = thing.fget
        elif isinstance(thing, (staticmethod, classmethod, types.MethodType)):
            inner = thing.__func__
        elif isinstance(thing, functools.partial):
            inner = thing.func
        elif hasattr(thing, "__wrapped__"):
            inner = thing.__wrapped__
            wrappers.append(thing)
        else:
            return tuple(wrappers), thing
        thing = inner


def sources_of_method(cls: type, method: str) -> list[FunctionSource]:
    """Find a method, and the functions of the same program that it calls.

    Those are methods that it calls on ``self`` or ``super()`` and functions of the same file.
    What has no source is left out, but for the method itself.

    Raises:
        NoSource: The method's own source can't be had.
    """
    first = source_of(inspect.getattr_static(cls, method), f"{cls.__qualname__}.{method}")
    found = {first.function: first}
    waiting = [first]
    while waiting:
        source = waiting.pop()
        for called in _called(source, cls):
            try:
                other = source_of(called)
            except NoSource:
                continue
            if other.function not in found and not _foreign(other.function):
                found[other.function] = other
                waiting.append(other)
    rest = sorted(list(found.values())[1:], key=lambda other: (other.file, other.node.lineno))
    return [first, *rest]


def _called(source: FunctionSource, cls: type) -> Iterator[Any]:
    arguments = source.node.args.posonlyargs + source.node.args.args
    owner = arguments[0].arg if arguments and source.classes else ""
    for node in ast.walk(source.node):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute):
            parent = (
                isinstance(node.func.value, ast.Call) and dotted(node.func.value.func) == "super"
            )
            if parent or (owner and dotted(node.func.value) == owner):
                yield from _methods(cls, node.func.attr, source if parent else None)
        elif isinstance(node.func, ast.Name):
            yield source.function.__globals__.get(node.func.id)


def _methods(cls: type, name: str, below: FunctionSource | None) -> Iterator[Any]:
    """Find a method as ``self`` or, below the class of a function, ``super()`` finds it."""
    passed = below is None
    for parent in cls.__mro__:
        if passed and name in vars(parent):
            yield vars(parent)[name]
            return
        passed = passed or (below is not None and parent.__name__ == below.classes[-1])


def _foreign(function: types.FunctionType) -> bool:
    """Whether a function belongs to a library that everybody has: torch, or Python itself."""
    root = (function.__module__ or "").partition(".")[0]
    return root in ("torch", "numpy", "typing", "functools", "math")
