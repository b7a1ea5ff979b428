"""Marks of a recording, one byte of bits a call, gathered as the recording grows."""

from __future__ import annotations

import functools
import itertools
import operator
from dataclasses import dataclass

from pertdbg.recording.reader import Recording


@dataclass(frozen=True)
class Kind:
    """A kind of mark: how it is drawn, and its words in the legend."""

    name: str
    glyph: str
    words: str
    style: str


KINDS = (
    Kind("stopped", "o", "stopped", "dim"),
    Kind("created", "+", "created", "ok"),
    Kind("beyond", "^", "beyond bound", "note"),
    Kind("other", "~", "gap", "warn"),
    Kind("refused", "x", "refused", "warn"),
    Kind("inf", "I", "Inf", "bad"),
    Kind("nan", "N", "NaN", "bad"),
    Kind("raised", "!", "raised", "bad"),
)
"""From the least to the most pressing: where several meet in a cell, the last is drawn."""

_BITS = {kind.name: 1 << index for index, kind in enumerate(KINDS)}
_OTHER = _BITS["other"]

_CHUNK = 20_000
"""Calls looked at in one go, so that a long recording never holds up a key."""


def kind_of(bits: int) -> Kind | None:
    """Give the most pressing of the kinds in a set of bits."""
    return KINDS[bits.bit_length() - 1] if bits else None


class Marks:
    """The marks of all calls seen so far."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._cells: tuple[int, int, int, list[int]] | None = None
        self._version = 0

    def fill(self, recording: Recording) -> bool:
        """Look at more calls; gives whether some are left to look at.

        The last call looked at before is looked at again: a stop there is marked after it.
        """
        first = max(len(self._bits), 1)
        last = min(recording.head, first + _CHUNK)
        self._bits.extend(bytes(max(last - len(self._bits), 0)))
        for mark in recording.marks(first, last):
            self._bits[mark.id - 1] |= _BITS.get(mark.kind, _OTHER)
        self._version += 1
        return last < recording.head

    def of(self, id_: int) -> int:
        """Give the bits of one call."""
        return self._bits[id_ - 1] if 0 < id_ <= len(self._bits) else 0

    def counts(self) -> list[tuple[Kind, int]]:
        """Count the calls with each kind of mark, leaving out kinds that there are none of."""
        present = [(value, self._bits.count(value)) for value in set(self._bits)]
        counted = [
            (kind, sum(n for value, n in present if value & bit))
            for kind, bit in zip(KINDS, _BITS.values(), strict=True)
        ]
        return [(kind, n) for kind, n in counted if n]

    def cells(self, head: int, cells: int) -> list[int]:
        """Gather the bits of calls 1 to head into so many cells."""
        key = (head, cells, self._version)
        if self._cells is None or self._cells[:3] != key:
            self._cells = (*key, self._gather(head, cells))
        return self._cells[3]

    def _gather(self, head: int, cells: int) -> list[int]:
        edges = [cell * head // cells for cell in range(cells + 1)]
        return [
            functools.reduce(operator.or_, set(self._bits[start:stop]), 0)
            for start, stop in itertools.pairwise(edges)
        ]
