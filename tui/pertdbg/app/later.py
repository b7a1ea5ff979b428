"""Work for a worker, begun only when the worker begins."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec

from textual.worker import WorkType

P = ParamSpec("P")


def later(
    work: Callable[P, Coroutine[Any, Any, None]], *args: P.args, **kwargs: P.kwargs
) -> WorkType[None]:
    """Put a call off.

    A coroutine that is made at once is left over, with a warning, by a worker that is cancelled
    before it begins (seen in Textual 8.2).
    """
    return partial(work, *args, **kwargs)
