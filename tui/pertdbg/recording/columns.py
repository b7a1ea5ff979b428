"""The columns of a call in a recording, as data.

Packing, unpacking, the DDL, the checksum, the table `scalar` that describes the columns inside
the file, and the names that a series can be asked for all come from `CALL`. It is version 1 of
the format: a change here is another version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["int", "bool", "ref", "address", "mask", "float", "text", "blob"]
"""`int` and `bool` are numbers of the record. `ref` is the id of a row of another table,
`address` an unsigned 64-bit number stored as a signed one, `mask` a set of bits."""

ROLES = (
    "before.delta",
    "before.gradient",
    "before.input",
    "before.perturbed_input",
    "after.delta",
    "after.input",
    "after.perturbed_input",
)
"""The tensors of a record, below `CallRecord.tensors`."""

GRAPHS = ("delta", "perturbed_input")
"""The graphs of a record, below `CallRecord.graph`."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table `call`."""

    path: str
    """Where the value stands in a record, such as `gradient.norm`; also the name in a series."""
    kind: Kind
    unit: str
    doc: str

    @property
    def name(self) -> str:
        """Name of the column in SQL."""
        return self.path.removeprefix("tensors.").replace(".", "_")

    @property
    def plottable(self) -> bool:
        """Whether a series of it means anything."""
        return self.kind in ("int", "bool", "float")


def _int(path: str, unit: str, doc: str) -> Column:
    return Column(path, "int", unit, doc)


def _float(path: str, doc: str, unit: str = "1") -> Column:
    return Column(path, "float", unit, doc)


INTEGERS = (
    _int("call", "calls", "number of the call per layer, from 1"),
    _int("batch", "creations", "creations of delta so far"),
    _int("step", "updates", "updates since the last creation, 0 for the creation itself"),
    _int("rank", "1", "rank of the process"),
    _int("source_line", "line", "line of the update method's file"),
    Column("update.created", "bool", "1", "delta was made by this call"),
    Column("gradient.present", "bool", "1", "the delta found at entry had a gradient"),
    _int("gradient.nan", "elements", "NaN elements of the gradient"),
    _int("gradient.inf", "elements", "infinite elements of the gradient"),
    _int("gradient.backwards", "passes", "backward passes since the previous update"),
    _int("delta.nan", "elements", "NaN elements of delta"),
    _int("delta.inf", "elements", "infinite elements of delta"),
    _int("delta.beyond", "elements", "elements of delta beyond the bound"),
    _int("delta.at_bound", "elements", "elements of delta exactly at the bound"),
)
"""Whole numbers that every record has."""

RETURNED = Column("update.returned", "bool", "1", "what the update returned, if True or False")

RAISED_LINE = _int("update.raised.line", "line", "line that raised")

GRAPH_COLUMNS = tuple(
    column
    for which in GRAPHS
    for column in (
        _int(f"graph.{which}.nodes", "nodes", f"autograd nodes behind {which} at exit"),
        _int(f"graph.{which}.depth", "nodes", f"longest path behind {which} at exit"),
        Column(f"graph.{which}.complete", "bool", "1", "the walk saw the whole graph"),
    )
)

TENSOR_COLUMNS = tuple(
    column
    for role in ROLES
    for column in (
        Column(f"tensors.{role}", "ref", "tensor_kind.id", f"static facts of {role}"),
        _int(f"tensors.{role}.version", "writes", f"version counter of {role}"),
        Column(f"tensors.{role}.data_ptr", "address", "byte", f"address of {role}'s first element"),
    )
)

DETAILS = ("storages", "shared", "backward_reaches", "unknown", "findings", "caller")
"""Parts of a record that repeat: ids of rows of `detail`, NULL for an empty part."""

BOOKKEEPING = (
    Column("layer", "ref", "layer.id", "the layer"),
    Column("nan_mask", "mask", "1", "bit k: the k-th real column was NaN, stored as NULL"),
    Column("marks", "mask", "1", "created 1, refused 2, raised 4, nan 8, inf 16, left bound 32"),
)

FLOATS = (
    _float("time", "from the start of the recording to the end of the call", "s"),
    _float("update.learning_rate", "step size that the code declares"),
    _float("gradient.norm", "L2 norm, accumulated in float64"),
    _float("gradient.norm_in_dtype", "what grad.norm() gives in the gradient's dtype"),
    _float("gradient.max_abs", "largest |gradient|"),
    _float("gradient.min", "least element of the gradient"),
    _float("gradient.max", "largest element of the gradient"),
    _float("gradient.zero_fraction", "share of zero elements of the gradient"),
    _float("gradient.guard_fraction", "share of non-zero rows below the guard 1e-6"),
    _float("delta.norm", "L2 norm, accumulated in float64"),
    _float("delta.max_abs", "largest |delta|"),
    _float("delta.min", "least element of delta"),
    _float("delta.max", "largest element of delta"),
    _float("delta.mean", "mean of delta"),
    _float("delta.std", "population standard deviation of delta"),
    _float("delta.bound", "bound that the code declares for |delta|"),
    _float("delta.moved_max", "largest change of an element of delta in this call"),
    _float("delta.moved_fraction", "share of delta's elements that changed in this call"),
    _float("effect.visible_fraction", "share of elements where perturbed input and input differ"),
    _float("effect.changed_fraction", "share of the perturbed input that changed in this call"),
    _float("effect.cosine", "cosine of the perturbed input's change to delta's change"),
    _float("effect.gap_max", "largest |perturbed input - input|"),
)
"""Real numbers that every record has, in the order of the bits of `nan_mask`."""

HISTOGRAM_RANGE = (
    _float("delta.histogram_range.low", "lower edge of the histogram"),
    _float("delta.histogram_range.high", "upper edge of the histogram"),
)

TEXTS = (
    Column("gradient.reason", "text", "", "why there is no gradient"),
    Column("delta.bound_kind", "text", "", "creation: only the first delta is clamped; always"),
)

OTHER_TEXTS = (
    Column("update.returned_type", "text", "", "type of what the update returned, if not a bool"),
    Column("update.raised.type", "text", "", "type of the exception that left the update"),
    Column("update.raised.message", "text", "", "its text"),
)

BLOBS = (
    Column("storages.addresses", "blob", "byte", "addresses of the storages, uint64 LE each"),
    Column(
        "delta.histogram", "blob", "elements", "64 counts, uint32 LE, or uint64 LE if 512 bytes"
    ),
)

CALL = (
    Column("id", "int", "records", "number of the record, dense, from 1"),
    *INTEGERS,
    RETURNED,
    RAISED_LINE,
    *GRAPH_COLUMNS,
    *TENSOR_COLUMNS,
    *(Column(name, "ref", "detail.id", f"{name} of the record") for name in DETAILS),
    *BOOKKEEPING,
    *FLOATS,
    *HISTOGRAM_RANGE,
    *TEXTS,
    *OTHER_TEXTS,
    *BLOBS,
)
"""Every column of `call` but its checksum: whole numbers, then reals, then texts and blobs."""

PLOTTABLE = tuple(column for column in CALL if column.plottable)
"""What a series can be asked for, in the order in which tiles keep it."""
