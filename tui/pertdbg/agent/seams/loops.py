"""Which loops of a function move a tensor along its gradient, as its source tells.

Nothing runs here: what a loop looks like is read once from the text. Whether a local is a tensor,
and whether a gradient came, is seen when the function runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pertdbg.agent.seams.flow import (
    Body,
    Loop,
    Write,
    called,
    own_nodes,
    spread,
    used_names,
    writes,
)
from pertdbg.agent.seams.guesses import Guesses, guess


@dataclass(frozen=True)
class GradientLoop:
    """A loop that moves one local along its gradient."""

    subject: str
    head: tuple[int, int]
    """First and last line of the loop's header."""
    body: tuple[int, int]
    """First and last line of the whole loop."""
    endless: bool
    """``while True``: its header is not a line of each pass."""
    first: int
    """First line inside; equal to the header's where the loop stands on one line."""
    creating: frozenset[int]
    """Lines that make the subject, before the loop or in it."""
    writing: frozenset[int]
    """Lines in the loop that move the subject."""
    parameter: bool
    """The subject is an argument of the function."""
    guesses: Guesses

    @property
    def by_gradient(self) -> bool:
        """Whether the loop stands on one line, so that only its gradients tell its passes."""
        return self.first == self.head[0]

    def within(self, line: int) -> bool:
        """Say whether a line is one of the loop's."""
        return self.body[0] <= line <= self.body[1]

    def in_head(self, line: int) -> bool:
        """Say whether a line is one of the loop's header."""
        return self.head[0] <= line <= self.head[1] and line < self.first

    def made_by(self, line: int) -> int:
        """Give the last line of the statements that make the subject, of which this is one."""
        inside = self.within(line)
        return max(each for each in self.creating if self.within(each) == inside)


def find_loops(body: Body, gradient_calls: Iterable[str] = ()) -> tuple[GradientLoop, ...]:
    """Find the loops of a function in which a local receives a gradient and is then moved.

    Args:
        body: The function, or a module.
        gradient_calls: Functions beside `grad` that give the gradient of an argument.
    """
    nodes = list(own_nodes(body))
    inside = {id(loop): list(own_nodes(loop)) for loop in nodes if isinstance(loop, Loop)}
    found: dict[tuple[str, int], GradientLoop] = {}
    for name, use in _gradients(nodes, frozenset(gradient_calls)):
        around = [
            loop
            for loop in nodes
            if isinstance(loop, Loop) and any(node is use for node in inside[id(loop)])
        ]
        for loop in sorted(around, key=lambda each: -each.lineno):
            if (name, loop.lineno) in found:
                break
            made = _loop(body, nodes, loop, inside[id(loop)], name, frozenset(gradient_calls))
            if made is not None:
                found[name, loop.lineno] = made
                break
    return tuple(found[key] for key in sorted(found, key=lambda key: (key[1], key[0])))


def _gradients(
    nodes: list[ast.AST], gradient_calls: frozenset[str]
) -> Iterator[tuple[str, ast.AST]]:
    """Give the locals that a gradient is taken of, with the place."""
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "grad" and id(node) not in functions:
            owner = node.value
            if isinstance(owner, ast.Attribute) and owner.attr == "data":
                owner = owner.value
            if isinstance(owner, ast.Name) and isinstance(node.ctx, ast.Load):
                yield owner.id, node
        elif isinstance(node, ast.Call):
            yield from ((name, node) for name in _differentiated(node, gradient_calls))


def _differentiated(call: ast.Call, gradient_calls: frozenset[str]) -> list[str]:
    """Give the names that a call differentiates with respect to."""
    arguments: list[ast.expr] = []
    if called(call) == "grad":
        arguments = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "inputs")]
    elif called(call) in gradient_calls:
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    names = []
    for argument in arguments:
        parts = argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else [argument]
        names += [part.id for part in parts if isinstance(part, ast.Name)]
    return names


def _loop(
    body: Body,
    nodes: list[ast.AST],
    loop: Loop,
    inside: list[ast.AST],
    name: str,
    gradient_calls: frozenset[str],
) -> GradientLoop | None:
    steppers = _steppers(nodes, name)
    derived = spread(inside, {name})
    within = writes(inside, name, steppers)
    making = _making(inside, within, derived, gradient_calls)
    moving = [w for w in within if w not in making]
    if not moving:
        return None
    parameters = _parameters(body)
    before = [w for w in writes(nodes, name, frozenset()) if w.last_line < loop.lineno]
    creating = before + making
    gradient = _gradient_names(inside, name, gradient_calls)
    return GradientLoop(
        subject=name,
        head=(loop.lineno, max(loop.body[0].lineno - 1, loop.lineno)),
        body=(loop.lineno, loop.end_lineno or loop.lineno),
        endless=_endless(loop),
        first=loop.body[0].lineno,
        creating=_lines(creating),
        writing=_lines(moving),
        parameter=name in parameters,
        guesses=guess(inside, name, derived, gradient, creating, parameters),
    )


def _making(
    inside: list[ast.AST], within: list[Write], derived: set[str], gradient_calls: frozenset[str]
) -> list[Write]:
    """Give the writes in a loop that make the subject anew in each pass, before its gradient."""
    fresh = [w.line for w in within if w.value is not None and not used_names(w.value) & derived]
    if not fresh:
        return []
    gives = {"backward", "grad", *gradient_calls}
    lines = [node.lineno for node in inside if isinstance(node, ast.Call) and called(node) in gives]
    until = min((line for line in lines if line >= fresh[0]), default=fresh[0] + 1)
    return [w for w in within if w.line in fresh or fresh[0] <= w.line < until]


def _gradient_names(inside: list[ast.AST], name: str, gradient_calls: frozenset[str]) -> set[str]:
    """Give the locals that are made from the gradient."""
    uses = {id(use) for found, use in _gradients(inside, gradient_calls) if found == name}
    made: set[str] = set()
    for node in inside:
        if isinstance(node, ast.Assign) and any(id(part) in uses for part in ast.walk(node.value)):
            for target in node.targets:
                made |= used_names(target)
    return spread(inside, made - {name}) - {name}


def _steppers(nodes: list[ast.AST], name: str) -> frozenset[str]:
    """Give the locals that were made by a call with the subject: an optimizer of it."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            lists = [a for a in node.value.args if isinstance(a, (ast.List, ast.Tuple))]
            parts = [part for each in lists for part in each.elts]
            if any(isinstance(part, ast.Name) and part.id == name for part in parts):
                found.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return frozenset(found)


def _parameters(body: Body) -> set[str]:
    if isinstance(body, ast.Module):
        return set()
    arguments = body.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {argument.arg for argument in every}


def _endless(loop: Loop) -> bool:
    return isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant)


def _lines(found: list[Write]) -> frozenset[int]:
    return frozenset(line for write in found for line in range(write.line, write.last_line + 1))
