"""Files that somebody made with bad intent, and a program that opens and shows a file."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import _records
from pertdbg.recording import HeatMap, LayerSource, create, schema
from pertdbg.recording.tiles import DATA_SIZE
from pertdbg.recording.writer import Recorder

COUNT = 40
EVIL = "\x1b]0;owned\x07\x1b[2J[bold red]x[/]<script>alert(1)</script>\u202e\r\n&\x9b31m"

LOOK = """
import resource, sys
from contextlib import redirect_stdout, suppress
limit = 200 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
import io
from pathlib import Path
from pertdbg.errors import PertdbgError
from pertdbg.output import care, export, show, tensorfile
from pertdbg.conditions import parse, search
from pertdbg.conditions import series as series_of
from pertdbg.recording.reader import Recording
from pertdbg.recording.series import series
from pertdbg.recording.timeline import timeline
from pertdbg.recording.tensormap import picture_of

path, out = Path(sys.argv[1]), Path(sys.argv[2])
try:
    recording = Recording.open(path)
except PertdbgError as error:
    print("refused:", error)
else:
    head = recording.head
    first = max(1, head - 50)
    def tensors():
        for ident in recording.calls_with_tensors()[:50]:
            for tensor in recording.tensors(ident):
                with suppress(PertdbgError):
                    tensor.values(0, 10)
                with suppress(PertdbgError):
                    tensor.values(tensor.count - 10)
                if tensor.nbytes < 1 << 24:
                    picture_of(tensor)
    looks = [
        lambda: recording.layers,
        lambda: [recording.picture(k) for k in range(first, head + 1)],
        lambda: recording.output("stdout"),
        lambda: recording.marks(first, head),
        lambda: [recording.next_mark(0, [kind]) for kind in ("nan", "raised", "stopped")],
        lambda: [series(recording, name, 1, head, 80) for name in ("gradient.norm", "call")],
        lambda: timeline(recording, 1, head, 80),
        lambda: search(recording, parse("delta.norm * call > gradient.norm"), first - 1),
        lambda: search(recording, parse("changed(delta.norm) and layer != 'x'"), head, False),
        lambda: search(recording, parse("shares(delta, input) or 'x' in findings"), first - 1),
        lambda: series_of(recording, parse("delta.norm * call"), first, head, 9),
        lambda: recording.find(call=7),
        lambda: recording.find(layer="encoder.pert"),
        tensors,
        lambda: show.show(path),
        lambda: show.show(path, call=7),
        lambda: show.show(path, call=7, as_json=True),
        lambda: tensorfile.export_tensor(path, "delta", out / "t.npy"),
    ]
    for look in looks:
        with suppress(PertdbgError):
            look()
    recording.close()
for form in ("csv", "jsonl", "html"):
    with suppress(PertdbgError):
        export.export(path, form, out / form)
with suppress(PertdbgError):
    care.verify(path)
with suppress(PertdbgError):
    care.salvage(path, out / "saved")
with suppress(PertdbgError):
    care.pack(path, out / "packed")
# ru_maxrss would be that of the parent, if this was larger when it forked
print("memory", Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def good(path: Path) -> None:
    """An ordinary recording with something of everything."""
    recorder = Recorder(path, {"title": "a title"}, tensors="all")
    recorder.add_layer(LayerSource("encoder.pert", "L", "/x.py", 3, "def update(self): ...\n"))
    for ident in range(1, COUNT + 1):
        recorder.write(_records.healthy(ident), HeatMap(2, 2, bytes(16), 2, 2))
        recorder.output("stdout", ident, b"line\n")
        recorder.tensor(ident, "delta", "float32", (2, 3), bytes(24))
    recorder.mark(7, "stopped", "here")
    recorder.close()


def forge(path: Path, table: schema.Table, where: str, **values: Any) -> None:
    """Change rows of a table, with checksums that hold."""
    connection = sqlite3.connect(path)
    with connection:
        rows = connection.execute(f"{table.select} WHERE {where}").fetchall()
        assert rows
        for row in rows:
            changed = {**dict(zip(table.columns, row, strict=False)), **values}
            connection.execute(f"DELETE FROM {table.name} WHERE {table.ints[0]} = ?", (row[0],))
            connection.execute(table.insert, (*changed.values(), seal(table, changed)))
    connection.close()


def seal(table: schema.Table, row: dict[str, Any]) -> int:
    """The checksum as the format describes it, also of values of the wrong kind."""
    values = list(row.values())
    crc = zlib.crc32(bytes([value is None for value in values]), zlib.crc32(table.name.encode()))
    for k, value in enumerate(values):
        if k < len(table.ints) + len(table.floats):
            form = "<q" if k < len(table.ints) else "<d"
            crc = zlib.crc32(struct.pack(form, value or 0), crc)
    for value in values[len(table.ints) + len(table.floats) :]:
        if value is not None:
            data = value if isinstance(value, bytes) else str(value).encode()
            crc = zlib.crc32(data, zlib.crc32(len(data).to_bytes(4, "little"), crc))
    return crc


def sql(*statements: str) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.executescript(";".join(statements))
        connection.close()

    return alter


def forged(table: schema.Table, where: str, **values: Any) -> Callable[[Path], None]:
    return lambda path: forge(path, table, where, **values)


def patched(*places: tuple[int, bytes]) -> Callable[[Path], None]:
    def alter(path: Path) -> None:
        data = bytearray(path.read_bytes())
        for at, new in places:
            data[at : at + len(new)] = new
        path.write_bytes(data)

    return alter


def all_strings(path: Path) -> None:
    for table in (schema.LAYERS, schema.TENSOR_KINDS, schema.MARKS):
        texts = {name: EVIL for name in table.texts if name not in ("shape", "stride")}
        forge(path, table, "1", **texts)
    forge(path, schema.OUTPUT, "1", data=EVIL.encode())
    texts = dict.fromkeys(schema.CALLS.texts, EVIL)
    forge(path, schema.CALLS, "1", **texts)
    forge(path, schema.DETAIL, "json LIKE '%input%'", json=json.dumps([[EVIL, 4, [EVIL], True]]))
    connection = sqlite3.connect(path)
    with connection:
        for key in ("title", "about", "command", "exit_text", "target", "python", EVIL):
            connection.execute(create.META_INSERT, create.meta_row(key, EVIL))
    connection.close()


def root_of(path: Path, name: str) -> int:
    connection = sqlite3.connect(path)
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)
    ).fetchone()
    connection.close()
    return int(page)


def children_of_root(path: Path, *, to_root: bool) -> None:
    """Let all children of the table of calls be one page: the root itself, or one leaf."""
    root = root_of(path, "call")
    data = bytearray(path.read_bytes())
    at = (root - 1) * 4096
    assert data[at] == 5
    child = root.to_bytes(4, "big") if to_root else data[at + 8 : at + 12]
    for k in range(int.from_bytes(data[at + 3 : at + 5], "big")):
        cell = at + int.from_bytes(data[at + 12 + 2 * k : at + 14 + 2 * k], "big")
        data[cell : cell + 4] = child
    data[at + 8 : at + 12] = child
    path.write_bytes(data)


def endless_tree(path: Path) -> None:
    """Interior pages, each with hundreds of children that are all the next one: 10**40 rows."""
    data = bytearray(path.read_bytes())
    root, first = root_of(path, "call"), len(data) // 4096 + 1
    levels = [root, *range(first, first + 15)]
    leaf = data[(root - 1) * 4096 + 8 : (root - 1) * 4096 + 12]
    data += bytes(4096 * 15)
    for k, page in enumerate(levels):
        child = levels[k + 1].to_bytes(4, "big") if k + 1 < len(levels) else bytes(leaf)
        cells, count = bytearray(), 600
        header = bytes([5, 0, 0]) + count.to_bytes(2, "big") + (4096 - 5 * count).to_bytes(2, "big")
        pointers = b"".join((4096 - 5 * (c + 1)).to_bytes(2, "big") for c in range(count))
        cells = bytearray(4096)
        cells[:12] = header + b"\0" + child
        cells[12 : 12 + 2 * count] = pointers
        for c in range(count):
            cells[4096 - 5 * (c + 1) : 4096 - 5 * c] = child + bytes([min(c, 127)])
        data[(page - 1) * 4096 : page * 4096] = cells
    data[28:32] = (len(data) // 4096).to_bytes(4, "big")
    path.write_bytes(data)


def many_layers(path: Path) -> None:
    connection, form = sqlite3.connect(path), schema.Seal(schema.LAYERS)
    with connection:
        for k in range(2, 20_000):
            row = (k, 1, f"layer {k}", "c" * 500, None, None)
            connection.execute(schema.LAYERS.insert, (*row, form(row)))
    connection.close()


def utf16(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA encoding='UTF-16le'")
    connection.execute(f"PRAGMA application_id={schema.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={schema.VERSION}")
    for statement in schema.DDL:
        connection.execute(statement)
    connection.commit()
    connection.close()


def many_meta(path: Path) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for k in range(60):
            connection.execute(create.META_INSERT, create.meta_row(f"k{k}", "\u20ac" * 300_000))
    connection.close()


def wrong_root(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema=on")
    with connection:
        connection.execute("UPDATE sqlite_master SET rootpage = 1 WHERE name = 'call'")
    connection.close()


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def garbage_log(path: Path) -> None:
    patched((18, b"\x02\x02"))(path)
    header = struct.pack(">4sIIIII", b"\x37\x7f\x06\x82", 3007000, 4096, 0, 1, 2)
    path.with_name(path.name + "-wal").write_bytes(header + Random(1).randbytes(200_000))


def garbage_journal(path: Path) -> None:
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 0xFFFFFFFF, 7, 1 << 30, 512, 4096)
    path.with_name(path.name + "-journal").write_bytes(
        header.ljust(512, b"\0") + Random(2).randbytes(100_000)
    )


def lying_tiles(path: Path) -> None:
    tiles = struct.pack("<Q", (1 << 64) - 1) + Random(3).randbytes(DATA_SIZE - 8)
    forge(path, schema.TILES, "1", data=tiles)


def words_in_the_schema(path: Path) -> None:
    """An error of SQLite's that quotes what the file says, with codes and no Unicode in it."""
    data = path.read_bytes()
    at = data.index(b"tensor_call")
    patched((at, b"\x1b[31m\x82\xff"))(path)


CRAFTED: dict[str, Callable[[Path], None]] = {
    "a view": sql("CREATE VIEW v AS SELECT 1"),
    "an endless view in place of a table": sql(
        "DROP TABLE layer",
        "CREATE VIEW layer AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)"
        " SELECT id, id AS first_line, 'x' AS name FROM n",
    ),
    "a trigger": sql("CREATE TRIGGER t AFTER INSERT ON mark BEGIN DELETE FROM call; END"),
    "a computed column": sql("CREATE TABLE g(a, b AS (zeroblob(900000000)))"),
    "an index over an expression": sql("CREATE INDEX i ON call(abs(batch))"),
    "a virtual table": sql("CREATE VIRTUAL TABLE f USING fts5(a)"),
    "another blank in a table": sql("DROP TABLE clock", "CREATE TABLE clock (mono_ns integer)"),
    "codes in the schema": words_in_the_schema,
    "a table's root at the schema": wrong_root,
    "a huge blob": forged(schema.PICTURES, "id = 1", data=bytes(60 << 20)),
    "a map of negative size": forged(schema.PICTURES, "1", rows=-2, cols=-2),
    "a map without data": forged(schema.PICTURES, "1", data=None, rows=None),
    "a giant source": forged(schema.LAYERS, "1", source="x" * (30 << 20)),
    "a long message": forged(schema.CALLS, "id < 15", gradient_reason="r " * (2 << 20)),
    "much in meta": many_meta,
    "many layers": many_layers,
    "texts in place of numbers": sql("UPDATE call SET batch = 'x', time = 'y', layer = x'00'"),
    "blobs in place of texts": forged(schema.LAYERS, "1", name=b"\xff\xfe"),
    "texts that are no unicode": sql("UPDATE layer SET name = CAST(x'ff80' AS TEXT)"),
    "numbers in meta": sql(
        "UPDATE meta SET value = 9e999", "UPDATE meta SET key = x'00' WHERE key = 'pid'"
    ),
    "deep JSON": forged(schema.DETAIL, "1", json="[" * 200_000),
    "long JSON": forged(schema.DETAIL, "id < 7", json="[" + "1," * 100_000 + "1]"),
    "other JSON": forged(schema.DETAIL, "1", json='{"a": [1, null]}'),
    "a shape of names": forged(schema.TENSOR_KINDS, "1", shape='["a", {}]'),
    "a shape of huge numbers": forged(schema.TENSOR_KINDS, "1", shape=f"[{'9' * 4000}]"),
    "a shape without end": forged(schema.TENSOR_KINDS, "1", shape=str([2] * 100_000)),
    "a far id": forged(schema.CALLS, f"id = {COUNT}", id=1 << 60),
    "a negative id": forged(schema.CALLS, "id = 1", id=-(1 << 63)),
    "numbers that are missing": forged(
        schema.CALLS, "1", time=None, call=None, update_created=None, graph_delta_depth=None
    ),
    "all bits set": forged(schema.CALLS, "1", nan_mask=-1, marks=-1),
    "fewer addresses than storages": forged(schema.CALLS, "1", storages_addresses=b"1234567"),
    "an exception without a message": forged(schema.CALLS, "1", update_raised_type="E"),
    "half a histogram": forged(schema.CALLS, "1", delta_histogram=bytes(255)),
    "lying sums": lying_tiles,
    "short sums": forged(schema.TILES, "1", data=b"x"),
    "marks of the wrong kind": forged(schema.MARKS, "1", kind=None, text=b"\0"),
    "output that is missing": forged(schema.OUTPUT, "1", data=None),
    "an endless tensor": forged(
        schema.TENSORS, "1", nbytes=1 << 62, parts=1 << 44, shape="[1099511627776, 1048576]"
    ),
    "a tensor of negative size": forged(schema.TENSORS, "1", shape="[-1, -6]"),
    "a tensor with another header": forged(schema.TENSOR_PARTS, "1", data=b"\xff" * 8 + b"{" * 100),
    "a tensor of a type that is none": forged(schema.TENSORS, "1", dtype="float1", role=None),
    "codes and markup in every string": all_strings,
    "a tree that is its own child": lambda path: children_of_root(path, to_root=True),
    "a tree with one child many times": lambda path: children_of_root(path, to_root=False),
    "a tree without end": endless_tree,
    "a page of another size": patched((16, b"\x02\x00")),
    "a page of one byte": patched((16, b"\x00\x01")),
    "more pages than there are": patched((28, b"\x7f\xff\xff\xff")),
    "a free list that is a ring": patched((32, b"\0\0\0\x03\0\0\0\x05"), (8192, b"\0\0\0\x03")),
    "another encoding": utf16,
    "garbage in the log": garbage_log,
    "garbage in the journal": garbage_journal,
    "a pipe": fifo,
    "a device without end": device,
}


def mutated(data: bytes, seed: int) -> bytes:
    """A recording with 1 to 30 bytes changed, half of them in the first pages."""
    random, changed = Random(seed), bytearray(data)
    for _ in range(random.randrange(1, 31)):
        end = len(data) if random.random() < 0.5 else 4096 * 20
        changed[random.randrange(end)] = random.randrange(256)
    return bytes(changed)
