"""Status bar: which call is shown, and what the target does."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from pertdbg.app.lines import Line, Piece, clip, cut, length
from pertdbg.app.numbers import count, seconds
from pertdbg.app.panels.ranks import waiting
from pertdbg.app.store import View
from pertdbg.output.safe import printable
from pertdbg.ranks import RankSession
from pertdbg.record import CallRecord
from pertdbg.session import Session, State

_STYLES = {
    State.LOADING: "note",
    State.RUNNING: "note",
    State.STOPPED: "ok",
    State.ENDED: "strong",
    State.REPLAY: "strong",
}


@dataclass(frozen=True)
class Progress:
    """How far a target that runs free has come."""

    calls: int
    rate: float | None
    """Calls a second; None before it can be told."""
    because: tuple[str, ...] = ()
    """The conditions that stopped it."""


def status(
    session: Session,
    record: CallRecord | None,
    progress: Progress,
    hint: str,
    width: int,
    *,
    inside: str = "",
) -> Line:
    """Write the bar: the call and the line inside it (or a hint), and the state at the right."""
    state: Line = clip(_state(session, progress), width - 2)
    room = width - length(state) - 3
    left: list[Piece] = [(printable(hint), "warn")] if hint else _call(session, record, inside)
    line: Line = [(" ", "")]
    for text, style in left:
        free = room - length(line)
        if len(line) > 1 and cell_len(text) + 2 > free:
            line.append((cut(text, free - 2) if text == inside else "", style))
            break
        line += [(text, style), ("  ", "")]
    line = clip(line[:-1], max(room, 1))
    gap = width - length(line) - length(state) - 1
    return [*line, (" " * max(gap, 1), ""), *state, (" ", "")]


def has_room(session: Session, progress: Progress, hint: str, width: int) -> bool:
    """Say whether a hint stands in the bar whole."""
    return length([(printable(hint), "")]) <= width - length(_state(session, progress)) - 4


def _rank(session: Session, record: CallRecord) -> str:
    if isinstance(session, RankSession) and session.label:
        return session.label
    return f"rank {record.rank}" if record.rank else ""


def place(view: View, *, source: bool) -> str:
    """Say which line inside a call is shown; nothing where the call as a whole is.

    Args:
        view: What is shown.
        source: Whether to say what the line is, as where it stands nowhere else.
    """
    if view.inside is None:
        return ""
    event = view.inside.event
    where = f"line {event.line}" + (f"  {printable(event.source)}" if source else "")
    return f"#{count(view.cursor)} under way, {where}" if view.under_way else where


def _call(session: Session, record: CallRecord | None, inside: str) -> list[Piece]:
    name = printable(session.target_name)
    line: list[Piece] = [(inside, "note")] if inside else []
    if record is None:
        return [*line, (name, "label")]
    return [
        (f"call {count(record.call)}", "strong"),
        *line,
        (f"batch {count(record.batch)} step {count(record.step)}", ""),
        (printable(record.layer), "label"),
        (name, "label"),
        *([(rank, "label")] if (rank := _rank(session, record)) else []),
    ]


def _state(session: Session, progress: Progress) -> Line:
    style = _STYLES[session.state]
    word = _word(session)
    return [(word, style), *((" " + text, "") for text in _details(session, progress))]


def _word(session: Session) -> str:
    """Say what the target does; of one that is only followed, what we do."""
    if session.live or session.state in (State.ENDED, State.REPLAY):
        return session.state.value.upper()
    return "WAITING" if session.state is State.LOADING else "FOLLOWING"


def _details(session: Session, progress: Progress) -> list[str]:
    if session.state is State.LOADING:
        return [printable(session.loading), *([seconds(session.elapsed)] if session.live else [])]
    if session.state is State.STOPPED and progress.because:
        return [printable(f"because {'; '.join(progress.because)}")]
    if session.state is State.RUNNING:
        rate = [] if progress.rate is None else [f"{progress.rate:,.0f}/s"]
        if isinstance(session, RankSession) and (state := session.state_here).waits_for:
            return [f"{count(progress.calls)} calls,", waiting(state)]
        return [f"{count(progress.calls)} calls", *rate, seconds(session.elapsed)]
    if session.state is State.ENDED and session.ended is not None:
        return [printable(session.ended.text.removeprefix("ended").lstrip(", "))]
    if session.state is State.REPLAY:
        return [text for text in [_recorded_end(session)] if text]
    return []


def _recorded_end(session: Session) -> str:
    """Say how the recorded run ended, where that is worth a word."""
    recording = session.recording
    if recording is None:
        return ""
    meta = recording.meta
    if meta.exit_text:
        return printable(meta.exit_text)
    if meta.exit_status is not None:
        return f"exit status {meta.exit_status}"
    return "" if meta.clean_close else "not closed by its writer"
