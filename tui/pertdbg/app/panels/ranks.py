"""The ranks of a run, a line each: what it does, and whom it seems to wait for."""

from __future__ import annotations

from collections.abc import Sequence

from pertdbg.app.lines import Line, clip, wrap
from pertdbg.app.numbers import count
from pertdbg.output.safe import printable
from pertdbg.ranks import RankState
from pertdbg.session import State

_NAMED = 4
"""Most ranks that are named one by one."""

_STYLES = {State.STOPPED: "ok", State.ENDED: "strong", State.REPLAY: "strong"}


def ranks(states: Sequence[RankState], chosen: int, others: str, width: int) -> list[Line]:
    """Write the list.

    Args:
        states: What each rank does.
        chosen: Place of the one that is looked at.
        others: What the other ranks do at a step; empty where nothing runs.
        width: Cells across.
    """
    digits = max((len(str(state.rank)) for state in states), default=1)
    lines: list[Line] = []
    for place, state in enumerate(states):
        here = place == chosen
        name = (f"{'>' if here else ' '} rank {state.rank:>{digits}}  ", "strong" if here else "")
        lines.append(clip([name, (does(state), _STYLES.get(state.state, "note"))], width))
        if waits := waiting(state):
            lines += [[("    ", ""), *line] for line in wrap(waits, max(width - 4, 1), "warn")]
    if others:
        lines += [[], *wrap(f"While one rank is stepped the others {others} (o).", width, "label")]
    return lines


def does(state: RankState) -> str:
    """Say what a rank does, or how it ended."""
    said = printable(state.said)
    calls = f"{count(state.calls)} call{'' if state.calls == 1 else 's'}"
    if state.state is State.LOADING:
        return said
    if state.state is State.STOPPED:
        return f"stopped at record {count(state.calls)}"
    if state.state is State.RUNNING:
        return f"running, {calls}"
    word = "ended" if state.state is State.ENDED else "recorded"
    return f"{word}, {calls}" + (f": {said}" if said else "")


def waiting(state: RankState) -> str:
    """Say whom a rank seems to wait for, and for how long it will; nothing where it does not."""
    if not state.waits_for:
        return ""
    some = ", ".join(map(str, state.waits_for[:_NAMED]))
    more = len(state.waits_for) - _NAMED
    names = f"rank{'' if len(state.waits_for) == 1 else 's'} {some}"
    names += f" and {more} more" if more > 0 else ""
    if state.left is None:
        return f"waits for {names}, it seems; when its collective gives up is not known"
    if state.left <= 0:
        return f"waits for {names}, it seems; its collective may give up now"
    return f"waits for {names}, it seems; its collective gives up in {_time(state.left)} or later"


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"
