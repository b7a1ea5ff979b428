"""Which tensors of a call lie in one storage, told among tensors that are alive together."""

from __future__ import annotations

from dataclasses import dataclass, field

from pertdbg.agent.quiet import Notes
from pertdbg.agent.tensors import Sight
from pertdbg.record import StorageFacts

AFTER = ("input", "delta", "perturbed_input")
"""Roles at exit, in the order in which their storages get labels and in which pairs are named."""

BEFORE = ("input", "delta", "perturbed_input", "gradient")
"""Roles at entry, labelled after those."""


@dataclass(slots=True)
class _Held:
    address: int | None
    nbytes: int
    no_address: str
    holds: list[str] = field(default_factory=list)


class Labels:
    """Gives the storages of one call the labels A, B, C in first-seen order.

    A storage is known by its StorageImpl, never by its address: each `Sight` keeps its storage
    alive, so that two of them with one identity are one storage.
    """

    def __init__(self, before: dict[str, Sight], after: dict[str, Sight]) -> None:
        self._held: dict[int, _Held] = {}
        self._after = {role: key for role in AFTER if (key := _key(after.get(role))) is not None}
        for role in AFTER:
            self._put(after.get(role), role)
        for role in BEFORE:
            sight = before.get(role)
            if _key(sight) != self._after.get(role, -1):
                self._put(sight, role if role == "gradient" else f"before.{role}")

    def _put(self, sight: Sight | None, name: str) -> None:
        key = _key(sight)
        if sight is None or sight.storage is None or key is None:
            return
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(sight.address, sight.nbytes, sight.no_address)
        held.holds.append(name)

    def label(self, sight: Sight) -> str | None:
        """Give the label of a tensor's storage, None where it has none."""
        key = _key(sight)
        return None if key is None else _letters(list(self._held).index(key))

    def facts(self, notes: Notes) -> dict[str, StorageFacts]:
        """Give the storages by label."""
        facts = {}
        for place, held in enumerate(self._held.values()):
            label = _letters(place)
            if held.address is None:
                notes.add(f"storages.{label}.address", held.no_address)
            facts[label] = StorageFacts(held.address, held.nbytes, tuple(held.holds))
        return facts

    def shared(self) -> tuple[tuple[str, str], ...]:
        """Give the pairs of roles at exit that lie in one storage."""
        pairs = [(a, b) for i, a in enumerate(AFTER) for b in AFTER[i + 1 :]]
        known = self._after
        return tuple((a, b) for a, b in pairs if a in known and known[a] == known.get(b))


def _key(sight: Sight | None) -> int | None:
    return None if sight is None or sight.storage is None else sight.storage._cdata


def _letters(place: int) -> str:
    """Give A to Z for the first places; a call has at most seven storages."""
    return chr(ord("A") + place)
