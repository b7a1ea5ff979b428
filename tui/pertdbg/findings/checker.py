"""Asks the rules about the records of a run as they come, and keeps what they find."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from pertdbg.findings import rules as _all_rules  # noqa: F401 - registers them
from pertdbg.findings.kinds import CAUSES, KINDS
from pertdbg.findings.model import Cause, Finding, Layer
from pertdbg.findings.rule import ENDINGS, RULES, Answer, Closing, Found, Past
from pertdbg.record import CallRecord, plain
from pertdbg.recording.parts import LayerSource

Key = tuple[str, str | None]
"""A kind and its reason, each reported once in a layer."""


class Checker:
    """The state of a check: feed it the records of all layers and ranks in order, then end it."""

    def __init__(self, sources: Callable[[str], LayerSource | None] | None = None) -> None:
        """Begin.

        Args:
            sources: Gives the source of a layer's update method by its name, where it is known.
        """
        self._layers: dict[Layer, _LayerState] = {}
        self._sources = sources or _no_source

    def feed(self, record: CallRecord) -> list[Finding]:
        """Take the next record; gives what can be seen for the first time with it."""
        state = self.state((record.layer, record.rank))
        new = state.look(record)
        state.past.add(record.update.created, lambda: record)
        state.last = lambda: record
        return new

    def end(self, closings: Callable[[Layer], Closing]) -> list[Finding]:
        """Say how the script ended, as seen by each layer; gives what that shows."""
        return [new for layer, state in self._layers.items() for new in state.end(closings(layer))]

    @property
    def findings(self) -> list[Finding]:
        """What has been found so far: by rank and first call, causes before their consequences."""
        found = [finding for state in self._layers.values() for finding in state.findings()]
        return sorted(found, key=lambda one: (one.rank, one.id, one.because is not None))

    def state(self, layer: Layer) -> _LayerState:
        """Give the state of a layer, made where it is seen for the first time."""
        known = self._layers.get(layer)
        if known is None:
            known = self._layers[layer] = _LayerState(Past(self._sources(layer[0])))
        return known


class _LayerState:
    """What was found in one layer of one rank."""

    def __init__(self, past: Past) -> None:
        self.past = past
        self.last: Callable[[], CallRecord | None] = lambda: None
        self._found: dict[Key, Finding] = {}
        self._more: dict[Key, int] = {}
        self.seen: tuple[Key, ...] = ()
        """What the rules named at the record that was looked at last."""

    def look(self, record: CallRecord) -> list[Finding]:
        """Ask all rules about a record."""
        named = [
            (rule.kind, found)
            for rule in RULES
            for found in _given(partial(rule.look, record, self.past))
        ]
        return self._take(named, record)

    def passed_over(self, seen: tuple[Key, ...]) -> None:
        """Count a record that is like one at which the rules named these."""
        for key in seen:
            self._more[key] = self._more.get(key, 0) + 1

    def end(self, closing: Closing) -> list[Finding]:
        """Ask all endings about the layer's last record."""
        record = self.last()
        if record is None:
            return []
        named = [
            (ending.kind, found)
            for ending in ENDINGS
            for found in _given(partial(ending.look, record, self.past, closing))
        ]
        return self._take(named, record)

    def findings(self) -> Iterator[Finding]:
        """Give what was found, each under its cause."""
        by_kind: dict[str, Finding] = {}
        for finding in self._found.values():
            by_kind.setdefault(finding.kind, finding)
        for key, finding in self._found.items():
            cause = finding.because or _cause(finding, by_kind)
            yield dataclasses.replace(finding, because=cause, more=self._more.get(key, 0))

    def _take(self, named: Iterable[tuple[str, Found]], record: CallRecord) -> list[Finding]:
        new, seen = [], []
        for kind, found in named:
            key = (kind, found.reason)
            if key in seen:
                continue
            seen.append(key)
            if key in self._found:
                self._more[key] = self._more.get(key, 0) + 1
                continue
            self._found[key] = self._finding(kind, found, record)
            self.past.found.setdefault(kind, self._found[key].call)
            new.append(self._found[key])
        self.seen = tuple(seen)
        return new

    def _finding(self, kind: str, found: Found, record: CallRecord) -> Finding:
        facts = KINDS[kind]
        at = found.call or record
        file = self.past.source.file if self.past.source else None
        line = at.update.raised.line if at.update.raised else at.source_line
        place = found.place
        previous = self.past.previous if found.call is None else None
        evidence = {path: value_at(at, previous, path) for path in found.evidence}
        return Finding(
            kind=kind,
            severity=found.severity or facts.severity,
            call=at.call,
            id=at.id,
            layer=at.layer,
            rank=at.rank,
            message=found.message,
            remedy=found.remedy or facts.remedy,
            file=file if place is None else place.file,
            line=line if place is None else place.line,
            reason=found.reason,
            evidence={**evidence, **found.values},
            because=self._known_cause(found),
        )

    def _known_cause(self, found: Found) -> Cause | None:
        for kind in found.because:
            if kind in self.past.found:
                return Cause(kind, self.past.found[kind])
        return None


def value_at(record: CallRecord, previous: CallRecord | None, path: str) -> Any:
    """Give the value of a field as plain JSON: numbers as numbers, NaN and infinities as words."""
    value: Any = record
    if path.startswith("previous."):
        value, path = previous, path.removeprefix("previous.")
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return plain(value)


def _cause(finding: Finding, by_kind: dict[str, Finding]) -> Cause | None:
    """Find the cause of a consequence: the earliest listed kind that was there at its call."""
    for kind in CAUSES.get(finding.kind, ()):
        cause = by_kind.get(kind)
        if cause is not None and _comes_before(cause, finding):
            return Cause(kind, cause.call)
    return None


def _comes_before(cause: Finding, finding: Finding) -> bool:
    """Say whether one can be the cause of another, with no circle between two of the same call."""
    if cause.call != finding.call:
        return cause.call < finding.call
    return finding.kind not in CAUSES.get(cause.kind, ()) or _RANK[cause.kind] < _RANK[finding.kind]


_RANK = {kind: place for place, kind in enumerate(KINDS)}


def _given(look: Callable[[], Answer]) -> list[Found]:
    """Give what a rule answers; nothing where a record holds numbers that make no sense."""
    try:
        found = look()
        if found is None:
            return []
        return [found] if isinstance(found, Found) else list(found)
    except (ArithmeticError, ValueError, TypeError):
        return []


def _no_source(name: str) -> LayerSource | None:
    del name
    return None
