"""The autograd graph: how deep it gets."""

from __future__ import annotations

from pertdbg.findings.rule import Found, Past, rule
from pertdbg.record import CallRecord, GraphFacts


@rule("graph-grows")
def grows(call: CallRecord, past: Past) -> Found | None:
    """The graph behind delta, or behind the perturbed input, gets deeper from call to call.

    For delta: deeper than at the call before, where it was no leaf already. For the perturbed
    input, whose graph another branch of the code may change once: deeper twice in a row. Source:
    a graph lives as long as a tensor whose `grad_fn` leads to it, so time and memory of each
    backward grow with every call.
    """
    before, first = past.previous, past.back(2)
    if before is None or call.update.created:
        return None
    for role in ("delta", "perturbed_input"):
        now, then = _depth(call, role), _depth(before, role)
        if now is None or then is None or now <= then:
            continue
        start = None if first is None or before.update.created else _depth(first, role)
        if (role == "delta" and then > 0) or (start is not None and then > start):
            return Found(
                f"the graph behind {role.replace('_', ' ')} is {now} nodes deep and was {then} at "
                f"call {before.call}: each step is built on the one before. Every backward gets "
                "slower and runs through all earlier steps.",
                evidence=(f"graph.{role}.depth", f"previous.graph.{role}.depth"),
            )
    return None


def _depth(call: CallRecord, role: str) -> int | None:
    facts: GraphFacts | None = getattr(call.graph, role)
    return None if facts is None else facts.depth
