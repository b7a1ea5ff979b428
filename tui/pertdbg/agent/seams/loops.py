"""Which loops of a function move a tensor along its gradient, as its source tells.

Nothing runs here: what a loop looks like is read once from the text. Whether a local is a tensor,
and whether a gradient came, is seen when the function runs.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pertdbg.agent.seams.denominators import is_guard
from pertdbg.agent.seams.flow import (
    Body,
    Loop,
    Write,
    called,
    gives,
    is_helper,
    optimized,
    own_nodes,
    spread,
    taken_of,
    targets,
    used_names,
    without_data,
    writes,
)
from pertdbg.agent.seams.guesses import Guesses, guess, is_copy, summands
from pertdbg.agent.seams.norms import SILENT, FunctionNamed, Norms, norms_of
from pertdbg.agent.seams.places import index_of, root_of, with_places
from pertdbg.agent.seams.rebinds import Rebound, rebound


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
    sure: bool
    """A gradient is certainly taken: it is not only the name of a function that suggests it."""
    inside: bool
    """It may be that of a copy, which a function that is called makes of the subject."""
    guesses: Guesses
    rebound: Rebound | None = None
    """What the moved subject is called, where the subject itself stays: a step without a loop."""
    norms: Norms = SILENT
    """What the text says of L2 norms of the subject."""
    guards: frozenset[str] = frozenset()
    """Names and attributes that only keep a denominator from being zero."""
    apart: bool = False
    """The gradient is taken elsewhere: it is there when a pass begins, if it comes at all."""
    added: bool = False
    """Where it is taken elsewhere: something adds the subject to what a function was given."""
    renewing: frozenset[int] = frozenset()
    """Lines that make the whole list, or dict, of which the subject is an entry."""

    @property
    def whole(self) -> bool:
        """Whether each run of the whole function is one pass."""
        return self.apart and not self.first

    @property
    def index(self) -> str | None:
        """The local that says which entry of a list or dict the subject is just now."""
        return index_of(self.subject)

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
    calls = frozenset(gradient_calls)
    body = with_places(body, calls)
    nodes = list(own_nodes(body))
    inside = {id(loop): list(own_nodes(loop)) for loop in nodes if isinstance(loop, Loop)}
    found: dict[tuple[str, int], GradientLoop] = {}
    uses: dict[str, list[ast.AST]] = {}
    for name, use in _gradients(nodes, calls):
        uses.setdefault(name, []).append(use)
        around = [
            loop
            for loop in nodes
            if isinstance(loop, Loop) and any(node is use for node in inside[id(loop)])
        ]
        for loop in sorted(around, key=lambda each: -each.lineno):
            if (name, loop.lineno) in found:
                break
            made = _loop(body, nodes, loop, inside[id(loop)], name, calls)
            if made is not None:
                found[name, loop.lineno] = made
                break
    for name in uses.keys() - {name for name, _ in found}:
        once = _once(body, nodes, name, calls) or _rebound(body, nodes, name, calls)
        once = once or _apart(body, nodes, name, calls)
        if once is not None:
            found[name, 0] = once
    return tuple(
        dataclasses.replace(
            found[key],
            sure=any(_is_sure(use, calls) for use in uses[key[0]]),
            inside=not any(_in_sight(use) for use in uses[key[0]]),
        )
        for key in sorted(found, key=lambda key: (key[1], key[0]))
    )


def with_norms(
    loops: Iterable[GradientLoop],
    body: Body,
    gradient_calls: Iterable[str],
    expressions: Iterable[str],
    function_named: FunctionNamed,
) -> Iterator[GradientLoop]:
    """Read loops for what limits a norm of their subjects.

    Args:
        loops: The loops of a function.
        body: The function.
        gradient_calls: Functions beside `grad` that give the gradient of an argument.
        expressions: What adapters take for a bound, if it is there.
        function_named: Gives a function that the loops call.
    """
    calls = frozenset(gradient_calls)
    nodes = list(own_nodes(with_places(body, calls)))
    guards = frozenset(each for each in expressions if is_guard(each, nodes))
    for loop in loops:
        inside = [node for node in nodes if loop.within(getattr(node, "lineno", 0))]
        gradient = _gradient_names(inside, loop.subject, calls)
        norms = norms_of(nodes, inside, loop.subject, gradient, function_named)
        yield dataclasses.replace(loop, norms=norms, guards=guards)


def _is_sure(use: ast.AST, gradient_calls: frozenset[str]) -> bool:
    """Say whether a gradient is certain to be taken: not only a name suggests it."""
    if not isinstance(use, ast.Call):
        return True
    return called(use) in gradient_calls or not is_helper(called(use))


def _in_sight(use: ast.AST) -> bool:
    """Say whether it is the gradient of the tensor itself that is taken."""
    return not isinstance(use, ast.Call) or called(use) in ("grad", "step")


def _gradients(
    nodes: list[ast.AST], gradient_calls: frozenset[str]
) -> Iterator[tuple[str, ast.AST]]:
    """Give the locals that a gradient is taken of, with the place."""
    for of, use in taken_of(nodes, gradient_calls):
        if isinstance(use, ast.Call):
            yield from ((name, use) for name in sorted(summands(of)))
        else:
            owner = without_data(of)
            if isinstance(owner, ast.Name) and isinstance(use.ctx, ast.Load):
                yield owner.id, use


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
    if all(_is_kept(w, name) for w in moving):
        return None
    before = [w for w in writes(nodes, name, frozenset()) if w.last_line < loop.lineno]
    first = loop.body[0].lineno
    giving = _giving(inside, gradient_calls)
    late = max(w.last_line for w in moving) < min(giving, default=0)
    made = _made(
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
    whole = [] if made.index is None else writes(nodes, root_of(name), frozenset())
    renewing = [write for write in whole if write.value is not None]
    return dataclasses.replace(made, apart=not giving, renewing=_lines(renewing))


def _apart(
    body: Body, nodes: list[ast.AST], name: str, gradient_calls: frozenset[str]
) -> GradientLoop | None:
    """See a function that moves what outlives it along a gradient that was taken elsewhere."""
    every = writes(nodes, name, _steppers(nodes, name))
    if isinstance(body, ast.Module) or name in _parameters(body):
        return None
    if _giving(nodes, gradient_calls) or not _is_outside(nodes, name):
        return None
    if not _is_reached(body, nodes, name):
        return None
    gradient = _gradient_names(nodes, name, gradient_calls)
    uses = {id(use) for of, use in _gradients(nodes, gradient_calls) if of == name}
    moving = [node for node in nodes if writes([node], name, frozenset())]
    if not any(_follows(node, gradient, uses) for node in moving):
        return None
    derived = spread(nodes, {name})
    lines = body.body[0].lineno, body.end_lineno or body.lineno
    made = _made(
        *(body, nodes, name, derived, gradient_calls, [], every),
        body_lines=lines,
        by_gradient=False,
    )
    guesses = dataclasses.replace(made.guesses, is_delta=True)
    return dataclasses.replace(made, apart=True, guesses=guesses)


def _is_reached(body: Body, nodes: list[ast.AST], name: str) -> bool:
    """Say whether a place is reached from an argument, or from outside: not from a local alone."""
    root = root_of(name)
    bound = any(isinstance(e, ast.Name) and e.id == root for n in nodes for e in targets(n))
    return root in _parameters(body) or not bound or name.isidentifier()


def _follows(node: ast.AST, gradient: set[str], uses: set[int]) -> bool:
    """Say whether a statement depends on a gradient."""
    return bool(used_names(node) & gradient) or any(id(part) in uses for part in ast.walk(node))


def _once(
    body: Body, nodes: list[ast.AST], name: str, gradient_calls: frozenset[str]
) -> GradientLoop | None:
    """See code that moves a local once, without a loop."""
    gradient = min(_giving(nodes, gradient_calls), default=0)
    derived = spread(nodes, {name})
    every = writes(nodes, name, _steppers(nodes, name))
    moving = [
        w for w in every if w.line > gradient and (w.value is None or used_names(w.value) & derived)
    ]
    making = [w for w in every if w.last_line < gradient]
    parameter = name in _parameters(body)
    if not parameter and all(w.value is None or used_names(w.value) & {name} for w in making):
        making = []  # it is there already, and is only made ready
    moves = not all(_is_kept(w, name) for w in moving)
    if not moves or not gradient or not (making or parameter or _is_outside(nodes, name)):
        return None
    first = gradient if isinstance(body, ast.Module) else body.lineno
    last = max(w.last_line for w in moving)
    return _made(
        body,
        nodes,
        name,
        derived,
        gradient_calls,
        making,
        moving,
        body_lines=(min([first, *(w.line for w in making)]), last),
    )


def _is_kept(write: Write, name: str) -> bool:
    """Say whether a write leaves the values as they are: ``x = x.detach()``."""
    return write.value is not None and is_copy(write.value, name)


def _is_outside(nodes: list[ast.AST], name: str) -> bool:
    """Say whether a name stands for something that outlives the function."""
    bound = any(isinstance(e, ast.Name) and e.id == name for n in nodes for e in targets(n))
    return not bound or not name.isidentifier() or any(name in _outer(node) for node in nodes)


def _outer(node: ast.AST) -> list[str]:
    return node.names if isinstance(node, (ast.Global, ast.Nonlocal)) else []


def _rebound(
    body: Body, nodes: list[ast.AST], name: str, gradient_calls: frozenset[str]
) -> GradientLoop | None:
    """See code that gives a moved subject another name, as attacks of one step do."""
    giving = _giving(nodes, gradient_calls)
    derived, gradient = spread(nodes, {name}), _gradient_names(nodes, name, gradient_calls)
    making = [w for w in writes(nodes, name, frozenset()) if w.last_line < min(giving, default=0)]
    made = _made(body, nodes, name, derived, gradient_calls, making, [], body_lines=(0, 0))
    uses = {id(use) for of, use in _gradients(nodes, gradient_calls) if of == name}
    found = rebound(nodes, name, gradient, uses, giving, is_delta=made.guesses.is_delta)
    if found is None:
        return None
    lines = min(giving), max(found.lines)
    return dataclasses.replace(made, body=lines, writing=found.lines, rebound=found)


def _made(
    body: Body,
    inside: list[ast.AST],
    name: str,
    derived: set[str],
    gradient_calls: frozenset[str],
    creating: list[Write],
    moving: list[Write],
    *,
    body_lines: tuple[int, int],
    head: tuple[int, int] = (0, 0),
    first: int = 0,
    endless: bool = False,
    by_gradient: bool = True,
) -> GradientLoop:
    """Say what was found; without a header it is no loop, and only its gradient tells the step."""
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
        sure=True,
        inside=False,
        guesses=guess(inside, name, derived, gradient, creating, parameters),
    )


def _giving(inside: list[ast.AST], gradient_calls: frozenset[str]) -> list[int]:
    """Give the lines of the calls that give gradients."""
    calls = [node for node in inside if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if gives(call, gradient_calls)]


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
    return frozenset(
        owner
        for owner, parts in optimized(nodes).items()
        if any(isinstance(part, ast.Name) and part.id == name for part in parts)
    )


def _parameters(body: Body) -> set[str]:
    if isinstance(body, ast.Module):
        return set()
    arguments = body.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {argument.arg for argument in every}


def _lines(found: list[Write]) -> frozenset[int]:
    return frozenset(line for write in found for line in range(write.line, write.last_line + 1))
