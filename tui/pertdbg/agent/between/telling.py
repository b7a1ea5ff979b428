"""How torch's functions are followed: their arguments at the call, and how they end."""

from __future__ import annotations

import threading
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pertdbg.agent.between.events import Ref
from pertdbg.agent.quiet import Quiet, Ungraded, leave_all
from pertdbg.agent.seams.locals import read_locals

if TYPE_CHECKING:
    from pertdbg.agent.between.flow import Flow

_TEXT = 200
"""Longest message that is kept, in characters."""

End = Callable[[Any, "BaseException | None"], None]


class Told:
    """One call that is followed to its end."""

    by_line = False

    def __init__(self, end: End) -> None:
        self._end = end

    def line(self, frame: types.FrameType) -> None:
        """Lines say nothing here."""

    def end(self, _: types.FrameType, value: Any, error: BaseException | None) -> None:
        """The function returned, or raised."""
        self._end(value, error)


def told(
    flow: Flow,
    frame: types.FrameType,
    names: frozenset[str],
    begin: Callable[[dict[str, Any]], Told | None],
) -> Told | None:
    """Have a call's arguments read, unseen; a failure ends what is followed, not the target."""
    if flow.off is not None or threading.get_ident() != flow.thread:
        return None
    try:
        scope = read_locals(frame, names, traced=True)
        with Quiet(), Ungraded():
            return begin(scope)
    except Exception as error:  # noqa: BLE001 - whatever fails in us must not fail the target
        flow.fail(error)
        return None
    except BaseException as error:  # Ctrl-C
        leave_all(error)
        raise


def words(error: BaseException | None) -> str | None:
    """Give an exception's type and the first line of its message."""
    if error is None:
        return None
    try:
        first = str(error).partition("\n")[0]
    except Exception:  # noqa: BLE001 - a `__str__` of the target's may fail
        first = ""
    name = type(error).__name__
    return f"{name}: {first}"[:_TEXT] if first else name[:_TEXT]


def weak(thing: Any) -> Ref:
    """Refer to something weakly."""
    return weakref.ref(thing)
