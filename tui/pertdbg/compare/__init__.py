"""Recordings beside each other: where they part, and how far. Without torch or a screen."""

from __future__ import annotations

from pertdbg.compare.differ import Comparison, FactDifferences, Place, compare
from pertdbg.compare.facts import Difference, Kind, differences
from pertdbg.compare.merged import Merged
from pertdbg.compare.outline import Step, in_kind

__all__ = [
    "Comparison",
    "Difference",
    "FactDifferences",
    "Kind",
    "Merged",
    "Place",
    "Step",
    "compare",
    "differences",
    "in_kind",
]
