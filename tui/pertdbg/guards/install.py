"""Putting a variant of a function in its place, in this process, for a while."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pertdbg.errors import PertdbgError
from pertdbg.guards.model import Guard
from pertdbg.guards.remove import code_without
from pertdbg.guards.source import FunctionSource

Undo = Callable[[], None]


@contextlib.contextmanager
def without(
    sources: Sequence[FunctionSource],
    guards: Collection[Guard],
    owner: type | None = None,
    lines: Mapping[int, str] | None = None,
) -> Iterator[None]:
    """Run with guards taken out; whoever holds the functions gets the variant.

    Args:
        sources: The functions.
        guards: Guards of theirs.
        owner: The class whose attribute the first function is; needed where a decorator is to go.
        lines: New text for lines of the first function's file, by number.

    Raises:
        PertdbgError: A guard can't be taken out; the text says why.
    """
    undo = take_out(sources, guards, owner, lines)
    try:
        yield
    finally:
        undo()


def take_out(
    sources: Sequence[FunctionSource],
    guards: Collection[Guard],
    owner: type | None = None,
    lines: Mapping[int, str] | None = None,
) -> Undo:
    """Take guards out, as `without` does, until what is returned is called.

    Raises:
        PertdbgError: A guard can't be taken out; nothing has changed then.
    """
    done: list[Undo] = []
    try:
        for number, source in enumerate(sources):
            mine = [g for g in guards if (g.function, g.file) == (source.name, source.file)]
            edited = lines if number == 0 else None
            if mine or edited:
                done.append(_replace(source, mine, edited))
                done += _undecorate(source, mine, owner)
    except BaseException:
        _all(done)()
        raise
    return _all(done)


def _all(done: list[Undo]) -> Undo:
    def undo() -> None:
        while done:
            done.pop()()

    return undo


def _replace(
    source: FunctionSource, guards: Sequence[Guard], lines: Mapping[int, str] | None
) -> Undo:
    function, original = source.function, source.function.__code__
    function.__code__ = code_without(source, guards, lines)

    def undo() -> None:
        function.__code__ = original

    return undo


def _undecorate(source: FunctionSource, guards: Sequence[Guard], owner: type | None) -> list[Undo]:
    numbers = [e.which for g in guards for e in g.edits if e.action == "decorator"]
    if not numbers:
        return []
    if len(source.wrappers) != len(source.node.decorator_list):
        raise PertdbgError(
            f"{source.name}: its {len(source.node.decorator_list)} decorators left "
            f"{len(source.wrappers)} wrappers, so that none can be told from the others"
        )
    return [_unwrap(source, number, owner) for number in numbers]


def _unwrap(source: FunctionSource, number: int, owner: type | None) -> Undo:
    wrapper = source.wrappers[number]
    inner = wrapper.__wrapped__
    if number == 0:
        return _set_on_class(source, owner, wrapper, inner)
    around = source.wrappers[number - 1]
    for cell in getattr(around, "__closure__", None) or ():
        if cell.cell_contents is wrapper:
            return _set_cell(cell, wrapper, inner)
    raise PertdbgError(f"{source.name}: what is around its decorator does not hold it in a closure")


def _set_cell(cell: types.CellType, wrapper: Any, inner: Any) -> Undo:
    cell.cell_contents = inner

    def undo() -> None:
        cell.cell_contents = wrapper

    return undo


def _set_on_class(source: FunctionSource, owner: type | None, wrapper: Any, inner: Any) -> Undo:
    name = source.function.__name__
    for cls in owner.__mro__ if owner is not None else ():
        if vars(cls).get(name) is wrapper:
            holder = cls
            setattr(holder, name, inner)
            return lambda: setattr(holder, name, wrapper)
    raise PertdbgError(f"{source.name}: no class holds it under the name {name}")
