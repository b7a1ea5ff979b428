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
    by_gradient: bool
    """Only gradients tell its passes: it stands on one line, or moves the subject first and takes
    the next gradient then, or is no loop at all but moves the subject once."""
    first: int
    """First line inside; equal to the header's where the loop stands on one line."""
    creating: frozenset[int]
    """Lines that make the subject, before the loop or in it."""
    writing: frozenset[int]
    """Lines in the loop that move the subject."""
    parameter: bool
    """The subject is an argument of the function."""
    guesses: Guesses

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
    names: set[str] = set()
    for name, use in _gradients(nodes, frozenset(gradient_calls)):
        names.add(name)
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
    for name in names - {name for name, _ in found}:
        once = _once(body, nodes, name, frozenset(gradient_calls))
        if once is not None:
            found[name, 0] = once
    return tuple(found[key] for key in sorted(found, key=lambda key: (key[1], key[0])))


def _gradients(
    nodes: list[ast.AST], gradient_calls: frozenset[str]
) -> Iterator[tuple[str, ast.AST]]:
    """Give the locals that a gradient is taken of, with the place."""
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    steppers = _optimized(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "grad" and id(node) not in functions:
            owner = node.value
            if isinstance(owner, ast.Attribute) and owner.attr == "data":
                owner = owner.value
            if isinstance(owner, ast.Name) and isinstance(node.ctx, ast.Load):
                yield owner.id, node
        elif isinstance(node, ast.Call):
            yield from ((name, node) for name in _differentiated(node, gradient_calls))
            yield from ((name, node) for name in _stepped(node, steppers))


def _optimized(nodes: list[ast.AST]) -> dict[str, list[str]]:
    """Give the locals that each optimizer was made for: those in a list that it was given."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            lists = [a for a in node.value.args if isinstance(a, (ast.List, ast.Tuple))]
            names = [part.id for each in lists for part in each.elts if isinstance(part, ast.Name)]
            for target in node.targets:
                if isinstance(target, ast.Name) and names:
                    found.setdefault(target.id, []).extend(names)
    return found


def _stepped(call: ast.Call, optimized: dict[str, list[str]]) -> list[str]:
    """Give the names that a call moves: those of the optimizer whose `step` it is."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if called(call) != "step" or not isinstance(owner, ast.Name):
        return []
    return optimized.get(owner.id, [])


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
    before = [w for w in writes(nodes, name, frozenset()) if w.last_line < loop.lineno]
    first = loop.body[0].lineno
    late = max(w.last_line for w in moving) < min(_giving(inside, gradient_calls), default=0)
    return _made(
        body,
        inside,
        name,
        derived,
        gradient_calls,
        before + making,
        moving,
        head=(loop.lineno, max(first - 1, loop.lineno)),
        body_lines=(loop.lineno, loop.end_lineno or loop.lineno),
        endless=isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant),
        by_gradient=late or first == loop.lineno,
        first=first,
    )


def _once(
    body: Body, nodes: list[ast.AST], name: str, gradient_calls: frozenset[str]
) -> GradientLoop | None:
    """See a function that moves a local once, without a loop."""
    if isinstance(body, ast.Module):
        return None
    gradient = min(_giving(nodes, gradient_calls), default=0)
    derived = spread(nodes, {name})
    every = writes(nodes, name, _steppers(nodes, name))
    moving = [
        w for w in every if w.line > gradient and (w.value is None or used_names(w.value) & derived)
    ]
    making = [w for w in every if w.last_line < gradient]
    if not moving or not (making or name in _parameters(body)):
        return None
    lines = (body.lineno, body.end_lineno or body.lineno)
    return _made(
        body,
        nodes,
        name,
        derived,
        gradient_calls,
        making,
        moving,
        head=(0, 0),
        body_lines=lines,
        endless=False,
        by_gradient=True,
        first=0,
    )


def _made(
    body: Body,
    inside: list[ast.AST],
    name: str,
    derived: set[str],
    gradient_calls: frozenset[str],
    creating: list[Write],
    moving: list[Write],
    *,
    head: tuple[int, int],
    body_lines: tuple[int, int],
    endless: bool,
    by_gradient: bool,
    first: int,
) -> GradientLoop:
    parameters = _parameters(body)
    gradient = _gradient_names(inside, name, gradient_calls)
    return GradientLoop(
        subject=name,
        head=head,
        body=body_lines,
        endless=endless,
        by_gradient=by_gradient,
        first=first,
        creating=_lines(creating),
        writing=_lines(moving),
        parameter=name in parameters,
        guesses=guess(inside, name, derived, gradient, creating, parameters),
    )


def _giving(inside: list[ast.AST], gradient_calls: frozenset[str]) -> list[int]:
    """Give the lines of the calls that give gradients."""
    gives = {"backward", "grad", *gradient_calls}
    return [n.lineno for n in inside if isinstance(n, ast.Call) and called(n) in gives]


def _making(
    inside: list[ast.AST], within: list[Write], derived: set[str], gradient_calls: frozenset[str]
) -> list[Write]:
    """Give the writes in a loop that make the subject anew in each pass, before its gradient."""
    fresh = [w.line for w in within if w.value is not None and not used_names(w.value) & derived]
    if not fresh:
        return []
    lines = _giving(inside, gradient_calls)
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
    """Give the optimizers that were made for the subject."""
    return frozenset(owner for owner, names in _optimized(nodes).items() if name in names)


def _parameters(body: Body) -> set[str]:
    if isinstance(body, ast.Module):
        return set()
    arguments = body.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {argument.arg for argument in every}


def _lines(found: list[Write]) -> frozenset[int]:
    return frozenset(line for write in found for line in range(write.line, write.last_line + 1))
