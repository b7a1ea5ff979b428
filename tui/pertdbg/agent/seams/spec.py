"""An adapter as the agent has it: plain data that the host read from a TOML file."""

from __future__ import annotations

import ast
import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pertdbg.record import BoundKind, BoundOf

Seam = Literal["method", "weights", "loop", "function"]
Form = Literal["delta", "image"]


@dataclass(frozen=True)
class Spec:
    """How one kind of perturbation is recognised, and where its tensors and numbers stand.

    Where several expressions are given, the first that leads to a value is taken.
    """

    name: str
    title: str
    seam: Seam
    modules: tuple[str, ...] = ()
    """Patterns; the module of the function or class must match one."""
    functions: tuple[str, ...] = ()
    """Patterns; the name of the function or method must match one."""
    methods: tuple[str, ...] = ()
    """Methods that a class must have."""
    uses: tuple[tuple[str, ...], ...] = ()
    """Names that the code must use, at least one of each group."""
    subject: tuple[str, ...] = ()
    """Locals that may be delta or the perturbed image; empty for any."""
    gradient_calls: tuple[str, ...] = ()
    """Functions that give the subject's gradient, beside `autograd.grad` and `.grad`."""
    form: Form | None = None
    """Whether the subject is delta, or the perturbed image; None: the code says it."""
    delta: tuple[str, ...] = ()
    """The subject's tensor, where the local itself is none."""
    leaf: tuple[str, ...] = ()
    """Where a function that is called inside keeps a copy of the subject, to take its gradient."""
    input: tuple[str, ...] = ()
    perturbed_input: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    """The module whose weights are perturbed."""
    step: tuple[str, ...] = ()
    """A mapping of weight names that says what is going to be moved."""
    bound: tuple[str, ...] = ()
    bound_kind: BoundKind | None = None
    learning_rate: tuple[str, ...] = ()
    norm: str | None = None
    """Norm that the bound limits: `inf` is each element."""
    norm_name: tuple[str, ...] = ()
    """Where the code says which norm."""
    norm_of: BoundOf | None = None
    """What has the L2 norm that the bound limits, where it limits one."""
    relative_bound: tuple[str, ...] = ()
    """Limit of the L2 norm of what is added to weights, as a multiple of their own norm."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Spec:
        """Build it from what the host sent: JSON of the TOML file, which the host has checked."""
        flat: dict[str, Any] = {key: data[key] for key in ("name", "title", "seam")}
        for table in ("match", "roles", "numbers"):
            flat.update(data.get(table, {}))
        if "uses" in flat:
            flat["uses"] = tuple(_listed(group) for group in flat["uses"])
        plain = ("name", "title", "seam", "form", "bound_kind", "norm", "norm_of", "uses")
        fields: dict[str, Any] = {k: v if k in plain else _listed(v) for k, v in flat.items()}
        return cls(**fields)

    def fits_names(self, module: str, function: str) -> bool:
        """Say whether a function of this name in this module may be meant."""
        return _any(module, self.modules) and _any(function, self.functions)

    def missing_names(self, used: frozenset[str]) -> tuple[str, ...] | None:
        """Give the first group of names of which the code uses none."""
        return next((group for group in self.uses if not used.intersection(group)), None)

    def expressions(self) -> tuple[str, ...]:
        """Give every expression that is looked up in a function's locals."""
        return (
            *(*self.delta, *self.input, *self.perturbed_input, *self.model, *self.step),
            *(*self.bound, *self.learning_rate, *self.norm_name, *self.relative_bound),
        )


def roots(expressions: Iterable[str]) -> frozenset[str]:
    """Give the names that expressions begin with: ``self`` of ``self.eps / 2``."""
    names: set[str] = set()
    for expression in expressions:
        tree = ast.parse(expression, mode="eval")
        names.update(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(names)


def _listed(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
