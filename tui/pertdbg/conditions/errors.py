"""The error of an expression that is not one of the language."""

from __future__ import annotations

from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable

SHOWN = 60
"""Most characters of an expression that an error repeats."""


class ConditionError(PertdbgError):
    """An expression that can't be taken; the text names the place and what is allowed there."""

    def __init__(self, text: str, column: int, problem: str) -> None:
        """Say what is wrong.

        Args:
            text: The whole expression.
            column: Where the wrong part begins, from 1.
            problem: What is wrong, and what would be right.
        """
        shown = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
        super().__init__(f"`{printable(shown)}`, column {column}: {problem}")
        self.text, self.column, self.problem = text, column, problem
