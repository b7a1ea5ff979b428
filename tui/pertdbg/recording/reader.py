"""Reads a recording, finished or not: the records, and what was kept beside them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from pertdbg.between import Between
from pertdbg.event import GraphTree, LineEvent
from pertdbg.record import CallRecord
from pertdbg.recording import schema
from pertdbg.recording.adapters import ADAPTERS, Match
from pertdbg.recording.adapters import of_text as matches_of
from pertdbg.recording.between import CLOSING, closing_of
from pertdbg.recording.chunks import Chunks
from pertdbg.recording.events import Inside
from pertdbg.recording.events import of_text as inside_of
from pertdbg.recording.facts import Facts
from pertdbg.recording.interned import ReaderInterns
from pertdbg.recording.marks import MarkFinder
from pertdbg.recording.meta import Meta, meta_of
from pertdbg.recording.notices import notices
from pertdbg.recording.parts import HeatMap, LayerSource, Mark
from pertdbg.recording.raised import RAISED, ScriptRaised, of_text
from pertdbg.recording.safeopen import MOST_LOST, DamagedRecording, Source
from pertdbg.recording.stored import StoredTensor, calls_with_tensors, stored_tensors
from pertdbg.recording.tiles import INDEX, summary_in
from pertdbg.recording.unpack import unpack
from pertdbg.recording.walk import Walk

T = TypeVar("T")

OUTPUT_SHOWN = 256 << 10
"""Most bytes of output that `Recording.output` gives unless it is asked for more."""

_BATCH = 256
_LEAST_ROW = 64
"""Fewer bytes than any record takes."""

_CALL = schema.Seal(schema.CALLS)
_PICTURE = schema.Seal(schema.PICTURES)
_EVENTS = schema.Seal(schema.EVENTS)
_OUTPUT = schema.Seal(schema.OUTPUT)


class DamagedRecord(DamagedRecording):
    """A record that does not hold what was written, or is missing."""

    def __init__(self, ident: int, path: Path, reason: str, *, missing: bool = False) -> None:
        super().__init__(f"record {ident} of {path} is damaged: {reason}")
        self.id = ident
        self.missing = missing


class Recording(Sequence[CallRecord]):
    """A recording as a sequence of records: ``recording[0]`` has id 1, ``record(1)`` is the same.

    A recording that is being written grows when `refresh` is called.
    """

    path: Path
    meta: Meta
    head: int
    """Id of the last record; 0 where there is none."""

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self._source = source
        self._interned = ReaderInterns(source)
        self.facts = Facts(source)
        self._marks = MarkFinder(source, self.facts)
        self._version = self._data_version()
        self._load()

    @classmethod
    def open(cls, path: Path) -> Recording:
        """Open a recording for reading; nothing is written, and neither torch nor numpy is needed.

        Raises:
            PertdbgError: There is no such file, it is not a recording, a newer pertdbg made it,
                or it is damaged.
        """
        source = Source(path)
        try:
            return cls(source)
        except BaseException:
            source.close()
            raise

    @property
    def copied(self) -> bool:
        """Whether a copy is read, which does not grow."""
        return self._source.file != self._source.path

    def refresh(self) -> bool:
        """Look for what was written since; say whether there is something new."""
        version = self._data_version()
        if version == self._version:
            return False
        self._version = version
        self._load()
        return True

    def notices(self) -> list[str]:
        """Say what is known to be wrong with the recording as a whole, in lines for people.

        Looks at the journal, so that it costs some milliseconds.
        """
        return notices(self._source, self.meta, self._there)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.head

    @overload
    def __getitem__(self, index: int) -> CallRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[CallRecord]: ...
    def __getitem__(self, index: int | slice) -> CallRecord | list[CallRecord]:
        if isinstance(index, slice):
            return [self.record(k + 1) for k in range(self.head)[index]]
        return self.record(range(self.head)[index] + 1)

    def __iter__(self) -> Iterator[CallRecord]:
        for record in self.scan():
            if isinstance(record, DamagedRecord):
                raise record
            yield record

    def record(self, ident: int) -> CallRecord:
        """Give the record with an id.

        Raises:
            IndexError: There is none with this id.
            DamagedRecord: It is missing or does not hold what was written.
        """
        if not 1 <= ident <= self.head:
            raise IndexError(f"record {ident} of {self.head}")
        found = next(self.scan(ident, ident))
        if isinstance(found, DamagedRecord):
            raise found
        return found

    def scan(self, lo: int = 1, hi: int | None = None) -> Iterator[CallRecord | DamagedRecord]:
        """Give the records lo to hi, both included, and an error in the place of a damaged one."""
        last = self.head if hi is None else min(hi, self.head)
        for first in range(max(lo, 1), last + 1, _BATCH):
            yield from self._batch(first, min(first + _BATCH - 1, last))

    def find(self, *, call: int | None = None, layer: str | None = None) -> list[int]:
        """Give the ids of the records of a call number, a layer, or both."""
        if not self.head:
            return []
        if call is not None:
            return list(self._located(layer, {"call": call}))
        if layer is None:
            return list(range(1, self.head + 1))
        ident = next((k for k, v in self._layers().items() if v.name == layer), -1)
        rows = self._source.query(
            "SELECT id FROM call WHERE layer = ? ORDER BY id", (ident,), rows=self.head
        )
        return [ident for (ident,) in rows]

    @property
    def raised(self) -> ScriptRaised | None:
        """The exception that ended the target, if one did."""
        return of_text(self.meta.extra.get(RAISED))

    @property
    def closing(self) -> Mapping[str, Between]:
        """What ran after the last call of each layer, by its name; empty where that is unknown."""
        return closing_of(self.meta.extra.get(CLOSING))

    def locate(self, layer: str, **numbers: int) -> int | None:
        """Give the id of the first record of a layer with such numbers, as ``batch=3, step=1``."""
        return next(self._located(layer, numbers), None)

    def made(
        self, make: Callable[[tuple[Any, ...], ReaderInterns], T], *, size: int, kept: int
    ) -> Chunks[T]:
        """Give what is made of the rows of calls, for questions over many of them.

        Args:
            make: What is made of a sound row, and of the repeated parts that it refers to.
            size: Calls that are read together.
            kept: Chunks of so many calls that are kept.
        """
        return Chunks(self._source, lambda row: make(row, self._interned), size=size, kept=kept)

    @property
    def adapters(self) -> tuple[Match, ...]:
        """Which adapters matched in a script, and why not the others; known when it has ended."""
        return matches_of(self.meta.extra.get(ADAPTERS))

    @property
    def layers(self) -> tuple[LayerSource, ...]:
        """The layers that were observed, in the order in which they were first seen."""
        return tuple(self._layers().values())

    def ask(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask the file in SQL; nobody looks at the checksums of what comes back.

        Raises:
            DamagedRecording: The file cannot answer.
        """
        return self._source.query(question, values)

    def picture(self, ident: int) -> HeatMap | None:
        """Give the map of |delta| at a call, where one was kept.

        Raises:
            DamagedRecord: It does not hold what was written.
        """
        rows = self._source.query(f"{schema.PICTURES.select} WHERE id = ?", (ident,))
        if not rows:
            return None
        _, *sizes, data, _ = rows[0]
        sound = _PICTURE.holds(rows[0]) and all(type(n) is int and n > 0 for n in sizes)
        if not sound or len(data or b"") != 4 * sizes[0] * sizes[1]:
            raise DamagedRecord(ident, self.path, "its map does not hold what was written")
        return HeatMap(sizes[0], sizes[1], data, sizes[2], sizes[3])

    def events(self, ident: int) -> tuple[LineEvent, ...]:
        """Give what each line of a call did, in order; empty where that was not recorded.

        A call that is under way while the target is stopped inside it has events before it has a
        record: its id is `head` + 1.

        Raises:
            DamagedRecord: They do not hold what was written.
        """
        return self.inside(ident).events

    def graph(self, ident: int, role: str) -> GraphTree | None:
        """Give the autograd graph behind `delta`, `perturbed_input` or the last `loss` of a call.

        Raises:
            DamagedRecord: It does not hold what was written.
        """
        return self.inside(ident).graphs.get(role)

    def inside(self, ident: int) -> Inside:
        """Give all that was recorded of the inside of a call.

        Raises:
            DamagedRecord: It does not hold what was written.
        """
        rows = self._source.query(f"{schema.EVENTS.select} WHERE call = ?", (ident,))
        if not rows:
            return Inside()
        try:
            if _EVENTS.holds(rows[0]):
                return inside_of(rows[0][1])
            reason = "its lines do not hold what was written"
        except (ValueError, TypeError) as error:
            reason = str(error)
        raise DamagedRecord(ident, self.path, reason)

    def calls_with_events(self, lo: int = 1, hi: int | None = None) -> list[int]:
        """Give the ids of the records lo to hi, both included, whose lines were recorded."""
        last = self.head if hi is None else hi
        rows = self._source.query(
            "SELECT call FROM event WHERE call BETWEEN ? AND ? ORDER BY call",
            (lo, last),
            rows=max(last, 1),
        )
        return [ident for (ident,) in rows if type(ident) is int]

    def tensors(self, ident: int) -> tuple[StoredTensor, ...]:
        """Give the tensors that are stored of a call; their values are read when asked for."""
        return stored_tensors(self._source, ident)

    def tensor(self, ident: int, role: str) -> StoredTensor | None:
        """Give a tensor that is stored of a call, by its role; None where it is not."""
        return next((found for found in self.tensors(ident) if found.role == role), None)

    def calls_with_tensors(self, lo: int = 1, hi: int | None = None) -> list[int]:
        """Give the ids of the records lo to hi, both included, of which a tensor is stored."""
        return calls_with_tensors(self._source, lo, self.head if hi is None else hi)

    def output(
        self,
        stream: Literal["stdout", "stderr"],
        upto: int | None = None,
        limit: int = OUTPUT_SHOWN,
    ) -> bytes:
        """Give what the target printed before the end of a call: its last `limit` bytes.

        Args:
            stream: Which one.
            upto: Id of the record; None for all output.
            limit: Most bytes wanted.
        """
        chunks: list[bytes] = []
        last, missing = 1 << 62, limit
        while missing > 0:
            rows = self._source.query(
                f"{schema.OUTPUT.select} WHERE id < ? AND stream = ? AND call <= ?"
                " ORDER BY id DESC LIMIT 64",
                (last, stream, 1 << 62 if upto is None else upto),
            )
            if not rows:
                break
            last = rows[-1][0]
            chunks += [row[3] if _holds_output(row) else b"\n[damaged]\n" for row in rows]
            missing = limit - sum(map(len, chunks))
        return b"".join(reversed(chunks))[-limit:]

    def printed(self, stream: Literal["stdout", "stderr"]) -> Iterator[tuple[int, bytes]]:
        """Give what the target printed, piece by piece, each with the call that it came before."""
        last = -1
        while rows := self._source.query(
            f"{schema.OUTPUT.select} WHERE id > ? AND stream = ? ORDER BY id LIMIT 16",
            (last, stream),
        ):
            last = rows[-1][0]
            yield from ((row[1], row[3]) for row in rows if _holds_output(row))

    def marks(self, lo: int, hi: int) -> list[Mark]:
        """Give the marks of the records lo to hi, both included, in order."""
        lo, hi = max(lo, 1), min(hi, self.head)
        return self._marks.between(lo, hi) if lo <= hi else []

    def next_mark(self, ident: int, kinds: Sequence[str], *, forward: bool = True) -> int | None:
        """Give the nearest record after (or before) one that has a mark of one of the kinds."""
        return self._marks.next(ident, kinds, self.head, forward=forward)

    def _load(self) -> None:
        self.meta = meta_of(self._source.query("SELECT key, value, crc FROM meta LIMIT 1000"))
        self.head = self._find_head()

    def _find_head(self) -> int:
        """Give the last id; one that the records before it do not bear out is damage.

        A wrong one could make everything that goes from record to record go on for ever.
        """
        self._there = 0
        rows = self._last_rows(1)
        if not rows:
            return min(self.meta.calls, MOST_LOST)
        last: int = rows[0][0]
        if not _CALL.holds(rows[0]):
            rows = self._last_rows(_BATCH)
        sound = next((row[0] for row in rows if _CALL.holds(row)), 0)
        if last > sound + schema.GAP_LIMIT:
            last = sound
        if not 0 < last <= self._source.size() // _LEAST_ROW + MOST_LOST:
            raise DamagedRecording(f"{self.path} is damaged: its records are not in order")
        self._there = last
        return max(last, min(self.meta.calls, last + MOST_LOST))

    def _last_rows(self, count: int) -> list[tuple[Any, ...]]:
        return self._source.query(f"{schema.CALLS.select} ORDER BY id DESC LIMIT ?", (count,))

    def _located(self, layer: str | None, numbers: Mapping[str, int]) -> Iterator[int]:
        """Give the ids of the records with such numbers, of a layer or of any."""
        wanted = [(INDEX[name], value) for name, value in numbers.items()]

        def may_match(tile: bytes) -> bool:
            sums = ((summary_in(tile, k), value) for k, value in wanted)
            return all(found.low <= value <= found.high for found, value in sums)

        walk = Walk(
            self.facts, may_match, lambda row: all(row.values[k] == value for k, value in wanted)
        )
        return (k for k in walk.ids(1, self.head) if layer in (None, self.record(k).layer))

    def _data_version(self) -> int:
        version: int = self._source.query("PRAGMA data_version")[0][0]
        return version

    def _layers(self) -> dict[int, LayerSource]:
        return self._interned.layers()

    def _batch(self, lo: int, hi: int) -> list[CallRecord | DamagedRecord]:
        try:
            rows = self._source.query(f"{schema.CALLS.select} WHERE id BETWEEN ? AND ?", (lo, hi))
        except DamagedRecording as error:
            if lo == hi:
                return [DamagedRecord(lo, self.path, str(error))]
            return [record for k in range(lo, hi + 1) for record in self._batch(k, k)]
        found = {row[0]: row for row in rows}
        return [self._unpacked(ident, found.get(ident)) for ident in range(lo, hi + 1)]

    def _unpacked(self, ident: int, row: tuple[Any, ...] | None) -> CallRecord | DamagedRecord:
        if row is None:
            return DamagedRecord(ident, self.path, "it is missing", missing=True)
        if not _CALL.holds(row):
            return DamagedRecord(ident, self.path, "its checksum does not hold")
        try:
            return unpack(row[:-1], self._interned)
        except (DamagedRecording, ValueError, TypeError, KeyError, struct.error) as error:
            return DamagedRecord(ident, self.path, str(error))


def _holds_output(row: tuple[Any, ...]) -> bool:
    return row[3] is not None and _OUTPUT.holds(row)
