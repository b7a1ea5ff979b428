"""Counts the backward passes that the target starts, with no frame of ours in its tracebacks."""

from __future__ import annotations

from typing import Any


class _Engine:
    """Stands in for torch's engine object; every use of `run_backward` is one backward pass.

    Reading the attribute counts, and the call itself goes straight to torch's own method: when
    the pass raises, no Python frame of ours is on the stack. Everything else is torch's.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._started = 0

    @property
    def run_backward(self) -> Any:
        self._started += 1
        return self._engine.run_backward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class BackwardCounter:
    """Counts `Tensor.backward`, `autograd.backward` and `autograd.grad` from `install` on.

    torch.autograd.graph looks the engine up as `Variable._execution_engine` for each pass (seen
    in torch 2.4 to 2.13), which is where the counting object is put.
    """

    def __init__(self) -> None:
        self._counting: _Engine | None = None

    def install(self) -> None:
        """Begin to count; imports torch."""
        from torch.autograd import Variable

        self._counting = _Engine(Variable._execution_engine)
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
