"""What a stopped target answers, as the host gets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pertdbg.wire import Frame


@dataclass(frozen=True)
class Answer:
    """The answer to a question; the target has gone on if it could not be asked."""

    text: str
    """What was asked."""
    value: dict[str, Any] | None = None
    """A summary: `type`, `text`, and what its kind has besides; see `pertdbg.agent.summary`."""
    error: str = ""
    """The exception that the question ended with, in a line; or why it could not be asked."""
    confirm: tuple[str, ...] = ()
    """Why it was not run: what in it may change something. Ask again, confirmed, to run it."""
    changed: tuple[str, ...] = ()
    """What it has changed, in words."""
    bound: tuple[str, ...] = ()
    """Names that later questions of this stop know; the target's own are not bound."""
    seconds: float | None = None
    """How long it ran."""
    details: dict[str, Any] = field(default_factory=dict)
    """Type and message of the exception."""

    @property
    def line(self) -> str:
        """The answer in a line."""
        if self.confirm:
            return f"not run: {'; '.join(self.confirm)}. Confirm to run it"
        text = self.error or str((self.value or {}).get("text", ""))
        return " ".join(text.split())

    @classmethod
    def of(cls, text: str, frame: Frame) -> Answer:
        """Read a notice of the target's."""
        error = frame.get("error")
        details = error if isinstance(error, dict) else {}
        said = f"{details.get('type', '')}: {details.get('message', '')}" if details else ""
        value = frame.get("value")
        seconds = frame.get("seconds")
        return cls(
            text,
            value if isinstance(value, dict) else None,
            said or str(frame.get("why", "")),
            _texts(frame.get("confirm")),
            _texts(frame.get("changed")),
            _texts(frame.get("bound")),
            float(seconds) if isinstance(seconds, (int, float)) else None,
            details,
        )


@dataclass(frozen=True)
class Stored:
    """What a stopped target has stored of its tensors."""

    roles: tuple[str, ...] = ()
    """Of those that are in the recording now, of the call where it is stopped."""
    why: str = ""
    """Why others are not."""

    @classmethod
    def of(cls, frame: Frame) -> Stored:
        """Read a notice of the target's."""
        return cls(_texts(frame.get("roles")), str(frame.get("why", "")))


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, list) else ()
