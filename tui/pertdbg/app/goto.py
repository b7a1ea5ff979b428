"""What can be typed at "go to"."""

from __future__ import annotations

from collections.abc import Callable

from pertdbg.app.numbers import count
from pertdbg.errors import PertdbgError

ASKED = "Go to call: a number, 50%, +10 or -10 from here, or #12 for the 12th record"


def parse(text: str, cursor: int, head: int, find: Callable[[int], int | None]) -> int:
    """Turn what was typed into the id of a record, which may lie beyond the head.

    Args:
        text: A call's number, a percentage, a distance, or an id after `#`.
        cursor: Id of the call that is shown.
        head: Id of the last call.
        find: Gives the id of the call with a number, None where there is none so far.

    Raises:
        PertdbgError: The text is none of these.
    """
    try:
        if text.endswith("%"):
            return min(max(round(float(text[:-1]) / 100 * head), 1), max(head, 1))
        if text.startswith("#"):
            return _positive(int(text[1:]))
        if text.startswith(("+", "-")):
            return max(cursor + int(text), 1)
        number = _positive(int(text.replace(",", "").replace("_", "")))
    except (ValueError, OverflowError):
        raise PertdbgError(f"{text!r} is no call: try 12, 50%, +10, -10 or #12") from None
    found = find(number)
    return max(number, head + 1) if found is None else found


def _positive(number: int) -> int:
    if number < 1:
        raise ValueError(number)
    return number


def beyond(id_: int, head: int) -> PertdbgError:
    """Say that a recording has no such call."""
    return PertdbgError(f"no call {count(id_)}: there are {count(head)}")
