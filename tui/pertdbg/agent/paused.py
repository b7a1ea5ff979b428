"""What a stopped target can be asked for; no torch until somebody asks."""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pertdbg.wire import ANSWERS, Frame

_OURS = str(Path(__file__).parent)

_CALLED = (os.sep + "watch.py", os.sep + "module.py")
"""Files of the functions that stand in the place of the target's own."""

Asking = Callable[[], AbstractContextManager[None]]
"""What runs inside is no part of the run."""

Store = Callable[["Paused", Frame], Frame]
"""Stores tensors that are there in the recording, and gives the notice of it."""


@dataclass(slots=True)
class Shown:
    """A tensor whose values a person may want to see."""

    name: str
    tensor: Any
    role: str = ""
    """Under which it is stored, once it is."""


class Paused:
    """The names that mean something where the target is stopped. Lives as long as the stop."""

    def __init__(
        self,
        roles: Mapping[str, Any],
        owner: Callable[[], Any] | None = None,
        frame: types.FrameType | None = None,
        tensors: Callable[[], Mapping[str, Any]] | None = None,
        calls_us: bool = False,
    ) -> None:
        """Take note of what is there; nothing is looked up before somebody asks.

        Args:
            roles: Tensors by the names of their roles, beside the frame's own names.
            owner: Gives what `self` means, where the frame has no own.
            frame: The frame; the nearest one of the target's own code, if not given.
            tensors: Gives those to see the values of; they are the roles', if not given.
            calls_us: The frame has called a function of ours; no trace function runs.
        """
        self.roles, self._owner, self._frame = roles, owner, frame
        self._tensors, self._calls_us = tensors, calls_us
        self.place = ""
        """Which moment of the call it is, in words; nothing for its end."""
        self.own: dict[str, Any] = {}
        """Names that were bound by questions."""
        self.answered: Shown | None = None
        """The tensor that the last question gave."""
        self._shown: list[Shown] = []

    def shown(self) -> list[Shown]:
        """Give the tensors that are there: in the roles or, where there are none, in the locals."""
        if not self._shown:
            found = self.roles or self._local() if self._tensors is None else self._tensors()
            self._shown = [Shown(n, tensor) for n, tensor in found.items() if tensor is not None]
        return self._shown

    def answer(self, asking: Asking, store: Store, frame: Frame) -> Frame:
        """Answer a question, complete a text or store tensors; a failure is an answer too."""
        try:
            if frame.get("do") == "store":
                return store(self, frame)
            from pertdbg.agent import ask  # brings torch

            with asking():
                return ask.answer(self, frame)
        except Exception as error:  # noqa: BLE001 - whatever fails in us must not fail the target
            why = f"pertdbg could not answer: {type(error).__name__}: {str(error)[:200]}"
            now = ANSWERS[str(frame.get("do"))]
            return {"now": now, "number": frame.get("number"), "why": why}

    def _local(self) -> dict[str, Any]:
        from pertdbg.agent.tensors import is_tensor  # brings torch

        if self._frame is None:
            return {}
        found = _locals_of(self._frame, called_us=self._calls_us)
        return {name: value for name, value in found.items() if is_tensor(value)}

    def names(self) -> dict[str, Any]:
        """Give what each name means: as the frame sees it, then the roles, then questions' own."""
        frame, called_us = (self._frame, self._calls_us) if self._frame is not None else _nearest()
        found: dict[str, Any] = {}
        if frame is not None:
            local = _locals_of(frame, called_us=called_us)
            found = {**frame.f_globals, **local}
            owner = self._owner() if self._owner is not None else None
            if owner is not None:
                found.update({"caller": types.SimpleNamespace(**local), "self": owner})
        found.update({name: value for name, value in self.roles.items() if value is not None})
        found.update(self.own)
        return found


def _nearest() -> tuple[types.FrameType | None, bool]:
    """Give the innermost frame of the target's own code, and whether it called one of ours.

    Else it is traced: Python calls us from in between two of its lines.
    """
    inner: types.FrameType | None = None
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _is_foreign(frame):
        inner, frame = frame, frame.f_back
    return frame, inner is not None and inner.f_code.co_filename.endswith(_CALLED)


def _is_foreign(frame: types.FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    of_torch = isinstance(module, str) and f"{module}.".startswith("torch.")
    return of_torch or frame.f_code.co_filename.startswith(_OURS)


def _locals_of(frame: types.FrameType, *, called_us: bool) -> dict[str, Any]:
    """Give a frame's locals, and leave no copy of them behind.

    Before Python 3.13, `f_locals` of a function is a copy that stays with the frame. It is emptied
    again, except in a trace function before 3.12: what is taken out there is taken from the
    function. There the next line renews it.
    """
    values = frame.f_locals
    found = dict(values)
    optimized = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if sys.version_info < (3, 13) and optimized and (called_us or sys.version_info >= (3, 12)):
        values.clear()
    return found
