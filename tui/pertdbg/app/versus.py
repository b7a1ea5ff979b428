"""Two recordings beside each other, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pertdbg.compare import Difference, differences
from pertdbg.errors import PertdbgError
from pertdbg.record import CallRecord
from pertdbg.recording.reader import Recording


@dataclass(frozen=True)
class Pair:
    """A call in both recordings."""

    a: CallRecord | None
    b: CallRecord | None
    found: list[Difference] = field(default_factory=list)
    """What differs, in the order of a record's fields."""
    problem: str = ""
    """Why one of them can't be shown."""

    @property
    def differs(self) -> bool:
        """Whether there is something to see."""
        return bool(self.found or self.problem or self.b is None)


class Versus:
    """A recording and another one that it is compared with."""

    def __init__(self, a: Recording, b: Recording) -> None:
        self.a, self.b = a, b

    def at(self, ident: int) -> Pair:
        """Compare a call of the first recording with the same call of the other."""
        try:
            one = self.a.record(ident)
        except PertdbgError as error:
            return Pair(None, None, problem=str(error))
        try:
            other = self._same(one)
        except PertdbgError as error:
            return Pair(one, None, problem=str(error))
        return Pair(one, other, [] if other is None else differences(one, other))

    def search(self, ident: int, *, forward: bool = True) -> Iterator[int | None]:
        """Go on from a call to the next that differs.

        Yields:
            None for each call that does not differ; then the id of the one that does, if any.
        """
        step = 1 if forward else -1
        ident += step
        while 1 <= ident <= self.a.head:
            if self.at(ident).differs:
                yield ident
                return
            yield None
            ident += step

    def _same(self, one: CallRecord) -> CallRecord | None:
        """Give the same call of the same layer: most often it has the same id."""
        if one.id <= self.b.head:
            other = self.b.record(one.id)
            if (other.layer, other.call) == (one.layer, one.call):
                return other
        found = self.b.find(call=one.call, layer=one.layer)
        return self.b.record(found[0]) if found else None
