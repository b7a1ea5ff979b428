"""Counts the backward passes that the target starts, with no frame of ours in its tracebacks."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from pertdbg.agent.seams.locals import read_locals


class _Engine:
    """Stands in for torch's engine object; every use of `run_backward` is one backward pass.

    Reading the attribute counts, and the call itself goes straight to torch's own method: when
    the pass raises, no Python frame of ours is on the stack. Everything else is torch's.
    """

    def __init__(self, engine: Any, begins: Callable[[Any], None] | None) -> None:
        self._engine, self._begins = engine, begins
        self._started = 0

    @property
    def run_backward(self) -> Any:
        self._started += 1
        if self._begins is not None:
            self._begins(_roots(sys._getframe(1)))
        return self._engine.run_backward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class BackwardCounter:
    """Counts `Tensor.backward`, `autograd.backward` and `autograd.grad` from `install` on.

    torch.autograd.graph looks the engine up as `Variable._execution_engine` for each pass (seen
    in torch 2.4 to 2.13), which is where the counting object is put.
    """

    def __init__(self, begins: Callable[[Any], None] | None = None) -> None:
        """Prepare.

        Args:
            begins: Told of each pass before it runs, with the tensors that it begins at, where
                those can be had. It must not raise.
        """
        self._counting: _Engine | None = None
        self._begins = begins

    def install(self) -> None:
        """Begin to count; imports torch."""
        from torch.autograd import Variable

        self._counting = _Engine(Variable._execution_engine, self._begins)
        Variable._execution_engine = self._counting  # type: ignore[assignment]

    def remove(self) -> None:
        """Put torch's own engine object back, if ours is still there."""
        from torch.autograd import Variable

        if self._counting is not None and Variable._execution_engine is self._counting:  # type: ignore[comparison-overlap]
            Variable._execution_engine = self._counting._engine
        self._counting = None

    @property
    def started(self) -> int | None:
        """Passes started so far; None while nothing is counted."""
        return self._counting._started if self._counting else None


def _roots(frame: types.FrameType) -> Any:
    """Give what a pass begins at, as torch's own function that asks for it names it."""
    asking: types.FrameType | None = frame
    for _ in range(_NEAR):
        if asking is not None and _OUTPUTS in asking.f_code.co_varnames:
            return read_locals(asking, frozenset({_OUTPUTS})).get(_OUTPUTS)
        asking = None if asking is None else asking.f_back
    return None


_OUTPUTS = "t_outputs"
_NEAR = 3
"""Others may stand in the engine's place before us."""
