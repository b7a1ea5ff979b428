"""Finding the guards of functions in their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from pertdbg.guards.model import Edit, Guard, Span
from pertdbg.guards.rules import RULES, Hit
from pertdbg.guards.syntax import FunctionNode, Placed, Tree

TEXT_LENGTH = 60
"""Most characters of `Guard.text`."""


class Source(Protocol):
    """A function that was found, in a running program or in a text."""

    @property
    def node(self) -> FunctionNode:
        """Its syntax tree."""

    @property
    def lines(self) -> list[str]:
        """All lines of its file."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes that it is defined in, the outermost first."""

    @property
    def name(self) -> str:
        """Its qualified name."""

    @property
    def file(self) -> str:
        """Its file."""


def find_guards(sources: Iterable[Source]) -> list[Guard]:
    """Find the guards of some functions, function by function in the order of the source."""
    found = [guard for source in sources for guard in _of_function(source)]
    return [replace(guard, id=f"g{number}") for number, guard in enumerate(found, 1)]


def _of_function(source: Source) -> list[Guard]:
    tree = Tree(source.node, source.lines, of_class=bool(source.classes))
    hits = {
        (id(hit.node), hit.action, hit.which): hit
        for node in tree.nodes
        for rule in RULES
        for hit in rule(node, tree)
    }
    groups: dict[object, list[Hit]] = {}
    for key, hit in hits.items():
        groups.setdefault(_statement(hit, tree) if hit.kind == "nan-check" else key, []).append(hit)
    guards = [_guard(group, source, tree) for group in groups.values()]
    return sorted(guards, key=lambda guard: (guard.removed[0][:2], guard.span[2:]))


def _statement(hit: Hit, tree: Tree) -> int:
    """Give the widest expression around a check: the checks in it are one guard."""
    widest = hit.node
    for parent in tree.parents(hit.node):
        if not isinstance(parent, ast.expr):
            break
        widest = parent
    return id(widest)


def _guard(hits: Sequence[Hit], source: Source, tree: Tree) -> Guard:
    spans = [span for hit in hits for span in _removed(hit, tree)]
    whole = _whole(hits, tree)
    text = tree.text(whole)
    if hits[0].action == "decorator":
        text = f"@{text}"
    elif isinstance(hits[0].node, ast.withitem):
        text = f"with {text}:"
    return Guard(
        id="",
        kind=hits[0].kind,
        function=source.name,
        file=source.file,
        span=whole,
        text=text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 3] + "...",
        removed=tuple(sorted(spans)),
        edits=tuple(Edit(tree.number[id(hit.node)], hit.action, hit.which) for hit in hits),
    )


def _whole(hits: Sequence[Hit], tree: Tree) -> Span:
    """Give the place of what a person reads as the guard: from the first hit to the last."""
    spans = [tree.span(_shown(hit, tree)) for hit in hits]
    return (*min(span[:2] for span in spans), *max(span[2:] for span in spans))


def _shown(hit: Hit, tree: Tree) -> Placed:
    if hit.action == "decorator":
        return tree.node.decorator_list[hit.which]
    if isinstance(hit.node, ast.withitem):
        return hit.node.context_expr
    if isinstance(hit.node, (ast.expr, ast.stmt, ast.keyword)):
        return hit.node
    raise TypeError(f"a {type(hit.node).__name__} has no place")


def _removed(hit: Hit, tree: Tree) -> list[Span]:
    """Give the places of what goes: around what is kept of a node, or all of it."""
    node = hit.node
    whole = tree.span(_shown(hit, tree))
    kept = _kept(hit)
    if isinstance(node, ast.Assign) and hit.action == "pair":
        value, targets = node.value, node.targets
        parts = [side.elts[hit.which] for side in (*targets, value) if isinstance(side, ast.Tuple)]
        return [tree.span(part) for part in parts]
    if kept is None:
        return [whole]
    if hit.action in ("receiver", "value"):
        return [(*tree.dot(kept), *whole[2:])]
    before: Span = (*whole[:2], *tree.start(kept))
    after: Span = (*tree.end(kept), *whole[2:])
    return [span for span in (before, after) if span[:2] != span[2:]]


def _kept(hit: Hit) -> ast.expr | None:
    node = hit.node
    if isinstance(node, ast.Call):
        if hit.action == "receiver" and isinstance(node.func, ast.Attribute):
            return node.func.value
        if hit.action == "argument":
            return node.args[hit.which]
    if isinstance(node, ast.Attribute):
        return node.value
    if isinstance(node, ast.BinOp):
        return {"left": node.left, "right": node.right}.get(hit.action)
    return None
