"""From a call's lines to what the recording keeps of its inside, and stopping in between."""

from __future__ import annotations

import re
import sys
import types
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pertdbg.agent.graphtree import NameLeaf, tree_of
from pertdbg.agent.lines.frames import hide
from pertdbg.agent.lines.lines import Lines
from pertdbg.agent.lines.storages import key_of
from pertdbg.agent.lines.tracer import tracer
from pertdbg.agent.names import names
from pertdbg.agent.probe import Entry, Observation, Roles
from pertdbg.agent.quiet import Notes, Quiet
from pertdbg.agent.seams.guard import Guard
from pertdbg.agent.storage import AFTER, BEFORE
from pertdbg.agent.tensors import is_tensor
from pertdbg.event import GraphTree
from pertdbg.recording.events import Inside

if TYPE_CHECKING:
    from pertdbg.agent.run import Run


class CallLines:
    """The lines of one call or, for a loop, of one pass after the other."""

    def __init__(self, run: Run, *, core: bool) -> None:
        """Prepare; nothing is traced before `start`."""
        self._run, self._core = run, core
        self.lines = Lines(run, core=core)
        self.lines.stop = self._stop
        self._tracer = tracer(self.lines, None)
        self._keys: dict[str, int] = {}
        self._loss: GraphTree | None = None

    def begin(self, entry: Entry | None) -> None:
        """A call begins: what stands in its roles gets the first labels."""
        loss, self._run.loss = self._run.loss, None
        if loss is not None:
            self._loss = loss.naming(None if entry is None else entry.roles)
        sights = entry.sights if entry is not None else {}
        storages = {role: sights[role].storage for role in BEFORE if role in sights}
        self._keys = {role: s._cdata for role, s in storages.items() if s is not None}
        for storage in storages.values():
            if storage is not None:
                self.lines.storages.label(storage)

    def start(
        self, code: types.CodeType | None = None, frame: types.FrameType | None = None
    ) -> None:
        """Begin to trace.

        Args:
            code: The function to go through, which is called next.
            frame: The one to go through from here on, where somebody else tells of its lines.
        """
        self._tracer = tracer(self.lines, code)
        self._tracer.start()
        if frame is not None:
            self.lines.copied = sys.version_info < (3, 12)
            self.lines.untraced = not self.lines.copied
            self.lines.enter(frame)

    def stop(self, error: BaseException | None = None) -> None:
        """End tracing; what was kept can still be had.

        Args:
            error: What left the function, if it raised: its traceback is as without us then.
        """
        self._tracer.stop()
        self.lines.still()
        if error is not None:
            with Guard(self._run, "tidying up a traceback"):
                hide(error.__traceback__, self.lines.mode.extra)

    def inside(self, roles: Roles, seen: Observation) -> tuple[Inside, dict[str, str]]:
        """Give what was kept since the last record, and new labels for its storages.

        Args:
            roles: What stands in the roles when the call ends.
            seen: What the record says of it: there a storage has the label that it gets here.
        """
        events, lost = self.lines.take()
        with Quiet():
            known = self._labels(roles, seen)
            renamed = self.lines.storages.renamed(known)
            graphs = _graphs(roles)
        if self._loss is not None:
            graphs["loss"], self._loss = self._loss, None
        return Inside(tuple(events), lost, graphs), renamed

    def close(self) -> None:
        """Let go of everything."""
        self.stop()
        self.lines.close()

    def _labels(self, roles: Roles, seen: Observation) -> dict[int, str]:
        """Give the labels of the record by the identity of the storage."""
        known: dict[int, str] = {}
        for role in AFTER:
            tensor, facts = getattr(roles, role), getattr(seen.tensors.after, role)
            key = key_of(tensor) if is_tensor(tensor) else None
            if key is not None and facts is not None and facts.storage is not None:
                known[key] = facts.storage
        for role, key in self._keys.items():
            facts = getattr(seen.tensors.before, role)
            if facts is not None and facts.storage is not None:
                known.setdefault(key, facts.storage)
        return known

    def _stop(self, lines: Lines) -> None:
        self._run.at_line(lines)


def _graphs(roles: Roles) -> dict[str, GraphTree]:
    found = {}
    for role in ("delta", "perturbed_input"):
        with Notes().attempting(role):
            found[role] = tree_of(getattr(roles, role), _named(roles))
    return found


def _named(roles: Roles) -> NameLeaf:
    def name(leaf: Any) -> str:
        role = next((role for role in AFTER if getattr(roles, role) is leaf), None)
        return role or names.parameter(leaf)

    return name


@dataclass
class LossGraph:
    """The graph that a backward goes through, as it was before; keeps no tensor alive."""

    tree: GraphTree
    leaves: list[tuple[str, weakref.ref[Any]]]
    """The leaves in it, by the names that they have there."""

    def naming(self, roles: Roles | None) -> GraphTree:
        """Give the graph with each leaf that stands in a role called by that."""
        found: dict[str, str] = {}
        for name, reference in self.leaves:
            leaf = reference()
            role = next(
                (r for r in BEFORE if leaf is not None and getattr(roles, r, None) is leaf), ""
            )
            found[name] = role or _PLACE.sub("", name)
        nodes = (
            replace(n, leaf=found.get(n.leaf, n.leaf)) if n.leaf else n for n in self.tree.nodes
        )
        return replace(self.tree, nodes=tuple(nodes))


_PLACE = re.compile("#[0-9]+$")


def loss_graph(roots: Any) -> LossGraph | None:
    """Give the graph that a backward is about to go through, from the first of its roots."""
    first = next((root for root in roots or () if is_tensor(root)), None)
    leaves: list[tuple[str, weakref.ref[Any]]] = []

    def name(leaf: Any) -> str:
        leaves.append((f"{names.parameter(leaf)}#{len(leaves)}", weakref.ref(leaf)))
        return leaves[-1][0]

    with Notes().attempting("loss"), Quiet():
        return LossGraph(tree_of(first, name), leaves)
    return None
