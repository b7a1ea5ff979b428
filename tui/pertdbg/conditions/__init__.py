"""The language of conditions and watches: expressions over a record in plain field names.

``gradient.norm > 1e3``, ``not tensors.after.delta.is_leaf``, ``shares(input, perturbed_input)``,
``changed(gradient.norm)``, ``call % 100 == 0``. What is not known makes a comparison unknown,
which is neither true nor false. Nothing that is written here is ever run by Python: a text is
read by `ast`, checked against what is allowed, and becomes closures.

The agent uses `parse`, `Condition`, `NAMED` and `Counter`, which bring nothing but the standard
library. What reads recordings or the disk is looked up when first used.

    parse(text) -> Expression
    Expression.text, .fields, .kinds, .is_truth
    Expression.value(record, previous=None) -> value, None where it is unknown
    Expression.holds(record, previous=None) -> bool
    Expression.why_unknown(record, previous=None) -> str, empty where it is known
    Condition(text, hits=1, skip=0, layer=None, rank=None), Condition.of("EXPR; after 3 hits")
    Condition.holds(record, previous=None) -> bool
    NAMED: {name: Named(name, text, about)}
    field_names() -> names that an expression may use; complete(text) -> what may follow
    search(recording, condition, start, forward=True) -> id or None; Search in slices of time
    previous_of(recording, record) -> the layer's record before it
    series(recording, expression, start, end, points) -> Series; ExpressionSeries in slices
    Kept.load(target), Kept.save(): watches and conditions of a target, kept in a file
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pertdbg.conditions.condition import Condition, Counter
from pertdbg.conditions.errors import ConditionError
from pertdbg.conditions.expression import Expression, parse
from pertdbg.conditions.fields import complete, field_names
from pertdbg.conditions.named import NAMED, Named

if TYPE_CHECKING:
    from pertdbg.conditions.kept import Kept
    from pertdbg.conditions.plotted import ExpressionSeries, series
    from pertdbg.conditions.previous import previous_of
    from pertdbg.conditions.searching import Search, search

__all__ = [
    "NAMED",
    "Condition",
    "ConditionError",
    "Counter",
    "Expression",
    "ExpressionSeries",
    "Kept",
    "Named",
    "Search",
    "complete",
    "field_names",
    "parse",
    "previous_of",
    "search",
    "series",
]

_HOMES = {
    "ExpressionSeries": "plotted",
    "Kept": "kept",
    "Search": "searching",
    "previous_of": "previous",
    "search": "searching",
    "series": "plotted",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
