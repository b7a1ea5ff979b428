"""The autograd graphs of a call as a tree that opens where one asks it to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from pertdbg.app.keys import GRAPH_BINDINGS
from pertdbg.app.numbers import count, size
from pertdbg.app.screens.dialogs import Dialog
from pertdbg.event import GraphNode, GraphTree
from pertdbg.output.safe import printable
from pertdbg.output.words import role, several

_REASONS = {
    "leaf": "a leaf: nothing made it, and a backward fills its own gradient",
    "no-graph": "no graph: it requires no gradient",
    "no-tensor": "no tensor there",
}

_NAMED = 3
"""Tensors saved for the backward that are named of one node."""

Place = tuple[str, int]
"""A role, and a node of its graph."""


class GraphOf(Dialog[None]):
    """A branch for each tensor, and below each node those that a backward goes on to."""

    BINDINGS: ClassVar[list[BindingType]] = GRAPH_BINDINGS

    def __init__(self, title: str, graphs: Mapping[str, GraphTree]) -> None:
        """Prepare the screen.

        Args:
            title: Of which call.
            graphs: By the role of the tensor.
        """
        super().__init__(classes="-whole")
        self._title, self._graphs = title, graphs

    def compose(self) -> ComposeResult:
        """Lay the tree into a box as large as the screen."""
        with Vertical(id="dialog") as box:
            box.border_title = printable(self._title)
            box.border_subtitle = "enter opens and closes  up/down  escape closes"
            tree: Tree[Place] = Tree("graphs")
            tree.show_root = False
            yield tree

    def on_mount(self) -> None:
        """Make a branch for each tensor."""
        tree = self.branches
        for name, graph in self._graphs.items():
            branch = tree.root.add(
                _summary(name, graph), (name, -1), allow_expand=bool(graph.nodes)
            )
            if graph.nodes:
                self._add(branch, name, 0)
                branch.expand()
        tree.cursor_line = 0
        tree.focus()

    @property
    def branches(self) -> Tree[Place]:
        """The tree."""
        return self.query_one(Tree)

    @on(Tree.NodeExpanded)
    def _expanded(self, event: Tree.NodeExpanded[Place]) -> None:
        """Make the branches below a node when it is opened for the first time."""
        node = event.node
        if node.data is None or node.children:
            return
        name, place = node.data
        for to in dict.fromkeys(self._graphs[name].nodes[place].inputs):
            self._add(node, name, to)

    def _add(self, branch: TreeNode[Place], name: str, place: int) -> None:
        node = self._graphs[name].nodes[place]
        branch.add(_label(node), (name, place), allow_expand=bool(node.inputs))


def _summary(name: str, graph: GraphTree) -> Text:
    text = Text(printable(role(name)), "bold")
    if not graph.nodes:
        return text.append(f"  {_REASONS.get(graph.reason or '', 'not known')}", "")
    leaves = dict.fromkeys(node.leaf for node in graph.nodes if node.leaf is not None)
    saved = [nbytes for node in graph.nodes for _, _, nbytes in node.saved]
    fills = ", ".join(leaves) or "no leaf"
    more = "" if graph.complete else " at least (the walk stopped)"
    said = f"  {several(len(graph.nodes), 'node')}{more}; a backward fills {fills}; "
    said += f"{several(len(saved), 'tensor')} saved for it, {size(sum(saved))}"
    return text.append(printable(said))


def _label(node: GraphNode) -> Text:
    text = Text(printable(node.name), "bold" if node.leaf else "")
    if node.leaf is not None:
        text.append(printable(f"  fills {node.leaf}.grad"), "bold")
    if node.freed:
        text.append("  what was saved is freed", "dim")
    parts = [
        f"{name} {'x'.join(map(str, shape)) or 'scalar'} ({size(nbytes)})"
        for name, shape, nbytes in node.saved[:_NAMED]
    ]
    rest = len(node.saved) - len(parts)
    if parts:
        more = f" and {count(rest)} more" if rest else ""
        text.append(printable(f"  saved: {', '.join(parts)}{more}"), "dim")
    return text
