"""The inside of a call as text and as JSON: its lines, what each operation did, and its graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pertdbg.event import GraphTree, LineEvent, graph_to_json, to_json
from pertdbg.output.safe import printable
from pertdbg.output.words import several
from pertdbg.recording.events import Inside

HOW = "not recorded; `record --lines` does, and a stop inside the app"
"""Why there is nothing, and how to get it."""


def inside_json(inside: Inside) -> dict[str, Any]:
    """Give what a record's JSON carries beside its own fields; nothing where nothing was kept."""
    found: dict[str, Any] = {}
    if inside.events:
        found["events"] = [to_json(event) for event in inside.events]
    if inside.left_out:
        found["events_left_out"] = inside.left_out
    if inside.graphs:
        found["graphs"] = {role: graph_to_json(tree) for role, tree in inside.graphs.items()}
    return found


def inside_text(inside: Inside) -> Iterator[str]:
    """Lay out what each line did, and what its operations did."""
    yield ""
    if not inside.events:
        yield f"lines: {HOW}"
    for event in inside.events:
        yield from event_text(event)
    if inside.left_out:
        yield f"... and {several(inside.left_out, 'line')} that were not kept"
    for role, tree in inside.graphs.items():
        yield f"graph of {printable(role).replace('_', ' ')}: {graph_words(tree)}"


def event_text(event: LineEvent) -> Iterator[str]:
    """Lay out one line: its source, its operations, and what it did to the names."""
    indent = "  " * min(event.depth, _DEEPEST)
    yield f"{indent}{event.line:5}  {printable(event.source)}"
    for operation in event.operations:
        yield f"{indent}         {printable(operation.says)}"
    yield f"{indent}       = {printable(event.says)}"


_DEEPEST = 8


def graph_words(tree: GraphTree) -> str:
    """Say how large a graph is, what a backward fills from there, and what is kept for it."""
    if not tree.nodes:
        return _NO_NODES.get(tree.reason or "", printable(tree.reason or "no nodes"))
    saved = [size for node in tree.nodes for _, _, size in node.saved]
    leaves = [node.leaf for node in tree.nodes if node.leaf is not None]
    words = [several(len(tree.nodes), "node") + ("" if tree.complete else " and more")]
    if leaves:
        more = len(leaves) - _NAMED
        named = ", ".join(printable(leaf) for leaf in leaves[:_NAMED])
        words.append(f"a backward fills {named}" + (f" and {more} more" if more > 0 else ""))
    if any(node.freed for node in tree.nodes):
        words.append("what was kept for the backward is freed")
    elif saved:
        words.append(f"{several(len(saved), 'tensor')} kept for it, {sum(saved):,} bytes")
    return "; ".join(words)


_NAMED = 5
_NO_NODES = {
    "leaf": "none: it is a leaf that a backward fills",
    "no-graph": "none: no backward goes through it",
    "no-tensor": "none: there is no tensor",
}
