"""How an exception ended the target: what was raised, and where, as a recording keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from pertdbg.recording.pack import bounded
from pertdbg.recording.schema import NAME_LIMIT, TEXT_LIMIT

RAISED = "raised"
"""Key of the meta table."""

FRAMES_LIMIT = 40
"""Most frames that are kept: of a deeper traceback the outermost and the innermost ones."""

CHAIN_LIMIT = 10
"""Most exceptions that are kept of those that led to it."""

_MESSAGE = 2_000
_WORD = 300
_ID_LIMIT = 1 << 62

How = Literal["cause", "context"]


@dataclass(frozen=True, slots=True)
class ScriptFrame:
    """One frame of a traceback."""

    file: str
    line: int
    function: str
    source: str
    """The line's text, without its indent; empty where it could not be read."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """An exception that led to another one."""

    type: str
    message: str
    how: How
    """`cause`: the later one was raised from it; `context`: while it was being handled."""


@dataclass(frozen=True, slots=True)
class ScriptRaised:
    """The exception that ended the target."""

    type: str
    message: str
    after: int
    """Id of the last record that was written before; 0 where there was none."""
    frames: tuple[ScriptFrame, ...] = ()
    """The outermost first, as Python shows them; those of pertdbg itself are left out."""
    left_out: int = 0
    """Frames that were left out, in the middle, because there were too many."""
    chain: tuple[Earlier, ...] = ()
    """What led to it, the latest first."""

    @property
    def interrupted(self) -> bool:
        """Whether somebody interrupted the target, so that nothing is wrong with it."""
        return self.type == "KeyboardInterrupt"

    @property
    def says(self) -> str:
        """Type and message in one line, as Python's last line has them."""
        first = self.message.strip().partition("\n")[0]
        return f"{self.type}: {first}" if first else self.type


def to_text(raised: ScriptRaised) -> str:
    """Turn it into the text that the recording keeps; too long a one loses frames."""
    frames = raised.frames
    kept = min(len(frames), FRAMES_LIMIT)
    while True:
        inner = frames[len(frames) - (kept - kept // 3) :] if kept else ()
        shown = (*frames[: kept // 3], *inner)
        left_out = raised.left_out + len(frames) - len(shown)
        text = _text(replace(raised, frames=shown, left_out=left_out))
        if len(text) <= TEXT_LIMIT or not kept:
            return text
        kept //= 2


def of_text(text: Any) -> ScriptRaised | None:
    """Read what `to_text` gave; None where it is of another form, or too long."""
    if not isinstance(text, str) or len(text) > TEXT_LIMIT:
        return None
    try:
        return _raised(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _text(raised: ScriptRaised) -> str:
    found = {
        "type": _short(raised.type, _WORD),
        "message": _short(raised.message, _MESSAGE),
        "frames": [
            {
                "file": _end(frame.file),
                "line": frame.line,
                "function": _short(frame.function, _WORD),
                "source": _short(frame.source, _WORD),
            }
            for frame in raised.frames
        ],
        "left_out": raised.left_out,
        "after": raised.after,
        "chain": [
            {"type": _short(e.type, _WORD), "message": _short(e.message, _WORD), "how": e.how}
            for e in raised.chain[:CHAIN_LIMIT]
        ],
    }
    return json.dumps(found, ensure_ascii=False)


def _short(text: str, limit: int) -> str:
    return bounded(text, limit) or ""


def _end(path: str) -> str:
    """Give a path, or its end where it is long: that is what tells files apart."""
    sound = path.encode("utf-8", "backslashreplace").decode()
    return sound if len(sound) <= _WORD else f"...{sound[-_WORD + 3 :]}"


def _raised(found: dict[str, Any]) -> ScriptRaised:
    frames, chain = found["frames"], found["chain"]
    if not isinstance(frames, list) or not isinstance(chain, list):
        raise TypeError("not lists")
    if len(frames) > FRAMES_LIMIT or len(chain) > CHAIN_LIMIT:
        raise ValueError("too many frames or exceptions")
    return ScriptRaised(
        _name(found["type"]),
        _read(found["message"], TEXT_LIMIT),
        _count(found["after"]),
        tuple(_frame(frame) for frame in frames),
        _count(found["left_out"]),
        tuple(_earlier(each) for each in chain),
    )


def _frame(found: dict[str, Any]) -> ScriptFrame:
    line, function, source = _count(found["line"]), found["function"], found["source"]
    return ScriptFrame(_name(found["file"]), line, _name(function), _name(source))


def _earlier(found: dict[str, Any]) -> Earlier:
    how = found["how"]
    if how not in ("cause", "context"):
        raise ValueError("neither a cause nor a context")
    return Earlier(_name(found["type"]), _name(found["message"]), how)


def _name(text: Any) -> str:
    return _read(text, NAME_LIMIT)


def _read(text: Any, limit: int) -> str:
    if not isinstance(text, str) or len(text) > limit:
        raise ValueError("not a text, or too long")
    return text


def _count(number: Any) -> int:
    if type(number) is not int or not 0 <= number < _ID_LIMIT:
        raise ValueError("not a count")
    return number
