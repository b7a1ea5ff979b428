"""The seam at torch's autograd engine: each `backward` and `autograd.grad`, when it has ended."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Variable

from pertdbg.agent.adapter import Missing, thing_in
from pertdbg.agent.base import grad_of, shape_of
from pertdbg.agent.seams.spec import roots
from pertdbg.agent.seams.tracing import read_locals
from pertdbg.agent.tensors import is_tensor, reads_grad

_INPUTS = 3
"""Place of the inputs among the engine's arguments behind the outputs (torch 2.4 to 2.14)."""


class Backward:
    """One pass through the engine that has just ended, well or not."""

    def __init__(self, inputs: Any, results: Any, *, fills: bool) -> None:
        self._inputs = inputs if isinstance(inputs, tuple) else ()
        self._results = results if isinstance(results, tuple) else ()
        self.fills = fills
        """Whether gradients go into `.grad`, rather than to the caller."""
        self.inner: list[types.FrameType] = []
        """Frames between the engine and the function that is asked about, innermost first."""

    def gradient_of(self, subject: torch.Tensor, copies: tuple[str, ...]) -> torch.Tensor | None:
        """Find the gradient of a tensor.

        Args:
            subject: The tensor.
            copies: Where the functions inside keep a copy of it that gets the gradient instead.
        """
        if self.fills:
            own = own_gradient(subject)
            return own if own is not None else self._grad_of_copy(subject, copies)
        pairs = list(zip(self._inputs, self._results, strict=False))
        same = [result for each, result in pairs if each is subject]
        alike = [result for each, result in pairs if copies and _alike(each, subject)]
        return next((result for result in (*same, *alike) if is_tensor(result)), None)

    def _grad_of_copy(self, subject: torch.Tensor, copies: tuple[str, ...]) -> torch.Tensor | None:
        names = roots(copies)
        for frame in self.inner if copies else ():
            scope = read_locals(frame, names)
            for expression in copies:
                try:
                    leaf = thing_in(expression, scope)
                except Missing:
                    continue
                if _alike(leaf, subject) and own_gradient(leaf) is not None:
                    return own_gradient(leaf)
        return None


def own_gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    """Give what is in a tensor's `.grad`; None where reading it would warn."""
    return grad_of(tensor) if reads_grad(tensor) else None


def _alike(other: Any, subject: torch.Tensor) -> bool:
    return is_tensor(other) and shape_of(other) == shape_of(subject)


class _Engine:
    """Stands in for the engine object; where somebody listens, each pass is told of."""

    def __init__(self, engine: Any, listens: Callable[[], bool], heard: Heard) -> None:
        self._engine, self._listens, self._heard = engine, listens, heard

    @property
    def run_backward(self) -> Any:
        run = self._engine.run_backward
        return self._telling(run) if self._listens() else run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def _telling(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            inputs = args[_INPUTS + 1] if len(args) > _INPUTS + 1 else None
            fills = kwargs.get("accumulate_grad", True)
            try:
                results = run(*args, **kwargs)
            except BaseException as error:
                self._heard(Backward(inputs, None, fills=fills), sys._getframe(1))
                # A bare raise adds no entry for this frame again (Python 3.11 and later).
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise
            self._heard(Backward(inputs, results, fills=fills), sys._getframe(1))
            return results

        return run_backward


Heard = Callable[[Backward, types.FrameType], None]
"""Is told of a pass, and of the frame that asked the engine for it."""


class Gradients:
    """Tells of each backward pass while somebody listens."""

    def __init__(self, listens: Callable[[], bool], heard: Heard) -> None:
        """Prepare; nothing is changed before `install`.

        Args:
            listens: Whether anybody wants to be told just now: where not, nothing is in the way.
            heard: Is told. It must not raise.
        """
        self._listens, self._heard = listens, heard
        self._engine: _Engine | None = None

    def install(self) -> None:
        """Stand in the engine's place, in front of whatever stands there already."""
        self._engine = _Engine(Variable._execution_engine, self._listens, self._heard)
        Variable._execution_engine = self._engine  # type: ignore[assignment]

    def remove(self) -> None:
        """Put back what was there, if we still stand in its place."""
        if self._engine is not None and Variable._execution_engine is self._engine:  # type: ignore[comparison-overlap]
            Variable._execution_engine = self._engine._engine
        self._engine = None
