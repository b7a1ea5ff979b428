"""From the locals of a function to the roles of a call and the numbers that its code declares."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from pertdbg.agent.adapter import Missing, number_in, thing_in
from pertdbg.agent.base import dtype_of, shape_of
from pertdbg.agent.probe import Roles
from pertdbg.agent.seams.calls import Numbers, Scene
from pertdbg.agent.seams.image import difference
from pertdbg.agent.seams.norms import SILENT, Norms, of_dims
from pertdbg.agent.seams.plans import Plan
from pertdbg.agent.seams.spec import Form, Spec
from pertdbg.agent.tensors import is_tensor
from pertdbg.record import BoundKind, BoundOf, Unknown

Scope = Mapping[str, Any]

_NORMS = {"inf": ("inf",), "l2": ("l2", "l_2"), "l1": ("l1", "l_1"), "l0": ("l0", "l_0")}
"""Words in the name of a norm, or of a class, that say which one it is."""


def subject_of(plan: Plan, scope: Scope) -> torch.Tensor | None:
    """Give the tensor that a loop moves; None while there is none, or if it is a weight."""
    found = first_tensor(plan.spec.delta or (plan.loop.subject,), scope)
    if found is None:
        return None
    # What a person or an adapter calls a delta may be a parameter, and what is added to an input.
    named = plan.spec.subject or plan.loop.added
    if not named and issubclass(type(found), torch.nn.Parameter):
        return None
    dtype = dtype_of(found)
    return found if dtype.is_floating_point or dtype.is_complex else None


def form_of(plan: Plan) -> Form:
    """Say whether the subject of a plan is delta, or the perturbed image."""
    return plan.spec.form or ("delta" if plan.loop.guesses.is_delta else "image")


def first_tensor(expressions: Iterable[str], scope: Scope, like: Any = None) -> Any:
    """Give the first tensor that one of the expressions stands for, of the shape of another.

    One sample without the dimension of its batch has the shape of a batch of it.
    """
    for expression in expressions:
        try:
            value = thing_in(expression, scope)
        except Missing:
            continue
        if is_tensor(value) and (like is None or _alike(value, like)):
            return value
    return None


def _alike(one: Any, other: Any) -> bool:
    shapes = tuple(shape_of(one)), tuple(shape_of(other))
    return shapes[0] == shapes[1] or (1, *shapes[0]) == shapes[1]


def scene_of(
    plan: Plan, scope: Scope, numbers: Numbers, first: weakref.ref[Any] | None = None
) -> Scene:
    """Say what stands in the roles.

    Args:
        plan: The loop.
        scope: The function's locals.
        numbers: What the code declares.
        first: The subject as it was first: the original of an argument that is itself moved.
    """
    subject = subject_of(plan, scope)
    if subject is None:
        return Scene()
    guesses, spec, form = plan.loop.guesses, plan.spec, form_of(plan)
    clean = first_tensor(spec.input, scope, subject)
    if clean is None:
        names = guesses.added_to if form == "delta" else guesses.made_from
        clean = first_tensor(names, scope, subject)
    if clean is None and form == "image" and plan.loop.parameter and first is not None:
        clean = first()
    if form == "delta" or clean is None:
        perturbed = first_tensor(spec.perturbed_input, scope)
        return Scene(Roles(subject, clean, perturbed))
    return image_scene(subject, clean, numbers.bound)


def image_scene(perturbed: Any, clean: Any, bound: float | None = None) -> Scene:
    """Say what stands in the roles where delta is a perturbed tensor minus the clean one."""
    try:
        delta = difference(perturbed, clean, bound)
    except (RuntimeError, TypeError) as error:  # such as two devices, or a sparse tensor
        why = f"perturbed minus clean: {str(error).partition(chr(10))[0][:200]}"
        return Scene(Roles(None, clean, perturbed), (Unknown("delta", why),))
    return Scene(Roles(delta, clean, perturbed), image=True)


def numbers_of(
    spec: Spec,
    scope: Scope,
    bounds: Iterable[str] = (),
    steps: Iterable[str] = (),
    *,
    norms: Norms = SILENT,
    guards: frozenset[str] = frozenset(),
    of: Any = None,
) -> Numbers:
    """Read the numbers that the code declares.

    Args:
        spec: The adapter, whose expressions come first.
        scope: What its names stand for.
        bounds: Expressions that the source limits each element to.
        steps: Expressions that the source multiplies the gradient by.
        norms: What the source says of L2 norms.
        guards: Expressions that only keep a denominator from being zero.
        of: The tensor whose norm may be limited.
    """
    rate, _ = first_number((*spec.learning_rate, *steps), scope)
    bound, _ = first_number(bounds, scope)
    if bound is None and norms.limit is not None:
        limit, expression = first_number([norms.limit], scope)
        if limit is not None:
            return _limited(spec, norms, limit, expression, of, rate)
    norm = None
    if bound is None:
        named = [each for each in spec.bound if each not in guards]
        bound, expression = first_number(named, scope)
        norm = None if bound is None else _norm(spec, scope)
        if bound is not None and norm != "inf":
            return _of_another_norm(spec, norms, norm, bound, expression, of, rate)
    return Numbers(bound, _kind(spec, bound), learning_rate=rate)


def _kind(spec: Spec, bound: float | None) -> BoundKind | None:
    return None if bound is None else spec.bound_kind or "always"


def _limited(
    spec: Spec, norms: Norms, limit: float, expression: str, of: Any, rate: float | None
) -> Numbers:
    """Give a limit of a norm that the source itself sets."""
    if norms.other is not None:
        why = f"{expression} = {limit:g} limits the L2 norm of {norms.other}"
    else:
        why = f"{expression} = {limit:g} limits another norm than that of each element"
    unknown = (Unknown("delta.bound", why),)
    whose = None if norms.other is not None else _whose(norms, of)
    if whose is None:
        return Numbers(learning_rate=rate, unknown=unknown)
    return Numbers(None, _kind(spec, limit), limit, whose, rate, unknown)


def _of_another_norm(
    spec: Spec,
    norms: Norms,
    norm: str | None,
    bound: float,
    expression: str,
    of: Any,
    rate: float | None,
) -> Numbers:
    """Give a limit that an adapter names, where it limits no element by itself."""
    why = f"{expression} = {bound:g} limits another norm than that of each element"
    unknown = (Unknown("delta.bound", why),)
    whose = spec.norm_of if norm == "l2" else None
    if norm is None and norms.told and norms.dims is not None:
        whose = _whose(norms, of)  # no other norm is spoken of, and not only to print it
    if whose is None:
        return Numbers(learning_rate=rate, unknown=unknown)
    return Numbers(None, _kind(spec, bound), bound, whose, rate, unknown)


def _whose(norms: Norms, of: Any) -> BoundOf | None:
    return None if of is None else of_dims(norms.dims, len(shape_of(of)))


def first_number(expressions: Iterable[str], scope: Scope) -> tuple[float | None, str]:
    """Give the first finite number that one of the expressions comes to, and the expression."""
    for expression in expressions:
        try:
            value = number_in(expression, scope)
        except Missing:
            continue
        if value is not None and math.isfinite(value):
            return value, expression
    return None, ""


def _norm(spec: Spec, scope: Scope) -> str | None:
    """Say which norm the bound limits: `inf` is that of each element; None where it is not said."""
    for expression in spec.norm_name:
        try:
            value = thing_in(expression, scope)
        except Missing:
            continue
        if isinstance(value, (int, float)):
            return {math.inf: "inf", 2: "l2", 1: "l1"}.get(value)
        name = (value if isinstance(value, str) else type(value).__name__).lower()
        for norm, words in _NORMS.items():
            if any(word in name for word in words):
                return norm
    return spec.norm
