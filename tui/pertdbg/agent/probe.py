"""From the live tensors of one call to frozen facts, without a trace in the caller's program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pertdbg.agent.base import dtype_of
from pertdbg.agent.delta import DeltaReading, read_delta, read_move
from pertdbg.agent.effect import EffectReading, Moment, read_change, read_gap
from pertdbg.agent.gradient import GradientReading, find_gradient, read_gradient
from pertdbg.agent.graph import graphs_of
from pertdbg.agent.mark import Mark
from pertdbg.agent.measure import CORE, Settings, read_values
from pertdbg.agent.names import names
from pertdbg.agent.numbers import Plan, Raw, settle
from pertdbg.agent.picture import Pictures, pictures_of
from pertdbg.agent.quiet import Notes, Quiet, Ungraded
from pertdbg.agent.storage import AFTER, Labels
from pertdbg.agent.tensors import Sight, is_tensor, see
from pertdbg.agent.values import Pool, Values, copy_of
from pertdbg.record import (
    BoundKind,
    BoundOf,
    DeltaFacts,
    EffectFacts,
    GradientFacts,
    Graphs,
    Reach,
    StorageFacts,
    Tensors,
    TensorsAfter,
    TensorsBefore,
    Unknown,
)
from pertdbg.recording.parts import HeatMap

Sights = dict[str, Sight]


@dataclass(frozen=True, slots=True)
class Roles:
    """What stands in the roles of a layer at one moment: tensors, None, or anything else."""

    delta: Any = None
    input: Any = None
    perturbed_input: Any = None


@dataclass(slots=True)
class Entry:
    """What was read when a call began. Holds live tensors until `Probe.leave`, or until dropped."""

    roles: Roles
    notes: Notes = field(default_factory=Notes)
    sights: Sights = field(default_factory=dict)
    gradient: GradientReading = field(
        default_factory=lambda: GradientReading(present=False, reason=None, backwards=None)
    )
    delta: DeltaReading = field(default_factory=lambda: DeltaReading(None, None))
    kept: Moment = field(default_factory=Moment)
    mark: Mark | None = None
    lost: dict[str, str] = field(default_factory=dict)
    """Why the values of a role could not be kept."""
    input_replaced: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """The parts of a record that come from tensors."""

    gradient: GradientFacts
    delta: DeltaFacts
    effect: EffectFacts
    tensors: Tensors
    storages: dict[str, StorageFacts]
    shared: tuple[tuple[str, str], ...]
    backward_reaches: Reach
    graph: Graphs
    unknown: tuple[Unknown, ...]
    picture: HeatMap | None = None


class Probe:
    """Reads the tensors of calls.

    Nothing of the caller's changes: no value, version, gradient, graph, mode, random state or
    warning, and no tensor lives on because of us after `leave`. What can't be read is None in the
    facts, with the reason in `Observation.unknown`.
    """

    def __init__(self, *, facts: Literal["core", "all"] = "all", use_numpy: bool = True) -> None:
        """Choose how much to read.

        Args:
            facts: ``core`` reads flags, addresses, versions and the cheapest numbers, and copies
                nothing; ``all`` also compares exit with entry, which takes copies at entry.
            use_numpy: Whether numpy may be used where it can be imported.
        """
        self._settings = Settings(core=facts == "core", use_numpy=use_numpy)
        self._pool = Pool()

    def enter(
        self,
        roles: Roles,
        *,
        bound: float | None = None,
        bound_kind: BoundKind | None = None,
        bound_norm: float | None = None,
        bound_of: BoundOf | None = None,
        backwards: int | None = None,
        input_replaced: bool = False,
    ) -> Entry:
        """Read what is there before the body of the update runs.

        Args:
            roles: What stands in the roles now.
            bound: The limit that the code declares for delta.
            bound_kind: When that limit holds.
            bound_norm: The limit that the code declares for an L2 norm of delta.
            bound_of: Whether that is the norm of each sample, or of the whole.
            backwards: Backward passes started since the previous update; None if not counted.
            input_replaced: The input is not the one that the perturbed input was made from, so
                that comparing the perturbed inputs of entry and exit means nothing.
        """
        delta = DeltaReading(bound, bound_kind, bound_norm, bound_of)
        entry = Entry(roles, delta=delta, input_replaced=input_replaced)
        with Quiet():
            self._see(roles, "before", entry.sights, entry.notes)
            with entry.notes.attempting("gradient"):
                self._read_gradient(entry, backwards)
            if not self._settings.core and roles.delta is not None:
                with Ungraded():
                    self._keep(entry)
        return entry

    def leave(self, entry: Entry, roles: Roles, *, pictures: Pictures | None = None) -> Observation:
        """Read what is left at exit, compare, and let go of every tensor.

        Args:
            entry: What `enter` gave; of no use afterwards.
            roles: What stands in the roles now.
            pictures: Asked once for which pictures to make; none are made without it.
        """
        with Quiet():
            try:
                return self._leave(entry, roles, pictures)
            finally:
                self._release(entry)

    def _see(self, roles: Roles, when: str, sights: Sights, notes: Notes) -> None:
        for role in AFTER:
            tensor, path = getattr(roles, role), f"tensors.{when}.{role}"
            if is_tensor(tensor):
                sight = see(tensor, path, notes)
                if sight is not None:
                    sights[role] = sight
            elif tensor is not None:
                notes.add(path, f"not a tensor: {type(tensor).__name__}")

    def _read_gradient(self, entry: Entry, backwards: int | None) -> None:
        gradient, reason = find_gradient(entry.roles.delta, backwards, entry.notes)
        sight = None
        if gradient is not None:
            sight = see(gradient, "tensors.before.gradient", entry.notes)
            if sight is not None:
                entry.sights["gradient"] = sight
        with Ungraded():
            entry.gradient = read_gradient(
                gradient, sight, reason, backwards, self._settings, entry.notes
            )

    def _keep(self, entry: Entry) -> None:
        """Copy what exit will be compared with: an update in place leaves nothing of it."""
        roles, kept = entry.roles, entry.kept
        for role in ("delta", "perturbed_input", "input"):
            tensor, why = getattr(roles, role), Notes()
            values = read_values(tensor, entry.sights.get(role), role, self._settings, why)
            with why.attempting(role):
                if values is not None and role == "input":
                    entry.mark = Mark(tensor, values, self._pool)
                elif values is not None:
                    setattr(kept, role, copy_of(values, self._pool))
            for unknown in why.all():
                entry.lost[role] = unknown.reason

    def _leave(self, entry: Entry, roles: Roles, pictures: Pictures | None) -> Observation:
        sights: Sights = {}
        notes = entry.notes
        self._see(roles, "after", sights, notes)
        labels = Labels(entry.sights, sights)
        by_role = {role: getattr(roles, role) for role in AFTER}
        by_role["before.delta"] = entry.roles.delta
        graphs, reach = graphs_of(by_role, names.parameter, notes)
        with Ungraded():
            gradient, delta, effect, picture = self._numbers(entry, roles, sights, pictures)
        return Observation(
            gradient=gradient,
            delta=delta,
            effect=effect,
            tensors=Tensors(
                before=TensorsBefore(**_facts(entry.sights, labels)),
                after=TensorsAfter(**_facts(sights, labels)),
            ),
            storages=labels.facts(notes),
            shared=labels.shared(),
            backward_reaches=reach,
            graph=graphs,
            unknown=notes.all(),
            picture=picture,
        )

    def _numbers(
        self, entry: Entry, roles: Roles, sights: Sights, pictures: Pictures | None
    ) -> tuple[GradientFacts, DeltaFacts, EffectFacts, HeatMap | None]:
        notes, now, effect = entry.notes, Moment(), EffectReading()
        plan = Plan()
        now.delta = self._values(roles, "delta", sights, "delta", notes)
        if now.delta is not None:
            self._read_delta(entry, now.delta, roles, plan)
        if roles.input is not None and roles.perturbed_input is not None:
            self._read_effect(entry, now, roles, sights, effect, plan)
        gradient, delta, moved, *of_effect = _computed(
            plan,
            [entry.gradient.raw, entry.delta.raw, entry.delta.moved, *effect.parts()],
            notes,
        )
        counts, picture = pictures_of(now.delta, pictures, notes)
        return (
            entry.gradient.facts(gradient, notes),
            entry.delta.facts(delta, moved, counts),
            effect.facts(of_effect, notes),
            picture,
        )

    def _values(
        self, roles: Roles, role: str, sights: Sights, part: str, notes: Notes
    ) -> Values | None:
        return read_values(getattr(roles, role), sights.get(role), part, self._settings, notes)

    def _read_delta(self, entry: Entry, values: Values, roles: Roles, plan: Plan) -> None:
        notes, reading = entry.notes, entry.delta
        with notes.attempting("delta"):
            read_delta(values, dtype_of(roles.delta), reading, plan, self._settings, notes)
        why_not = entry.lost.get("delta")
        if entry.roles.delta is None:
            why_not = "created"
        elif self._settings.core:
            why_not = CORE
        with notes.attempting("delta", "moved_max", "moved_fraction"):
            read_move(values, entry.kept.delta, why_not, reading, plan, notes)

    def _read_effect(
        self,
        entry: Entry,
        now: Moment,
        roles: Roles,
        sights: Sights,
        effect: EffectReading,
        plan: Plan,
    ) -> None:
        notes = entry.notes
        if self._settings.core:
            notes.add("effect", CORE)
            return
        now.input = self._values(roles, "input", sights, "effect", notes)
        now.perturbed_input = self._values(roles, "perturbed_input", sights, "effect", notes)
        read_gap(now, effect, plan, notes)
        why_not = _why_not_changed(entry, roles)
        if why_not is None and now.input is not None and entry.mark is not None:
            with notes.attempting("effect", "changed_fraction", "cosine"):
                effect.same = entry.mark.compare(roles.input, now.input, plan)
        read_change(now, entry.kept, why_not, effect, plan, notes)

    def _release(self, entry: Entry) -> None:
        for values in (entry.kept.delta, entry.kept.perturbed_input):
            if values is not None:
                self._pool.give(values)
        if entry.mark is not None:
            entry.mark.release(self._pool)
        entry.roles, entry.kept, entry.mark, entry.sights = Roles(), Moment(), None, {}
        entry.gradient.raw = {}


def _why_not_changed(entry: Entry, roles: Roles) -> str | None:
    """Say why the perturbed inputs of entry and exit can't be compared, so far as that is known."""
    then = entry.roles
    if then.delta is None:
        return "no-delta" if roles.delta is None else "created"
    if then.perturbed_input is None:
        return "created"
    if then.input is None or entry.input_replaced:
        return "input-changed"
    return entry.lost.get("perturbed_input") or entry.lost.get("input")


def _facts(sights: Sights, labels: Labels) -> dict[str, Any]:
    return {role: sight.facts(labels.label(sight)) for role, sight in sights.items()}


def _computed(plan: Plan, parts: list[Raw], notes: Notes) -> list[dict[str, float]]:
    """Compute what was planned and bring it here; where that fails, all is unknown."""
    why = Notes()
    with why.attempting(""):
        plan.run()
        return settle(parts)
    for unknown in why.all():
        for part in ("gradient", "delta", "effect"):
            notes.add(part, unknown.reason)
    return [{} for _ in parts]
