"""What a recording holds beside the records of calls."""

from __future__ import annotations

import array
import sys
from dataclasses import dataclass

DERIVED_MARKS = ("created", "refused", "raised", "nan", "inf", "beyond")
"""Kinds of marks that follow from a record, in the order of their bits in the column `marks`:
delta was created; the update returned False; it raised; the gradient or delta holds a NaN; or an
infinity; delta left its bound at this call."""

FAULT_MARKS = ("refused", "raised", "nan", "inf")
"""Those that point at a fault."""

FAULTS = sum(1 << DERIVED_MARKS.index(kind) for kind in FAULT_MARKS)
"""Their bits in the column `marks`."""


@dataclass(frozen=True, slots=True)
class LayerSource:
    """A layer that is observed, and the source of its update method."""

    name: str
    cls: str | None = None
    file: str | None = None
    first_line: int | None = None
    """Line of `file` at which `source` begins."""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A call worth going to."""

    id: int
    """Of the record."""
    kind: str
    """One of `DERIVED_MARKS`, or what `Recorder.mark` was given."""
    text: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """|delta| as a picture: each cell is the maximum of the elements that it stands for."""

    rows: int
    cols: int
    data: bytes
    """rows x cols float32, little endian, row by row; NaN where one of the elements is NaN."""
    whole_rows: int
    """Rows of delta seen as a matrix (all dimensions but the last)."""
    whole_cols: int

    def values(self) -> array.array[float]:
        """Give the cells as an array of floats, row by row."""
        cells = array.array("f")
        cells.frombytes(self.data)
        if sys.byteorder == "big":
            cells.byteswap()
        return cells
