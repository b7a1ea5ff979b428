"""The optimizers of the target: when one is made, and when one moves."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from pertdbg.agent.between.modes import held_by
from pertdbg.agent.between.samples import is_parameter
from pertdbg.agent.between.telling import Told, told

if TYPE_CHECKING:
    from pertdbg.agent.between.flow import Flow


class OptimizersMade:
    """Follows the method that makes an optimizer."""

    by_line = False

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def begin(self, frame: types.FrameType) -> Told | None:
        """One is being made."""
        return told(self._flow, frame, frozenset({"self"}), self._made)

    def _made(self, scope: dict[str, Any]) -> None:
        self._flow.optimizers.made(scope["self"])


class OptimizerSteps:
    """Follows what torch puts around an optimizer's `step`."""

    by_line = False

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    def begin(self, frame: types.FrameType) -> Told | None:
        """One is about to move."""
        return told(self._flow, frame, frozenset({"args"}), self._steps)

    def _steps(self, scope: dict[str, Any]) -> None:
        optimizer = scope["args"][0]
        if any(is_parameter(tensor) for tensor in held_by(optimizer)):  # else it may move delta
            self._flow.stepped()
