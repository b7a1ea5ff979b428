"""The pages of the documentation that explain each kind of finding."""

from __future__ import annotations

import difflib
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.findings.kinds import KINDS

_FOLDER = Path(__file__).parent


def page(kind: str) -> str:
    """Give the page of a kind, in Markdown.

    Raises:
        PertdbgError: There is no such kind.
    """
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise PertdbgError(f"{kind}: no kind of finding{meant or ';'} there are {', '.join(KINDS)}")
    return (_FOLDER / f"{kind}.md").read_text(encoding="utf-8")
