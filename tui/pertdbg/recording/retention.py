"""Which tensors a recording keeps: what a person asked for, and what must go for room.

A call's tensors are kept or dropped together. Always kept are those of the first and the last two
calls of each layer, those around the first fault of each layer, and those of calls that were
pinned, up to half of the budget: the newest need room. The others are thinned so that the older
they are the further apart they stand; those around later faults go last.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field

from pertdbg.errors import PertdbgError
from pertdbg.recording.budget import DEFAULT

CALLS_LIMIT = 1 << 16
"""Most calls whose tensors are kept: what is known of each takes memory in the target."""


@dataclass(frozen=True, slots=True)
class TensorPolicy:
    """What `--tensors` asks for."""

    kind: str = "none"
    """`none`, `last`, `every`, `all`, or `faults`: no others than those around faults."""
    every: int = 1

    @classmethod
    def parse(cls, text: str) -> TensorPolicy:
        """Read `none`, `last`, `every:N`, `all` or, which only `check` asks for, `faults`.

        Raises:
            PertdbgError: It is something else.
        """
        found = re.fullmatch(r"every:([1-9]\d{0,8})", text)
        if found:
            return cls("every", int(found[1]))
        if text not in ("none", "last", "all", "faults"):
            raise PertdbgError(f"--tensors {text}: use none, last, every:N (N from 1) or all")
        return cls(text)

    def wants(self, call: int) -> bool:
        """Say whether the tensors of the call with this number are to be stored."""
        if self.kind == "every":
            return (call - 1) % self.every == 0
        return self.kind in ("last", "all")


@dataclass(slots=True)
class _Layer:
    """What is known of one layer's calls."""

    calls: int = 0
    call: int = 0
    """Number of the last one."""
    stored: int = 0
    """Calls whose tensors were stored, whether they still are or not."""
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=2))
    """The last two of them."""
    previous: int = 0
    """The last call of all."""
    faulty: bool = False
    """The last call had a fault."""
    near_fault: bool = False
    """The last call, or the one before it, had a fault."""
    first_fault: int = 0
    """Which of the calls was the first with a fault; 0 for none."""

    @property
    def near_first_fault(self) -> bool:
        """Whether the last call is the first one with a fault, or follows it."""
        return 0 < self.first_fault >= self.calls - 1


@dataclass(slots=True)
class _Kept:
    nbytes: int
    place: int
    """Counts the stored calls of the layer."""
    always: bool = False
    pinned: bool = False
    near_fault: bool = False


class Retention:
    """Decides; ids of records go in, ids of records whose tensors must go come out."""

    def __init__(self, policy: TensorPolicy, budget: int = DEFAULT) -> None:
        self._policy = policy
        self._budget = budget
        self._layers: defaultdict[str, _Layer] = defaultdict(_Layer)
        self._kept: dict[int, _Kept] = {}
        self._tiers = (_Thinning(near_fault=False), _Thinning(near_fault=True))
        self._head = 0
        self.nbytes = 0
        """Bytes that are kept."""
        self.thinned = 0
        """Calls whose tensors went to make room; not those that nobody asked to keep."""

    def wants(self, layer: str, call: int, *, fault: bool = False) -> bool:
        """Say whether the tensors of a layer's next call, or of its last, are to be stored.

        Args:
            layer: Its name.
            call: The number of the call.
            fault: Whether the call is known to have a fault.
        """
        if self._policy.kind == "none":
            return False
        known = self._layers[layer]
        near_fault = known.near_fault if call == known.call else known.faulty
        return fault or near_fault or self._policy.wants(call)

    def called(self, ident: int, layer: str, call: int, *, fault: bool) -> None:
        """Take note of a call, in order, before its tensors are stored."""
        known = self._layers[layer]
        known.call = call
        known.calls += 1
        known.near_fault = fault or known.faulty
        if fault and not known.first_fault:
            known.first_fault = known.calls
        if fault and not known.faulty and known.previous in self._kept:
            self._guard(known.previous, first=known.near_first_fault)
        known.previous, known.faulty = ident, fault
        self._head = ident

    def stored(self, ident: int, layer: str, nbytes: int) -> None:
        """Take note that a tensor of the layer's last call was stored."""
        known, kept = self._layers[layer], self._kept.get(ident)
        if kept is None:
            known.stored += 1
            kept = self._kept[ident] = _Kept(0, known.stored, always=known.stored == 1)
            known.recent.append(ident)
            if known.near_fault:
                self._guard(ident, first=known.near_first_fault)
            else:
                self._tiers[0].add(ident, known.stored)
        kept.nbytes += nbytes
        self.nbytes += nbytes

    def pin(self, ident: int) -> bool:
        """Keep a call's tensors whatever comes, unless such ones take half of the budget already.

        Returns:
            Whether they are kept so.
        """
        kept = self._kept.get(ident)
        if kept is None:
            return False
        pinned = sum(each.nbytes for each in self._kept.values() if each.pinned)
        if not kept.pinned and pinned + kept.nbytes > self._budget // 2:
            return False
        kept.always = kept.pinned = True
        return True

    def drop(self, ident: int) -> None:
        """Take note that a call's tensors have gone."""
        if ident in self._kept:
            self._drop(ident)

    def room_for(self, ident: int, layer: str, nbytes: int) -> tuple[list[int], bool]:
        """Make room.

        Args:
            ident: The call that the bytes belong to.
            layer: Its layer.
            nbytes: How many.

        Returns:
            The calls whose tensors must go, and whether there is room then.
        """
        gone: list[int] = []
        calls = CALLS_LIMIT - (ident not in self._kept)
        if nbytes > self._budget:
            return gone, False
        newest = {k for known in self._layers.values() for k in known.recent}
        recent = self._layers[layer].recent
        if ident not in recent and len(recent) == recent.maxlen:
            newest.discard(recent[0])
        while self.nbytes + nbytes > self._budget or len(self._kept) > calls:
            victim = self._victim(0, newest) or self._victim(1, newest)
            if not victim:
                break
            gone.append(self._drop(victim))
            self.thinned += 1
        while self._policy.kind == "last" and (victim := self._victim(0, newest)):
            gone.append(self._drop(victim))
        return gone, self.nbytes + nbytes <= self._budget and len(self._kept) <= calls

    def _guard(self, ident: int, *, first: bool) -> None:
        kept = self._kept[ident]
        kept.near_fault = True
        kept.always = kept.always or first
        self._tiers[1].add(ident, kept.place)

    def _victim(self, tier: int, newest: set[int]) -> int:
        return self._tiers[tier].victim(self._head, self._kept, newest)

    def _drop(self, ident: int) -> int:
        self.nbytes -= self._kept.pop(ident).nbytes
        return ident


class _Thinning:
    """Chooses what goes next, so that spacing doubles as age doubles.

    The n-th call is of level k where 2**k is the largest power of two that divides n. Of each
    level the oldest goes first, and of all levels the one that is oldest for its spacing.
    """

    def __init__(self, *, near_fault: bool) -> None:
        self._near_fault = near_fault
        self._levels: defaultdict[int, deque[int]] = defaultdict(deque)

    def add(self, ident: int, number: int) -> None:
        self._levels[(number & -number).bit_length()].append(ident)

    def victim(self, head: int, kept: dict[int, _Kept], newest: set[int]) -> int:
        best, chosen = 0.0, 0
        for level, queue in self._levels.items():
            while queue and self._settled(kept.get(queue[0])):
                queue.popleft()
            if queue and queue[0] not in newest and (head - queue[0] + 1) / (1 << level) > best:
                best, chosen = (head - queue[0] + 1) / (1 << level), queue[0]
        return chosen

    def _settled(self, kept: _Kept | None) -> bool:
        """Say whether a call is gone, stays for good, or is the other tier's."""
        return kept is None or kept.always or kept.near_fault != self._near_fault
