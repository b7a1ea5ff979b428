"""Two recordings beside each other: where they part, and how far. Without torch or a screen."""

from __future__ import annotations

from pertdbg.compare.differ import Comparison, FactDifferences, Place, compare
from pertdbg.compare.facts import Difference, Kind, differences

__all__ = [
    "Comparison",
    "Difference",
    "FactDifferences",
    "Kind",
    "Place",
    "compare",
    "differences",
]
