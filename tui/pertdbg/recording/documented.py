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
        ("json", "", "the part of the record, JSON; PART.json[k] is what item k of it says"),
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


IN_DETAIL: tuple[tuple[str, str | None, str, str, str], ...] = (
    ("storages.json[*][0]", None, "text", "", "label of a storage within the call"),
    ("storages.json[*][1]", None, "int", "byte", "its size"),
    ("storages.json[*][2]", None, "any", "", "list of the tensors that it holds"),
    ("storages.json[*][3]", None, "bool", "1", "its address stands in storages_addresses"),
    ("shared.json[*]", None, "any", "", "list of two tensors that share storage at exit"),
    ("backward_reaches.json[0]", None, "any", "", "list of the leaves that a backward reaches"),
    ("backward_reaches.json[1]", None, "bool", "1", "the walk saw the whole graph"),
    ("backward_reaches.json[2]", None, "any", "", "list of what ran before the call, or null"),
    (
        *("backward_reaches.json[3][0]", "delta.bound_norm", "float", "1"),
        "limit that the code declares for an L2 norm of delta",
    ),
    (
        *("backward_reaches.json[3][1]", "delta.bound_of", "text", ""),
        "sample: the norm of each sample is limited; row: that of each row (the last dimension); "
        "whole: that of all of delta",
    ),
    (
        *("backward_reaches.json[3][2]", "delta.norm_max", "float", "1"),
        "the largest of these norms, accumulated in float64",
    ),
    ("unknown.json[*][0]", None, "text", "", "a field that is not known"),
    ("unknown.json[*][1]", None, "text", "", "why"),
    ("findings.json[*]", None, "text", "", "a kind of finding"),
    ("caller.json[0]", None, "text", "", "file of the line that called the update"),
    ("caller.json[1]", None, "int", "line", "its number"),
)
"""Place in the JSON of a part, path in the record where it has one, type, unit and meaning; an item
that is missing behind the others is not known, or does not apply."""

_AS_SQL = """
Parts of a record that repeat are JSON, found by the id that the part's column in `call` holds.
`backward_reaches.json[3][0]` is read as

    select call.id, json_extract(json, '$[3][0]') from call
    join detail on detail.id = call.backward_reaches
"""


def described() -> list[tuple[int, str, str | None, str, str, str]]:
    """Give the rows of the table `scalar`: columns of `call`, `table.column`, places in JSON."""
    rows: list[tuple[int, str, str | None, str, str, str]] = [
        (k, c.name, c.path, c.kind, c.unit, c.doc) for k, c in enumerate(CALL)
    ]
    for table, columns in OTHERS.items():
        kinds = _kinds(table)
        for name, unit, doc in columns:
            rows.append((len(rows), f"{table}.{name}", None, kinds.get(name, "any"), unit, doc))
    rows += [(k, *place) for k, place in enumerate(IN_DETAIL, len(rows))]
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
    lines += ["", "### JSON in detail", *_AS_SQL.splitlines(), "", *_HEAD_OF_JSON]
    lines += [_line(place, kind, unit, doc, path) for place, path, kind, unit, doc in IN_DETAIL]
    return "\n".join(lines) + "\n"


_HEAD = ("| column | type | unit | meaning |", "|---|---|---|---|")
_HEAD_OF_JSON = ("| place | type | unit | meaning |", "|---|---|---|---|")


def _line(name: str, kind: str, unit: str, doc: str, path: str | None = None) -> str:
    doc = doc.replace("|", "\\|").replace("<", "&lt;")
    of = f" (`{path}`)" if path else ""
    return f"| `{name}`{of} | {kind} | {unit or '-'} | {doc} |"


def _kinds(name: str) -> dict[str, str]:
    table = next((table for table in schema.TABLES if table.name == name), None)
    if table is None:
        return {}
    groups = {"int": table.ints, "float": table.floats, "text": table.texts, "blob": table.blobs}
    return {column: kind for kind, columns in groups.items() for column in columns}
