"""The one error that a person is meant to read."""

from __future__ import annotations


class PertdbgError(Exception):
    """Something that the person can put right; its text says what is wrong, where, and what to do.

    The command line prints it as one line that begins with ``pertdbg:`` and exits with 2.
    """
