"""The seam at torch's autograd engine: each `backward` and `autograd.grad`, when it has ended."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from pertdbg.agent.adapter import Missing, thing_in
from pertdbg.agent.base import C, grad_of, shape_of
from pertdbg.agent.seams.locals import read_locals
from pertdbg.agent.seams.spec import roots
from pertdbg.agent.seams.tracing import Active, Chosen
from pertdbg.agent.tensors import is_tensor, reads_grad

_FUNC: Any = C._functorch
_ARGUMENTS = frozenset({"args", "kwargs"})
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

    def gradient_of(
        self, subject: torch.Tensor, copies: tuple[str, ...], *, inside: bool = False
    ) -> torch.Tensor | None:
        """Find the gradient of a tensor.

        Args:
            subject: The tensor.
            copies: Where the functions inside keep a copy of it that gets the gradient instead.
            inside: They may keep one anywhere: a function that gives gradients was called.
        """
        if self.fills:
            own = own_gradient(subject)
            if own is not None:
                return own
            found = self._grad_of_copy(subject, copies)
            return self._grad_inside(subject) if found is None and inside else found
        pairs = list(zip(self._inputs, self._results, strict=False))
        same = [result for each, result in pairs if each is subject]
        anyhow = inside or bool(copies)
        alike = [result for each, result in pairs if anyhow and _alike(plain(each), subject)]
        found = next((result for result in (*same, *alike) if is_tensor(result)), None)
        return None if found is None else plain(found)

    def _grad_inside(self, subject: torch.Tensor) -> torch.Tensor | None:
        """Find the gradient of a leaf that a function inside made of a tensor."""
        for frame in self.inner:
            names = frozenset(frame.f_code.co_varnames)
            for leaf in read_locals(frame, names).values() if names else ():
                if _alike(leaf, subject) and not issubclass(type(leaf), torch.nn.Parameter):
                    gradient = own_gradient(leaf)
                    if gradient is not None:
                        return gradient
        return None

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


def plain(tensor: Any) -> Any:
    """Give the tensor that one of `torch.func`'s own stands for."""
    while is_tensor(tensor) and _FUNC.is_functorch_wrapped_tensor(tensor):
        tensor = _FUNC.get_unwrapped(tensor)
    return tensor


def _alike(other: Any, subject: torch.Tensor) -> bool:
    return is_tensor(other) and shape_of(other) == shape_of(subject)


Heard = Callable[[Backward, types.FrameType], None]
"""Is told of a pass, and of the frame of torch's that asked the engine for it."""


class Passes:
    """Follows the function of torch's that runs the engine: no frame of ours is on the stack."""

    def __init__(
        self, listens: Callable[[], bool], heard: Heard, beside: Chosen | None = None
    ) -> None:
        """Prepare.

        Args:
            listens: Whether anybody wants to be told just now: where not, nothing is in the way.
            heard: Is told when a pass has ended. It must not raise.
            beside: What follows the same function for another purpose.
        """
        self._listens, self._heard, self._beside = listens, heard, beside

    def begin(self, frame: types.FrameType) -> Active | None:
        """The engine is about to run."""
        beside = None if self._beside is None else self._beside.begin(frame)
        return _Pass(frame, self._heard, beside) if self._listens() else beside


class _Pass:
    """One pass under way."""

    by_line = False

    def __init__(self, frame: types.FrameType, heard: Heard, beside: Active | None) -> None:
        scope = read_locals(frame, _ARGUMENTS, traced=True)
        arguments, options = scope.get("args", ()), scope.get("kwargs", {})
        self._inputs = arguments[_INPUTS] if len(arguments) > _INPUTS else None
        self._fills = options.get("accumulate_grad", True)
        self._heard, self._beside = heard, beside

    def line(self, frame: types.FrameType) -> None:
        """Lines say nothing here."""

    def end(self, frame: types.FrameType, value: Any, error: BaseException | None) -> None:
        """The pass has ended."""
        if self._beside is not None:
            self._beside.end(frame, value, error)
        self._heard(Backward(self._inputs, value, fills=self._fills), frame)


def runs_engine(code: types.CodeType) -> bool:
    """Say whether a function is the one of torch's that runs the engine."""
    return code is getattr(_RUN, "__code__", None)


_RUN = getattr(torch.autograd.graph, "_engine_run_backward", None)
