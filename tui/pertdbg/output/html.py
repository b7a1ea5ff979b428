"""A recording as one page of HTML for somebody who has no pertdbg: no script, no network."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from pertdbg.output import verdict
from pertdbg.output.safe import printable
from pertdbg.output.svg import Line, plot, strip
from pertdbg.output.text import describe
from pertdbg.output.words import several
from pertdbg.record import CallRecord
from pertdbg.recording.parts import Mark
from pertdbg.recording.reader import DamagedRecord, Recording
from pertdbg.recording.series import series

CELLS = 800
"""Cells of a plot."""

LOOKED_AT = 1000
"""Most calls whose leaf and storage facts are read one by one."""

ROWS = 200
"""Most rows of a table."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"

_STYLE = """
:root{color-scheme:light dark;--ok:#2e9e5b;--note:#3b7dd8;--warn:#c98a00;--bad:#d03b3b;--ink:#888}
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
svg{width:100%;height:auto;display:block;margin:.3rem 0}svg text{font-size:11px;fill:currentColor}
path{fill:none;stroke-width:1.2}.axis{stroke:var(--ink)}.main{stroke:var(--note)}
.bound{stroke:var(--warn);stroke-dasharray:5 4}path.bad{stroke:var(--bad);stroke-width:2}
rect.ok{fill:var(--ok)}rect.note{fill:var(--note)}
rect.warn{fill:var(--warn)}rect.bad{fill:var(--bad)}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.15rem .6rem .15rem 0;
border-bottom:1px solid color-mix(in srgb,currentColor 15%,transparent)}
td.ok{color:var(--ok)}td.note{color:var(--note)}td.warn{color:var(--warn)}td.bad{color:var(--bad)}
pre{overflow-x:auto;font-size:12px}td,dd{overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}dd{margin:0}
"""


@dataclass(slots=True)
class _Run:
    """Calls in a row of which the same can be said."""

    first: int
    last: int
    said: verdict.Verdict


@dataclass(slots=True)
class _Facts:
    """What was found in the calls that were read one by one."""

    looked: int = 0
    damaged: list[int] = field(default_factory=list)
    leaf: list[_Run] = field(default_factory=list)
    storage: list[_Run] = field(default_factory=list)
    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)


def page(recording: Recording) -> Iterator[str]:
    """Give the lines of the report."""
    title = recording.meta.title or recording.meta.target or recording.path.name
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{_safe(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{_safe(title)}</h1>"
    yield from _about(recording)
    if recording.head:
        marks = recording.marks(1, recording.head)
        facts = _facts(recording, marks)
        yield from _plots(recording)
        yield from _leaf_and_storage(recording, facts)
        yield from _marks(marks)
        yield from _unknown(facts)
        yield from _last(recording)
    yield "</body></html>"


def _safe(text: str) -> str:
    return escape(printable(text))


def _about(recording: Recording) -> Iterator[str]:
    meta = recording.meta
    when = ""
    if 0 < meta.created_ns < 1 << 62:
        made = datetime.datetime.fromtimestamp(meta.created_ns // 10**9, datetime.timezone.utc)
        when = made.strftime("%Y-%m-%d %H:%M:%S UTC")
    ended = meta.exit_text or (
        "closed" if meta.clean_close else "not closed: running, or it crashed"
    )
    rows = {
        "about": meta.about,
        "command": meta.command,
        "recorded": when,
        "with": f"pertdbg {meta.version}, Python {meta.python}, torch {meta.torch or 'unknown'}",
        "rank": f"{meta.rank} of {meta.world_size}",
        "calls": f"{recording.head:,}",
        "layers": ", ".join(layer.name for layer in recording.layers[:20]),
        "ended": ended,
        "beware": "; ".join(recording.notices()),
    }
    yield "<dl>"
    yield from (f"<dt>{name}</dt><dd>{_safe(text)}</dd>" for name, text in rows.items() if text)
    yield "</dl>"


def _plots(recording: Recording) -> Iterator[str]:
    def line(name: str, path: str, style: str) -> Line:
        return Line(name, series(recording, path, 1, recording.head, CELLS), style)

    norm = line("gradient norm", "gradient.norm", "main")
    yield f"<h2>Gradient norm</h2>{plot('gradient norm', [norm])}"
    largest = line("largest |delta|", "delta.max_abs", "main")
    bound = line("bound", "delta.bound", "bound")
    yield "<h2>Largest |delta|, and its bound (dashed)</h2>"
    yield plot("largest |delta| against its bound", [largest, bound])
    yield "<p>Each cell shows its least and its greatest value; a tick at the top: NaN or Inf.</p>"


def _facts(recording: Recording, marks: Sequence[Mark]) -> _Facts:
    """Read calls one by one: all of few, else some evenly spread and those with marks."""
    facts = _Facts()
    for ident in _chosen(recording.head, marks):
        for found in recording.scan(ident, ident):
            if isinstance(found, DamagedRecord):
                facts.damaged.append(ident)
            else:
                _add(facts, found)
    return facts


def _chosen(head: int, marks: Sequence[Mark]) -> list[int]:
    if head <= LOOKED_AT:
        return list(range(1, head + 1))
    spread = {1 + k * (head - 1) // (LOOKED_AT // 2 - 1) for k in range(LOOKED_AT // 2)}
    return sorted(spread | {mark.id for mark in marks[: LOOKED_AT // 2]})


def _add(facts: _Facts, record: CallRecord) -> None:
    facts.looked += 1
    facts.unknown.update((unknown.field, unknown.reason) for unknown in record.unknown)
    for runs, said in (
        (facts.leaf, verdict.leaf(record)),
        (facts.storage, verdict.storage(record)),
    ):
        if runs and runs[-1].said == said:
            runs[-1].last = record.id
        else:
            runs.append(_Run(record.id, record.id, said))


def _leaf_and_storage(recording: Recording, facts: _Facts) -> Iterator[str]:
    if facts.looked + len(facts.damaged) < recording.head:
        yield (
            f"<p>Of {recording.head:,} calls, {facts.looked:,} were read for what follows: some"
            " evenly spread, and those with marks.</p>"
        )
    if facts.damaged:
        some = ", ".join(map(str, facts.damaged[:20]))
        yield f"<p>{several(len(facts.damaged), 'record')} damaged or missing: {some}</p>"
    for title, runs in (("Leaf", facts.leaf), ("Storage", facts.storage)):
        yield f"<h2>{title}</h2>"
        levels = [(run.first, run.last, run.said.level) for run in runs]
        yield strip(f"{title.lower()} facts over the calls", levels, recording.head)
        rows = [(_span(run), run.said.text, run.said.level) for run in runs[:ROWS]]
        yield from _table(("records", "what can be said"), rows, len(runs))


def _span(run: _Run) -> str:
    return str(run.first) if run.first == run.last else f"{run.first} to {run.last}"


def _marks(marks: Sequence[Mark]) -> Iterator[str]:
    if marks:
        yield "<h2>Marks</h2>"
        rows = [(str(mark.id), f"{mark.kind}: {mark.text}", "") for mark in marks[:ROWS]]
        yield from _table(("record", "mark"), rows, len(marks))


def _unknown(facts: _Facts) -> Iterator[str]:
    if facts.unknown:
        yield "<h2>What is not known</h2>"
        most = facts.unknown.most_common(ROWS)
        rows = [(f"{count} calls", f"{name}: {reason}", "") for (name, reason), count in most]
        yield from _table(("how often", "what, and why"), rows, len(facts.unknown))


def _table(head: Sequence[str], rows: Iterable[tuple[str, str, str]], count: int) -> Iterator[str]:
    cells = "".join(f"<th>{name}</th>" for name in head)
    yield f"<table><tr>{cells}</tr>"
    for where, text, level in rows:
        yield f'<tr><td>{_safe(where)}</td><td class="{level}">{_safe(text)}</td></tr>'
    yield "</table>"
    if count > ROWS:
        yield f"<p>... and {count - ROWS:,} more</p>"


def _last(recording: Recording) -> Iterator[str]:
    found = next(recording.scan(recording.head, recording.head))
    yield "<h2>The last call</h2><pre>"
    lines = [str(found)] if isinstance(found, DamagedRecord) else describe(found)
    yield from map(_safe, lines)
    yield "</pre>"
