"""One record as lines of plain text: what happened, four verdicts, the tensors."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from pertdbg.output import verdict
from pertdbg.output.safe import printable
from pertdbg.output.words import number, share, type_name
from pertdbg.record import CallRecord, DeltaFacts, TensorFacts
from pertdbg.recording.columns import ROLES

WIDTH = 79
"""Longest line."""

Fact = tuple[str, str | None]
"""A name and a value in words; None where it is not known or does not apply."""

_HEAD = ("", "leaf", "req", ".grad", "ver", "st", "dtype", "shape", "grad_fn")


def describe(record: CallRecord) -> list[str]:
    """Write a record as lines of at most `WIDTH` characters, safe to show in a terminal."""
    return [
        *_header(record),
        *_section("gradient", verdict.gradient(record), _gradient(record)),
        *_section("delta", verdict.delta(record), _delta(record)),
        *_section("leaf", verdict.leaf(record), _leaf(record)),
        *_section("storage", verdict.storage(record), []),
        *_storages(record),
        *_tensors(record),
        *_unknown(record),
    ]


def _header(record: CallRecord) -> list[str]:
    place = "" if record.source_line is None else f", line {record.source_line}"
    first = (
        f"call {record.call} of {record.layer}: batch {record.batch}, step {record.step}"
        f"{place} (record {record.id}, rank {record.rank}, {record.time:.3f} s)"
    )
    lines = [*_wrapped(first), *_wrapped(verdict.update(record).text)]
    if record.caller is not None:
        lines += _wrapped(f"called from {record.caller.file}:{record.caller.line}")
    if record.findings:
        lines += _wrapped(f"findings: {', '.join(record.findings)}")
    return lines


def _section(name: str, said: verdict.Verdict, facts: Sequence[Fact]) -> list[str]:
    known = [f"{label} {value}" for label, value in facts if value is not None]
    return ["", *_wrapped(f"{name.upper():9} {said.text}", 10), *_flowed(known)]


def _gradient(record: CallRecord) -> list[Fact]:
    found = record.gradient
    return [
        ("norm", _number(found.norm)),
        ("in dtype", _number(found.norm_in_dtype)),
        ("max |g|", _number(found.max_abs)),
        ("min", _number(found.min)),
        ("max", _number(found.max)),
        ("NaN", _count(found.nan)),
        ("Inf", _count(found.inf)),
        ("zero", _share(found.zero_fraction)),
        ("rows below 1e-6", _share(found.guard_fraction)),
        ("backward passes", _count(found.backwards)),
    ]


def _delta(record: CallRecord) -> list[Fact]:
    found, effect = record.delta, record.effect
    return [
        ("norm", _number(found.norm)),
        ("max |d|", _number(found.max_abs)),
        ("min", _number(found.min)),
        ("max", _number(found.max)),
        ("mean", _number(found.mean)),
        ("std", _number(found.std)),
        ("NaN", _count(found.nan)),
        ("Inf", _count(found.inf)),
        ("bound", _number(found.bound)),
        ("kind", found.bound_kind),
        ("beyond", _count(found.beyond)),
        ("at bound", _count(found.at_bound)),
        *_norms(found),
        ("moved by at most", _number(found.moved_max)),
        ("moved", _share(found.moved_fraction)),
        ("learning rate", _number(record.update.learning_rate)),
        ("perturbed input differs from input", _share(effect.visible_fraction)),
        ("changed", _share(effect.changed_fraction)),
        ("cosine to the step", _number(effect.cosine)),
        ("gap", _number(effect.gap_max)),
    ]


def _norms(found: DeltaFacts) -> list[Fact]:
    """Give what limits an L2 norm of delta, where the code limits one."""
    if found.bound_norm is None:
        return []
    return [
        ("bound of the norm", f"{number(found.bound_norm)} ({found.bound_of})"),
        ("largest norm", _number(found.norm_max)),
    ]


def _leaf(record: CallRecord) -> list[Fact]:
    reach = record.backward_reaches
    names = ", ".join(reach.perturbed_input) or "no leaf"
    more = "" if reach.complete else ", and more (the walk stopped)"
    facts: list[Fact] = []
    if record.reason("backward_reaches") is None:
        facts.append(("backward from the perturbed input fills", names + more))
    for name in ("delta", "perturbed_input"):
        graph = getattr(record.graph, name)
        if graph is not None:
            least = "" if graph.complete else "at least "
            size = f"{least}{graph.nodes} nodes, depth {graph.depth}"
            facts.append((f"graph of {name.replace('_', ' ')}:", size))
    return facts


def _storages(record: CallRecord) -> list[str]:
    lines = []
    for label, facts in record.storages.items():
        address = "no address" if facts.address is None else hex(facts.address)
        size = "size unknown" if facts.nbytes is None else f"{facts.nbytes:,} bytes"
        held = ", ".join(facts.holds) or "nothing"
        lines += _wrapped(f"{label}  {address}  {size}  {held}", 12, indented=True, start=10)
    return lines


def _tensors(record: CallRecord) -> list[str]:
    there = [(role, facts) for role in ROLES if (facts := _tensor(record, role)) is not None]
    if not there:
        return []
    rows = [_HEAD, *(_row(role, facts) for role, facts in there)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    notes = [
        line
        for role, facts in there
        if (text := ", ".join(_unusual(facts)))
        for line in _wrapped(f"{role}: {text}", 2)
    ]
    return ["", *(line.rstrip()[:WIDTH] for line in lines), *notes]


def _tensor(record: CallRecord, role: str) -> TensorFacts | None:
    when, _, name = role.partition(".")
    facts: TensorFacts | None = getattr(getattr(record.tensors, when), name)
    return facts


def _row(role: str, facts: TensorFacts) -> tuple[str, ...]:
    cells = (
        role.replace("perturbed_input", "perturbed"),
        _yes(facts.is_leaf),
        _yes(facts.requires_grad),
        _yes(facts.has_grad),
        "?" if facts.version is None else str(facts.version),
        facts.storage or "?",
        type_name(facts.dtype),
        "x".join(map(str, facts.shape)) or "scalar",
        (facts.grad_fn or "-") + (" (retains)" if facts.retains_grad else ""),
    )
    return tuple(map(printable, cells))


def _unusual(facts: TensorFacts) -> list[str]:
    """Say what the table has no room for, where it is not what one expects."""
    return [
        *([f"on {facts.device}"] if facts.device != "cpu" else []),
        *([facts.layout.removeprefix("torch.")] if "strided" not in facts.layout else []),
        *(["a view"] if facts.is_view else []),
        *([f"offset {facts.storage_offset}"] if facts.storage_offset else []),
        *([f"not contiguous, stride {facts.stride}"] if facts.contiguous is False else []),
        *(["carries a forward-mode tangent"] if facts.has_tangent else []),
    ]


def _unknown(record: CallRecord) -> list[str]:
    if not record.unknown:
        return []
    by_reason: dict[str, list[str]] = {}
    for unknown in record.unknown:
        by_reason.setdefault(unknown.reason, []).append(unknown.field)
    lines = ["", "UNKNOWN"]
    for reason, fields in by_reason.items():
        lines += _wrapped(f"{reason}: {', '.join(fields)}", 4, indented=True, start=2)
    return lines


def _flowed(items: Sequence[str]) -> list[str]:
    """Lay items out in lines, none broken at a line's end unless it is longer than a line."""
    lines: list[str] = []
    for item in map(printable, items):
        if lines and len(lines[-1]) + 3 + len(item) <= WIDTH:
            lines[-1] += f"   {item}"
        else:
            lines += _wrapped(item, 10, indented=True)
    return lines


def _wrapped(
    text: str, hang: int = 2, *, indented: bool = False, start: int | None = None
) -> list[str]:
    first = " " * (hang if start is None else start) if indented else ""
    return textwrap.wrap(
        printable(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * hang,
        break_on_hyphens=False,
    )


def _number(value: float | None) -> str | None:
    return None if value is None else number(value)


def _share(value: float | None) -> str | None:
    return None if value is None or math.isnan(value) else share(value)


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _yes(value: bool | None) -> str:
    return "?" if value is None else "yes" if value else "no"
