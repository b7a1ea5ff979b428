"""The answer in words: every sentence is made from what the runs showed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pertdbg.ablation.report import Change, Condition, Report, Result
from pertdbg.guards.model import Guard
from pertdbg.output.words import several

_DETACHES = ("detach", "detach_", "data")
_CAUSES = {
    ("clean-gradients", "without"): "only because the clean pass builds a graph",
    ("clean-gradients", "with"): "only because the clean pass builds no graph",
}
_FEW = 4
"""Most effects told of one run."""


def says(report: Report) -> list[str]:
    """Answer what each guard does and whether it is needed, in paragraphs."""
    detaches = [guard for guard in report.guards if guard.kind in _DETACHES]
    others = [guard for guard in report.guards if guard.kind not in _DETACHES]
    lines = list(_preface(report))
    if detaches:
        lines.append(_short(report, detaches))
    lines += [paragraph(report, guard) for guard in detaches]
    lines += [paragraph(report, guard) for guard in others if _matters(report, guard)]
    idle = [guard for guard in others if not _matters(report, guard)]
    if idle:
        lines.append(_idle(report, idle))
    lines += _sufficient(report)
    return lines


def _preface(report: Report) -> Iterator[str]:
    if not report.guards:
        yield "There is no guard in the update method and what it calls."
    if report.raised is not None:
        yield (
            f"With all guards in place the run already ends with {report.raised.type} at call "
            f"{report.raised.call}; what follows compares with that."
        )
    if report.noise:
        yield (
            "Two whole runs with the same seeds differ, so these facts are compared nowhere: "
            f"{', '.join(report.noise[:6])}."
        )


def name(guard: Guard) -> str:
    """Name a guard by its text and line."""
    return f"`{guard.text.rstrip(':').removeprefix('with ')}` (line {guard.line})"


def _short(report: Report, detaches: Sequence[Guard]) -> str:
    """Answer the question in a sentence: which detach matters."""
    needed = [guard for guard in detaches if not report.single(guard.id).same]
    spare = [guard for guard in detaches if report.single(guard.id).same]
    parts = []
    if needed:
        parts += [f"{name(guard)} is needed here{_cause(report, guard)}" for guard in needed]
    for guard in spare:
        covering = _covering(report, guard)
        if covering:
            parts.append(f"{name(guard)} is redundant while {_or(covering)} is there")
        else:
            parts.append(f"{name(guard)} changes nothing here when it is taken out")
    return f"What does detach do here, and is it needed? {_sentence('; '.join(parts))}"


def _cause(report: Report, guard: Guard) -> str:
    """Say what makes a guard matter, where a run without that was made and it did not."""
    for condition in report.conditions:
        result = condition.results.get(guard.id)
        if result is not None and result.same and _because(condition):
            return f", and {_because(condition)}"
    return ""


def paragraph(report: Report, guard: Guard) -> str:
    """Say what the runs without a guard showed."""
    alone = report.single(guard.id)
    if alone.same:
        sentences = [
            f"{name(guard)}: taken out alone, it changes nothing in {_calls(report.calls)}"
        ]
        sentences += _cover_sentences(report, guard)
    else:
        sentences = [f"{name(guard)}: without it, {effects(report, alone)}"]
        sentences += _worse(report, guard)
    sentences += _condition_sentences(report, guard, alone)
    return " ".join(map(_sentence, sentences))


def effects(report: Report, result: Result) -> str:
    """Tell the changes of a run, the ones that come first first."""
    told = [change for change in result.changes if change.kind not in ("facts", "output")]
    told = told or list(result.changes)
    if any(change.kind == "raised" for change in told):
        told = [change for change in told if change.kind != "values"]
    if len(told) > 1:  # ever more bytes are an effect, other bytes a consequence of one
        told = [c for c in told if c.kind != "memory" or c.data["per_call"]]
    texts = [_effect(report, change, result) for change in told[: _FEW - 1]]
    texts += [_effect(report, change, result) for change in told[_FEW - 1 :][-1:]]
    return "; ".join(dict.fromkeys(texts))


def _effect(report: Report, change: Change, result: Result) -> str:
    if change.kind in ("raised", "not-run"):
        return change.detail if change.kind == "raised" else f"it can't be run: {change.detail}"
    more = [leaf for leaf in change.data.get("more", ()) if leaf != "delta"]
    frozen = ""
    if change.kind == "reaches" and more and not result.has("gradient-leaks"):
        frozen = " (nothing is filled: the loop has frozen them)" if report.freezes else ""
    return f"from call {change.call} on {change.detail}{frozen}"


def _covering(report: Report, guard: Guard) -> list[Guard]:
    """Give the guards that cover for one: with either of the two, nothing changes."""
    pairs = report.covers(guard.id)
    return [report.guard(other) for pair in pairs for other in pair.without if other != guard.id]


def _cover_sentences(report: Report, guard: Guard) -> Iterator[str]:
    for pair in report.covers(guard.id):
        other = next(ident for ident in pair.without if ident != guard.id)
        yield f"{name(report.guard(other))} covers for it: without both, {effects(report, pair)}"
    if report.paired and not report.covers(guard.id):
        yield "No other guard covers for it"


def _worse(report: Report, guard: Guard) -> Iterator[str]:
    """Say where taking out another guard too undoes the effect."""
    for pair in report.pairs:
        if guard.id in pair.without and pair.same:
            other = next(ident for ident in pair.without if ident != guard.id)
            yield f"without {name(report.guard(other))} as well, nothing changes"


def _condition_sentences(report: Report, guard: Guard, alone: Result) -> Iterator[str]:
    for condition in report.conditions:
        result = condition.results.get(guard.id)
        if result is None or _alike(alone, result):
            continue
        if result.same:
            yield _undone(condition)
        elif alone.same:
            yield f"with {condition.words}, it matters: {effects(report, result)}"
        elif _kinds(alone) != _kinds(result):
            new = _news(alone, result)
            yield f"with {condition.words} it is otherwise: {effects(report, new)}"


def _news(alone: Result, other: Result) -> Result:
    """Leave out of a result what the other one shows as well."""
    known = {(change.kind, change.detail) for change in alone.changes}
    new = tuple(c for c in other.changes if (c.kind, c.detail) not in known)
    return replace(other, changes=new)


def _undone(condition: Condition) -> str:
    """Say that a guard matters under one circumstance only: taken out in the other, it is idle."""
    text = f"with {condition.words}, taking it out changes nothing in {_calls(condition.calls)}"
    because = _because(condition)
    return f"it matters {because}: {text}" if because else text


def _because(condition: Condition) -> str:
    for (kind, word), cause in _CAUSES.items():
        if condition.name == kind and f" {word} " in f" {condition.words} ":
            return cause
    return ""


def _alike(alone: Result, other: Result) -> bool:
    """Whether two results are of the same kinds; a condition's run makes fewer calls."""
    return alone.same == other.same and _kinds(alone) == _kinds(other)


def _kinds(result: Result) -> set[str]:
    """Give the kinds that a sentence would tell of."""
    found = {str(change.kind) for change in result.changes} - {"facts", "output", "memory"}
    if "raised" in found:
        found.discard("values")
        found |= {f"raised {result.raised.type}"} if result.raised is not None else set()
    return found


def _matters(report: Report, guard: Guard) -> bool:
    """Whether anything that was run shows what a guard is for."""
    return (
        not report.single(guard.id).same
        or bool(report.covers(guard.id))
        or any(not c.results[guard.id].same for c in report.conditions if guard.id in c.results)
    )


def _idle(report: Report, guards: Sequence[Guard]) -> str:
    names = ", ".join(map(name, guards))
    where = ["in this run"] + [f"with {condition.words}" for condition in report.conditions]
    return _sentence(f"{names}: taken out, nothing changes {_either(where)}")


def _sufficient(report: Report) -> Iterator[str]:
    """Say which guards suffice: those in every set, and what must be chosen."""
    sets = [set(found) for found in report.sufficient]
    if not sets:
        return
    always = set.intersection(*sets)
    named = [name(guard) for guard in report.guards if guard.id in always]
    choices = [sorted(found - always) for found in sets if found - always]
    parts = [f"always {_and(named)}"] if named else []
    if choices:
        options = [_and([name(report.guard(ident)) for ident in choice]) for choice in choices]
        parts.append(f"either {_either(options)}")
    calls = _calls(report.calls)
    if not parts:
        yield f"All of them taken out together, nothing changes in these {calls}."
        return
    said = _sentence("; ".join(parts))
    yield f"What suffices for the same {calls}, each set run on its own: {said}"


def _calls(count: int) -> str:
    return several(count, "call")


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _or(guards: Sequence[Guard]) -> str:
    return _either([name(guard) for guard in guards])


def _sentence(text: str) -> str:
    """Begin with a capital, unless it is code, and end with a full stop."""
    text = text if text.startswith("`") else text[:1].upper() + text[1:]
    return text if text.endswith((".", "?")) else f"{text}."
