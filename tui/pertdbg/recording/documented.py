"""What each column of a recording means, for people who read it with other tools."""

from __future__ import annotations

from pertdbg.recording import schema
from pertdbg.recording.columns import CALL

_CRC = "checksum of the row"

OTHERS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "meta": (
        ("key", "", "name of a fact about the whole run"),
        ("value", "", "its value: text, a number or NULL"),
    ),
    "layer": (
        ("id", "1", "number that call.layer holds"),
        ("first_line", "line", "line of file at which source begins"),
        ("name", "", "path of the module, such as encoder.pert"),
        ("cls", "", "its class"),
        ("file", "", "file of its update method"),
        ("source", "", "source of its update method"),
    ),
    "tensor_kind": (
        ("id", "1", "number that the tensor columns of call hold"),
        ("is_leaf", "1", "the tensor is a leaf of the graph"),
        ("requires_grad", "1", "its flag"),
        ("retains_grad", "1", "a non-leaf that keeps its gradient"),
        ("has_grad", "1", ".grad holds a tensor; NULL where asking would warn"),
        ("has_tangent", "1", "it carries a forward-mode tangent"),
        ("storage_offset", "elements", "where it begins in its storage"),
        ("nbytes", "byte", "size of its own elements"),
        ("is_view", "1", "it is a view of another tensor"),
        ("contiguous", "1", "its elements lie in order"),
        ("shape", "elements", "JSON list"),
        ("dtype", "", "element type"),
        ("device", "", "such as cpu or cuda:0"),
        ("layout", "", "such as strided"),
        ("grad_fn", "", "autograd node that made it; NULL for a leaf"),
        ("storage", "", "label of its storage within the call"),
        ("stride", "elements", "JSON list"),
    ),
    "detail": (
        ("id", "1", "number that storages, shared, ..., caller of call hold"),
        ("json", "", "the part of the record, JSON"),
    ),
    "mark": (
        ("id", "1", "number of the mark"),
        ("call", "call.id", "the record that is marked"),
        ("kind", "", "such as stopped or gap"),
        ("text", "", "what it says"),
    ),
    "picture": (
        ("id", "call.id", "the record"),
        ("rows", "cells", "height of the picture"),
        ("cols", "cells", "width of the picture"),
        ("whole_rows", "elements", "height of delta as a matrix"),
        ("whole_cols", "elements", "width of delta as a matrix"),
        ("data", "1", "largest |delta| of each cell, float32 LE, row by row"),
    ),
    "output": (
        ("id", "1", "number of the chunk, in order"),
        ("call", "call.id", "the record before whose end it was printed"),
        ("stream", "", "stdout or stderr"),
        ("data", "byte", "what was printed"),
    ),
    "tile": (
        ("id", "1", "level << 40 | index; a tile sums up 16**level records in a row"),
        (
            "data",
            "",
            "uint64 of marks, then for each number of call, in order: uint32 known,"
            " uint32 NaN or infinite, float64 least and greatest finite value; LE",
        ),
    ),
    "event": (
        ("call", "call.id", "the record"),
        ("data", "", "JSON of what its lines did, and of its graphs"),
    ),
    "clock": (
        ("mono_ns", "ns", "monotonic clock of the process"),
        ("wall_ns", "ns", "time since 1970 at that moment"),
    ),
    "tensor": (
        ("id", "1", "number of the tensor"),
        ("call", "call.id", "the record that it belongs to"),
        ("nbytes", "byte", "size of all its parts"),
        ("parts", "1", "how many there are; fewer in tensor_part: it was not finished"),
        ("pinned", "1", "a person asked to keep it"),
        ("role", "", "such as delta or gradient"),
        ("dtype", "", "element type"),
        ("shape", "elements", "JSON list"),
        ("codec", "", "safetensors: the parts in order are such a file"),
        ("why", "", "what asked for it"),
    ),
    "tensor_part": (
        ("id", "1", "tensor << 16 | part"),
        ("tensor", "tensor.id", "the tensor"),
        ("part", "1", "number of the part, from 0"),
        ("data", "byte", "262144 bytes of the file, fewer in the last part"),
    ),
}
"""Name, unit and meaning of the columns of the tables beside `call`, without their checksums."""


def described() -> list[tuple[int, str, str | None, str, str, str]]:
    """Give the rows of the table `scalar`: the columns of `call`, then `table.column`."""
    rows: list[tuple[int, str, str | None, str, str, str]] = [
        (k, c.name, c.path, c.kind, c.unit, c.doc) for k, c in enumerate(CALL)
    ]
    for table, columns in OTHERS.items():
        kinds = _kinds(table)
        for name, unit, doc in columns:
            rows.append((len(rows), f"{table}.{name}", None, kinds.get(name, "any"), unit, doc))
    return rows


def markdown() -> str:
    """Give the columns of all tables as tables of Markdown."""
    lines = ["### call", "", *_HEAD, *(_line(c.name, c.kind, c.unit, c.doc) for c in CALL)]
    lines.append(_line("crc", "int", "1", _CRC))
    for table, columns in OTHERS.items():
        kinds = _kinds(table)
        lines += ["", f"### {table}", "", *_HEAD]
        lines += [_line(name, kinds.get(name, "any"), unit, doc) for name, unit, doc in columns]
        lines.append(_line("crc", "int", "1", _CRC))
    return "\n".join(lines) + "\n"


_HEAD = ("| column | type | unit | meaning |", "|---|---|---|---|")


def _line(name: str, kind: str, unit: str, doc: str) -> str:
    doc = doc.replace("|", "\\|").replace("<", "&lt;")
    return f"| `{name}` | {kind} | {unit or '-'} | {doc} |"


def _kinds(name: str) -> dict[str, str]:
    table = next((table for table in schema.TABLES if table.name == name), None)
    if table is None:
        return {}
    groups = {"int": table.ints, "float": table.floats, "text": table.texts, "blob": table.blobs}
    return {column: kind for kind, columns in groups.items() for column in columns}
